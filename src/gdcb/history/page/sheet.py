"""The sheet: verdict and why, what was done, arms, time, people, tests, what it rests on."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any

from gdcb.history import sentences as say
from gdcb.history.page import tables
from gdcb.history.page.document import Assumption, Document
from gdcb.history.page.drawing import sign, timeline
from gdcb.history.page.glossary import GLOSSARY
from gdcb.history.page.read import read
from gdcb.history.page.style import CSS
from gdcb.history.page.tables import whole
from gdcb.history.sentences.hidden import OVERRIDDEN
from gdcb.history.sentences.verdicts import SINCE
from gdcb.pages.numbers import NONE, bracketed, share
from gdcb.pages.words import prose

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
        f"Log {run.log}" if run.log else "Log not named",
        f"instance {run.instance}" if run.instance else "",
    ]
    return f"""<!doctype html>
<html lang="en-GB"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{e(f"{TITLE}: {run.log or run.instance or run.verdict}")}</title>
<style>{CSS}</style></head><body>
<header><h1>{TITLE}</h1><p>{e(", ".join(part for part in about if part))}</p></header>
<main>{overridden(run)}{verdict(run)}{rests_on(run)}
{_section("done", "What was done with the history", _listed(treatment(run)))}
{_section("arms", "Arm by arm", arms(run))}
{_section("time", "Over time", over_time(run))}
{_section("further", "How far this can be relied on", tables.figures(further(run)))}
<div class="pair uneven">{_section("tests", "Tests", tests(run))}
<div>{_section("rows", "Rejected rows and doubtful columns", _listed(doubtful(run)))}
{_section("identity", "How this certificate was made", identity(run))}</div></div></main>
<footer>{signatures(run)}
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
    without = say.VERDICTS[run.override.without].replace("The", "the", 1)
    return (
        '<section class="override" aria-labelledby="override"><h2 id="override">'
        "⚠ A person overrode this certificate</h2>"
        f"<p>{prose(f'Without the override its verdict is “{run.override.without}”: {without}')} "
        f"The reason given is:</p><blockquote>{prose(run.override.reason)}</blockquote></section>"
    )


def verdict(run: Document) -> str:
    """Return the verdict in words, and why."""
    is_own = run.override is None
    colour = COLOURS[run.verdict] if is_own else "c-red"
    start, by = ("", "") if is_own else ("By override: ", ", by override")
    items = "".join(f"<li>{prose(reason)}</li>" for reason in run.why)
    return (
        f'<section class="verdict {colour}" aria-labelledby="verdict">'
        f'{sign(run.verdict)}<div><h2 id="verdict">{start}{prose(say.VERDICTS[run.verdict])}</h2>'
        f"<p>Verdict: <b>{run.verdict}</b>{by}. {prose(say.MEANING[run.verdict])}</p>"
        f"{f'<ul>{items}</ul>' if items else ''}</div></section>"
    )


def rests_on(run: Document) -> str:
    """Return the box of assumptions: which were tested, and what was found."""
    if not run.assumptions:
        words = "The certificate does not say. Nothing that it rests on was shown to be tested."
        return _box("rests", "What this rests on", f"<p>{prose(words)}</p>")
    items = "".join(
        f"<li><b>{prose(one.name)}.</b> "
        f'<span class="{look_of(one)}">{prose(one.state)}.</span> '
        f"{prose(one.result)}</li>"
        for one in run.assumptions
    )
    return _box("rests", "What this rests on", f"<ol>{items}</ol>")


def look_of(one: Assumption) -> str:
    """Return how an assumption's state looks: tested and nothing found, not tested, or it fails."""
    if one.is_doubted:
        return "doubted"
    return "tested" if one.state == say.assumptions.TESTED else "untested"


def _box(name: str, title: str, body: str) -> str:
    head = f'<h2 id="{name}">{html.escape(title)}</h2>'
    return f'<section class="{name}" aria-labelledby="{name}">{head}{body}</section>'


def treatment(run: Document) -> list[str]:
    """Say which rows are used, and how they count."""
    found = []
    if run.read is not None and run.rejected is not None and run.used is not None:
        counted = (int(run.read), int(run.rejected), int(run.used))
        found.append(say.rows_used(*counted, int(run.set_aside or 0)))
    if run.rows_from is not None and not any(one.startswith(SINCE) for one in run.reasons):
        found.append(say.rows_since(run.rows_from))
    if run.adjust:
        found.append(say.adjusted_by_regression(run.adjust))
    if run.reweight is not None:
        one = run.reweight
        clipped = one.clipped_share or 0.0
        found.append(say.reweighted(one.clip, clipped, one.bias_bound, one.is_logged))
    if run.overrides_weight is not None and run.contrast is not None:
        found.append(say.overrides_weight(run.overrides_weight))
    refused = [arm.name for arm in run.arms if arm.verdict == "refuse"]
    if refused and run.verdict != "refuse":
        found.append(say.arms_refused(refused, len(run.arms)))
    return [line for line in found if line and line not in run.reasons]


def arms(run: Document) -> str:
    """Return the table of arms, what its bars show, and why each arm has its verdict."""
    return tables.arms(run) + tables.legend(run) + tables.reasons(run)


def over_time(run: Document) -> str:
    """Return the timeline, and what changed when, under the same numbers."""
    changes = [*run.law_changes, *(one for gate in run.gates for one in gate.changes)]
    numbers = {id(change): i for i, change in enumerate(changes, start=1)}
    drawn = timeline(run, numbers)
    listed = tables.over_time(run, numbers)
    return f'<div class="pair drawn">{drawn}<div>{listed}</div></div>' if drawn else listed


