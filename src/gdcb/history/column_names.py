"""The words of column names, and which part of a log they name."""

from __future__ import annotations

import re

# Words that name a part, the likeliest first.
WORDS = {
    "recommended": ("recommended", "recommendation", "proposed", "proposal", "suggested"),
    "status": ("status", "verdict", "approval", "approved"),
    "outcome_time": (
        *("outcome", "settled", "paid", "reported", "observed", "resolved", "matured", "realised"),
        *("realized", "result", "returned", "repaid", "converted", "clicked", "booked", "sold"),
        *("purchased", "bought", "won", "completed", "delivered", "cancelled"),
        *("canceled", "refunded", "closed", "recovered", "conversion", "settlement", "payment"),
        *("abgeschlossen", "bezahlt", "gebucht", "verkauft", "gekauft"),
    ),
    "time": (
        "decided",
        "decision",
        "timestamp",
        "datetime",
        "time",
        "created",
        "date",
        "ts",
        "when",
    ),
    "propensity": ("propensity", "pscore", "probability", "prob"),
    "reviewer": ("reviewer", "approver", "manager", "moderator", "physician", "operator"),
    "unit": (
        *("unit", "listing", "store", "shop", "hotel", "tenant", "ward", "patient", "branch"),
        *("account", "customer", "product", "sku", "site"),
    ),
    "action": (
        *("executed", "action", "price", "rate", "apr", "dose", "discount", "bid", "offer"),
        *("treatment", "arm", "tool", "amount"),
    ),
    "outcome": (
        *("outcome", "booked", "success", "converted", "conversion", "clicked", "click", "repaid"),
        *("accepted", "purchased", "bought", "sold", "won", "recovered", "response", "y"),
    ),
    "reward": ("reward", "revenue", "profit", "payoff", "gain", "value"),
}
# A price among these words is not the one that was set.
OTHER = {"base", "list", "reference", "market", "competitor", "old", "previous", "last", "cost"}
# Words of what an action may be relative to, the likeliest first.
BASES = ("base", "list", "reference", "rack", "standard", "market", "usual")
# What such a column holds was known only when all was over.
AFTERWARDS = {
    *("after", "result", "outcome", "final", "actual", "paid", "cancelled", "canceled"),
    *("cancellation", "refund", "refunded", "completed", "delivered", "revenue", "profit"),
    *("payout", "earned", "realised", "realized", "reward", "ergebnis", "umsatz", "gewinn"),
    *("erloes", "ertrag", "belohnung", "storniert", "bezahlt", "geliefert", "abgeschlossen"),
}
BEFORE = {"previous", "prior", "past", "last", "before", "earlier", "prev", "lag", "lagged"}
BEFORE |= {"historical", "vorher", "vorherige", "vorjahr", "letzte", "letzter", "letztes"}
FIRST_KNOWN = BEFORE | OTHER | {*BASES}  # what such names say was known before the action
LATE = {"status", "end", "ended", "closed", "paid", "updated"}  # times of what came later
# Times of other things than the decision or its outcome.
OTHER_TIMES = LATE | {"birth", "born", "due", "expiry", "expires", "modified", "changed"}
ID = {"id", "uuid", "guid", "index"}
NUMBERED = ID | {"no", "nr", "num", "number", "code", "name", "key", "ref"}
PLAIN = {"is", "has", "was", "of", "the", "y"}  # words that say nothing of an outcome
# Parts of a log other than its context. Such words say so anywhere in a name, ...
RESERVED = {
    "a label of the scaler": ("label", "labelled", "labeled"),
    "the probability of the action": ("propensity", "propensities", "pscore"),
    "a proposal": (
        *(*WORDS["recommended"], "recommend", "suggestion", "suggest", "empfohlen", "empfehlung"),
        *("vorschlag", "vorgeschlagen"),
    ),
    "what became of a proposal": (
        *(
            "override",
            "overridden",
            "overrode",
            "overruled",
            "overriding",
            "veto",
            "vetoes",
            "vetoed",
        ),
        *("ueberstimmt", "uebersteuert"),
    ),
    "who answered a proposal": (
        *("reviewer", "approver", "moderator", "pruefer", "genehmiger", "entscheider"),
    ),
    "an outcome": (
        *("booked", "converted", "conversion", "clicked", "click", "repaid", "accepted"),
        *("purchased", "bought", "sold", "won", "recovered", "took", "tookup", "takeup"),
        *("gebucht", "verkauft", "gekauft", "geklickt", "konvertiert", "zurueckgezahlt"),
    ),
}
# Said of what somebody did with a proposal; with 'by' or 'von', of who did it.
_ANSWERED = {
    *("approved", "reviewed", "decided", "answered", "overridden", "edited", "checked", "signed"),
    *("confirmed", "authorised", "authorized", "rejected", "vetoed", "released", "changed"),
    *("modified", "handled", "genehmigt", "geprueft", "entschieden", "freigegeben", "bearbeitet"),
}
_BY = {"by", "von", "durch"}
# Say nothing of what a name is the name of: is_approved, approved_at, decision_ts.
_AROUND = {
    *("is", "was", "has", "been", "did", "the", "final", "flag", "ind", "indicator", "at", "on"),
    *("ts", "am", "raw"),
}
# ... and these where nothing else is in the name: 'weight' is a row's, 'body_weight' is not.
_ALONE: dict[str, tuple[set[str], set[str]]] = {
    "the weight of a row": (
        {"weight", "ipw", "iptw", "ips", "gewicht", "gewichtung"},
        {"sample", "row", "case", "importance", "inverse", "observation", "obs", "survey"},
    ),
    "the probability of the action": (
        {"prob", "proba", "probability", "probabilities", "p", "pi", "wahrscheinlichkeit"},
        {
            *("action", "arm", "logged", "logging", "of", "executed", "chosen", "treatment"),
            *("behaviour", "behavior", "policy", "b"),
        },
    ),
    "the time of the decision": (
        {
            *("time", "timestamp", "date", "datetime", "decided", "created", "ts", "epoch"),
            *("zeit", "zeitpunkt", "zeitstempel", "datum", "erstellt", "entschieden"),
        },
        {
            *("decision", "unix", "ms", "of", "event", "log", "logged", "request", "row", "utc"),
            *("sec", "seconds", "millis"),
        },
    ),
    "what became of a proposal": (
        {
            *(*_ANSWERED, "approval", "verdict", "decision", "edit", "freigabe", "genehmigung"),
            "status",
        },
        {"manually", "human", "gate", "review", "reviewer", "proposal", "recommendation"},
    ),
    "who answered a proposal": (
        {
            *("manager", "physician", "operator", "supervisor", "underwriter", "adjudicator"),
            *("auditor", "inspector", "caseworker", "bearbeiter", "sachbearbeiter", "arzt"),
        },
        NUMBERED,
    ),
    "a label of the scaler": ({"target", "truth"}, {"ground", "scaler"}),
    "the scaler's output (δ)": (
        {"delta", "scaler", "scalefactor"},
        {
            *("hat", "star", "true", "log", "scale", "factor", "output", "out", "predicted"),
            *("pred", "prediction", "estimate", "estimated", "est", "fitted", "served", "value"),
        },
    ),
    "an outcome": (
        {"y", "response", "success", "booking", "sale", "purchase", "order", "erfolg"},
        {"n", "num", "count", "total"},
    ),
    "a reward": ({"value", "gain", "payoff"}, set()),
}
_GERMAN = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "δ": "delta"}
)


