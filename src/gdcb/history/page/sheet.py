"""The sheet: verdict and why, what was done, arms, time, people, tests, what it rests on."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any

from gdcb.history import sentences as say
from gdcb.history.page import tables
from gdcb.history.page.document import Change, Document, read
from gdcb.history.page.drawing import sign, timeline
from gdcb.history.page.glossary import GLOSSARY
from gdcb.history.page.style import CSS
from gdcb.pages.numbers import share
from gdcb.pages.words import prose, some

COLOURS = {"direct": "c-green", "adjust": "c-ours", "reweight": "c-purple", "refuse": "c-red"}
TITLE = "Certificate of a decision history"


def certificate_page(document: Mapping[str, Any]) -> str:
    """Return a certificate as one self-contained HTML page, to be filed.

    Parameters
    ----------
    document : the document of a certificate, as `gdcb check --json` prints it; what is null is
        left out. Beside the certificate's own keys it may have `command`, how it was made, and
        `period` {from, to}, when the log begins and ends

    Examples
    --------
    >>> "The history must not be used." in certificate_page({"verdict": "refuse"})
    True
    """
    run = read(document)
    e = html.escape
    about = [
        f"Instance {run.instance}" if run.instance else "",
        f"log {run.log}" if run.log else "",
    ]
    return f"""<!doctype html>