def further(run: Document) -> list[tuple[str, str, str]]:
    """Return (what, figure, meaning) of people, missing outcomes, hidden causes and launch."""
    return [*_people(run), *_hidden(run), *_scaler(run), *_launch(run)]


def _meaning(run: Document, sentence: str) -> str:
    if any(sentence in one.result for one in run.assumptions):
        return "See what this rests on."
    return "See the reasons for the verdict." if sentence in run.reasons else sentence


def _people(run: Document) -> list[tuple[str, str, str]]:
    found = []
    one = run.contrast
    if one is None and run.gates:
        words = _meaning(run, say.overrides_not_logged())
        found.append(("Overridden less approved", NONE, words))
    elif one is not None:
        words, figure = "", bracketed(one.difference)
        if one.posterior is not None and one.difference is not None:
            told = (one.posterior, one.difference.mean, one.difference.low, one.difference.high)
            both = (say.overrides_private(*told), say.overrides_trusted(*told))
            # The certificate may draw its line elsewhere than at even odds, and fit the context by
            # other terms: what it says stands.
            words = next(
                (said for said in run.reasons if said.startswith(OVERRIDDEN)),
                both[one.posterior >= 0.5],
            )
            words = _meaning(run, words)
            figure += f"; nothing private: {share(one.posterior)}"
        counted = ((one.approved, "approved"), (one.overridden, "overridden"))
        figure += "".join(f"; {whole(n)} {kind}" for n, kind in counted if n is not None)
        found.append(("Overridden less approved", figure, words))
    if run.missing is not None:
        words = say.outcomes_missing(run.missing, run.missing_p, run.missing_is_selective)
        p = "" if run.missing_p is None else f", {say.chance(run.missing_p)}"
        found.append(("Missing outcomes", f"{share(run.missing)}{p}", _meaning(run, words)))
    return found


def _hidden(run: Document) -> list[tuple[str, str, str]]:
    found = []
    if run.arms_say or run.odds_ratio is not None:
        words = run.arms_say or say.sensitivity_arms(run.odds_ratio, run.odds_ratio_low)
        above = "above" if run.odds_ratio_is_beyond else "="
        size = NONE if run.odds_ratio is None else f"Λ* {above} {say.at_most(run.odds_ratio)}"
        if run.odds_ratio is not None and run.odds_ratio_low is not None:
            size += f", at least {say.at_most(run.odds_ratio_low)}"
        found.append(("Hidden cause, arms", size, _meaning(run, words)))
    if run.slopes_say or run.robustness_value is not None:
        words = run.slopes_say or say.sensitivity_slopes(run.robustness_value)
        size = NONE if run.robustness_value is None else share(run.robustness_value)
        found.append(("Hidden cause, effect", size, _meaning(run, words)))
    return found


def _scaler(run: Document) -> list[tuple[str, str, str]]:
    """Return the line of the scaler: its δ̂ against what ran."""
    if not run.scaler_says:
        return []
    figures = []
    for name, low, high, ran_low, ran_high in run.scaler_spans:
        if low is None or high is None:
            continue
        of = f"{name}: " if len(run.scaler_spans) > 1 else ""
        figure = f"{of}δ̂ {say.short(low)} to {say.short(high)}"
        if ran_low is not None and ran_high is not None:
            figure += f"; ran {say.short(ran_low)} to {say.short(ran_high)}"
        figures.append(figure)
    return [("Scaler", "; ".join(figures) or NONE, run.scaler_says)]


def _launch(run: Document) -> list[tuple[str, str, str]]:
    found = []
    eta, tv, product = run.transport
    if eta is not None and tv is not None and product is not None:
        size = f"η {say.short(eta)} × {say.short(tv)} = {say.short(product)}"
        words = say.transport(eta, tv, product, run.is_ungated)
        found.append(("Change in execution", say.short(tv) if run.is_ungated else size, words))
    osc, apart, value = run.logged_bias
    if osc is not None and apart is not None and value is not None:
        size = f"{say.short(osc)} × {say.short(apart)} = {say.short(value)}"
        words = run.logged_bias_says or say.logged_bias(osc, apart, value)
        found.append(("Bias from logged contexts", size, words))
    ratio = run.variance_ratio
    if ratio is not None:
        words = run.advice or say.variance(ratio.mean, ratio.low, ratio.high)
        found.append(("Variance ratio", bracketed(ratio), words))
    return found


def tests(run: Document) -> str:
    """Return the tests and the error rate that they share."""
    if not run.tests:
        return "<p>No test was made.</p>"
    made = sum(one.p is not None for one in run.tests)
    words = "" if run.level is None or not made else say.family(run.level, made, run.is_dependent)
    return f"{f'<p>{prose(words)}</p>' if words else ''}{tables.tests(run)}"


def doubtful(run: Document) -> list[str]:
    """Say which rows were rejected and which columns give something away."""
    if run.rejected == 0 and not run.rejections:
        found = ["No row was rejected."]
    else:
        found = [tables.rejected(one) for one in run.rejections]
    if run.read and run.rejected:
        of = f"{run.rejected:,.0f} of {run.read:,.0f}"
        found.insert(0, f"{of} rows were rejected.")
    return [*found, *(run.leaks or ["No column was found that gives the outcome away."])]


def identity(run: Document) -> str:
    """Return what is needed to make the certificate again, and to tell that it is of this log."""
    limits = [
        f"family-wise error rate {say.short(100 * run.level)} % if rows are independent"
        if run.level is not None
        else "",
        f"margin {say.short(run.margin)} {run.unit}".strip() if run.margin is not None else "",
    ]
    facts = {
        "Fingerprint": run.fingerprint,
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