def tokens(name: str) -> list[str]:
    """Return the words of a column's name.

    >>> tokens("recommendedPrice"), tokens("base_price")
    (['recommended', 'price'], ['base', 'price'])
    >>> tokens("geprüftVon")
    ['geprueft', 'von']
    """
    apart = re.sub(r"([a-z0-9äöüß])([A-ZÄÖÜ])", r"\1 \2", name).translate(_GERMAN)
    return [word for word in re.split(r"[^a-z0-9]+", apart.lower()) if word]


def words_of(name: str) -> set[str]:
    """Return the words of a name as they are compared with those of a part.

    Digits at their end are taken off, and the s of a plural whose singular is known; two known
    words that are written as one are two.

    >>> (
    ...     sorted(words_of("sampleWeights2")),
    ...     sorted(words_of("approvedby")),
    ...     sorted(words_of("status")),
    ... )
    (['sample', 'weight'], ['approved', 'by'], ['status'])
    """
    own = {word for some, _ in _ALONE.values() for word in some}
    own |= {word for some in RESERVED.values() for word in some} | AFTERWARDS | _ANSWERED
    beside = {word for _, some in _ALONE.values() for word in some} | _AROUND | _BY
    found: set[str] = set()
    for word in {one.rstrip("0123456789") for one in tokens(name)} - {""}:
        word = word[:-1] if word.endswith("s") and word[:-1] in own else word
        cuts = [(word[:i], word[i:]) for i in range(2, len(word) - 1)] if word not in own else []
        pairs = [
            (a, b)
            for a, b in cuts
            if (a in own and b in own | beside) or (a in beside and b in own)
        ]
        found |= {*pairs[0]} if pairs else {word}
    return found


def names_answerer(words: set[str]) -> bool:
    """Whether words say who answered a proposal: 'approved_by', 'geprueft_von'."""
    return bool(words & _BY and words & _ANSWERED)


def part_named(words: set[str]) -> str:
    """Return the part of a log, other than context, that words name; '' where they name none."""
    if names_answerer(words):
        return "who answered a proposal"
    for part, some in RESERVED.items():
        if words & {*some}:
            return part
    if words - _AROUND in ({"scale", "factor"}, {"scaling", "factor"}):
        return "the scaler's output (δ)"
    for part, (own, beside) in _ALONE.items():
        if words & own and words <= own | beside | _AROUND:
            return part
    return ""