<html lang="en-GB"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{e(f"{TITLE}: {run.log or run.instance or run.verdict}")}</title>
<style>{CSS}</style></head><body>
<header><h1>{TITLE}</h1><p>{e(", ".join(part for part in about if part))}</p></header>
<main>{overridden(run)}{verdict(run)}
{_section("done", "What was done with the history", _listed(treatment(run)))}
{_section("arms", "Arm by arm", tables.legend(run) + tables.arms(run))}
{_section("time", "Over time", over_time(run))}
<div class="pair">{_section("people", "People and missing outcomes", _listed(people(run)))}
{_section("reach", "How far this can be relied on", _listed(reach(run)))}</div>
{_section("tests", "Tests", tests(run))}
{_section("rows", "Rejected rows and doubtful columns", _listed(doubtful(run)))}</main>
<footer>{_section("identity", "What this certificate rests on", identity(run))}
{signatures(run)}
{_section("words", "Words", glossary())}</footer>
</body></html>
"""


def _section(name: str, title: str, body: str) -> str:
    return (
        f'<section aria-labelledby="{name}"><h2 id="{name}">{html.escape(title)}</h2>{body}'
        "</section>"
    )


def _listed(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{prose(line)}</li>" for line in lines if line)
    return f"<ul>{items}</ul>" if items else "<p>The certificate says nothing of this.</p>"


def overridden(run: Document) -> str:
    """Return the box that says that a person overrode the verdict, or nothing."""
    if run.override is None:
        return ""
    without = say.VERDICTS[run.override.without]
    return (
        '<section class="override" aria-labelledby="override"><h2 id="override">'
        "⚠ A person overrode this certificate</h2>"
        f"<p>{prose(f'Without the override its verdict is “{run.override.without}”: {without}')} "
        f"The reason given is:</p><blockquote>{prose(run.override.reason)}</blockquote></section>"
    )


def verdict(run: Document) -> str:
    """Return the verdict in words, and why."""
    by = ", by override" if run.override is not None else ""
    why = "".join(f"<li>{prose(reason)}</li>" for reason in run.reasons)
    return (
        f'<section class="verdict {COLOURS[run.verdict]}" aria-labelledby="verdict">'
        f'{sign(run.verdict)}<div><h2 id="verdict">{prose(say.VERDICTS[run.verdict])}</h2>'
        f"<p>Verdict: <b>{run.verdict}</b>{by}. {prose(say.MEANING[run.verdict])}</p>"
        f"{f'<ul>{why}</ul>' if why else ''}</div></section>"
    )


def treatment(run: Document) -> list[str]:
    """Say which rows are used, and how they count."""
    found = []
    if run.read is not None and run.rejected is not None and run.used is not None:
        found.append(say.rows_used(int(run.read), int(run.rejected), int(run.used)))
    if run.rows_from is not None:
        found.append(say.rows_since(run.rows_from))
    if run.adjust:
        found.append(say.adjusted_by_regression(run.adjust))
    if run.reweight is not None:
        one = run.reweight
        clipped = one.clipped_share or 0.0
        found.append(say.reweighted(one.clip, clipped, one.bias_bound, one.is_logged))
    if run.overrides_weight is not None:
        found.append(say.overrides_weight(run.overrides_weight))
    refused = [arm.name for arm in run.arms if arm.verdict == "refuse"]
    if refused and run.verdict != "refuse":
        found.append(say.arms_refused(refused, len(run.arms)))
    return found


def over_time(run: Document) -> str:
    """Return the timeline, and what changed when, in sentences with the same numbers."""
    changes: list[tuple[Change, str]] = [
        (one, say.reward_law_changed(one.time, one.what or "what is not known", one.p))
        for one in run.law_changes
    ]
    rest = []
    if not changes and run.law_is_stable:
        rest.append(say.reward_law_stable(run.law_p))
    for gate in run.gates:
        changes += [
            (one, say.gate_changed(gate.name, one.time, one.before, one.after, one.p))
            for one in gate.changes
        ]
        rest += [] if gate.changes else [say.gate_stable(gate.name)]
        if gate.eta is not None:
            rest.append(say.contraction(gate.name, gate.eta, gate.eta_high))
    numbered = list(enumerate((one for one, _ in changes), start=1))
    items = "".join(f"<li>{prose(words)}</li>" for _, words in changes)
    drawn = timeline(run, numbered) if changes or run.gates or run.law_is_stable else ""
    others = _listed(rest) if rest or not items else ""
    return f"{drawn}{f'<ol>{items}</ol>' if items else ''}{others}"


def people(run: Document) -> list[str]:
    """Say whether overrides carry private information, and which outcomes are missing."""
    found = []
    one = run.contrast
    if one is None:
        found.append(say.overrides_not_logged())
    elif one.posterior is not None and one.difference is not None:
        phrase = say.overrides_private if one.posterior < 0.5 else say.overrides_trusted
        size = one.difference
        found.append(phrase(one.posterior, size.mean, size.low, size.high))
    if one is not None and one.approved is not None and one.overridden is not None:
        rows = f"{some(one.approved, 'approved row')} and {some(one.overridden, 'overridden row')}"
        found.append(f"{rows} were compared.")
    if run.missing is not None:
        found.append(say.outcomes_missing(run.missing, run.missing_p, run.missing_is_selective))
    return found


def reach(run: Document) -> list[str]:
    """Say how strong a hidden cause must be, what is the worst case, and what follows of launch."""
    found = []
    if run.arms_say or run.odds_ratio is not None:
        found.append(run.arms_say or say.sensitivity_arms(run.odds_ratio))
    if run.slopes_say or run.robustness_value is not None:
        found.append(run.slopes_say or say.sensitivity_slopes(run.robustness_value))
    eta, tv, product = run.transport
    if eta is not None and tv is not None and product is not None:
        found.append(say.transport(eta, tv, product))
    osc, apart, value = run.worst_case
    if osc is not None and apart is not None and value is not None:
        found.append(say.worst_case(osc, apart, value))
    ratio = run.variance_ratio
    if ratio is not None:
        found.append(run.advice or say.variance(ratio.mean, ratio.low, ratio.high))
    return found


def tests(run: Document) -> str:
    """Return the tests and the error rate that they share."""
    if not run.tests:
        return "<p>No test was made.</p>"
    made = sum(one.p is not None for one in run.tests)
    words = "" if run.level is None or not made else say.family(run.level, made)
    return f"{f'<p>{prose(words)}</p>' if words else ''}{tables.tests(run)}"


def doubtful(run: Document) -> list[str]:
    """Say which rows were rejected and which columns give something away."""
    if run.rejected == 0 and not run.rejections:
        found = ["No row was rejected."]
    else:
        found = [tables.rejected(one) for one in run.rejections]
    if run.read and run.rejected:
        found.insert(0, f"{share(run.rejected / run.read)} of the rows read were rejected.")
    return [*found, *(run.leaks or ["No column was found that gives the outcome away."])]


def identity(run: Document) -> str:
    """Return what is needed to make the certificate again, and to tell that it is of this log."""
    limits = [
        f"family-wise error rate {say.short(100 * run.level)} %" if run.level is not None else "",
        f"margin {say.short(run.margin)} {run.unit}".strip() if run.margin is not None else "",
    ]
    facts = {
        "Log": run.log,
        "Fingerprint of the log (SHA-256)": run.fingerprint,
        "Instance": run.instance,
        "Settings": ", ".join(part for part in limits if part),
        "Version": f"gdcb {run.version}" if run.version else "",
        "Command": run.command,
    }
    rows = "".join(
        f"<dt>{name}</dt><dd><code>{html.escape(value)}</code></dd>"
        for name, value in ((name, value or "not recorded") for name, value in facts.items())
    )
    return f'<dl class="facts">{rows}</dl>'


def signatures(run: Document) -> str:
    """Return the lines to sign on; an override is said again where it is signed for."""
    again = " (with the override above)" if run.override is not None else ""
    names = (f"Prepared by{again}", f"Reviewed by{again}", "Date")
    lines = "".join(f"<p>{name}</p>" for name in names)
    return f'<section class="signatures" aria-label="Signatures">{lines}</section>'


def glossary() -> str:
    """Return the words that are not everyday ones."""
    rows = "".join(
        f"<div><dt>{prose(word)}</dt> <dd>{prose(meaning)}.</dd></div>"
        for word, meaning in GLOSSARY.items()
    )
    return f'<dl class="glossary">{rows}</dl>'
