"""The queue of held decisions, and the page that confirms an answer to several."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from gdcb.service.pages.views.decision import Waiting
from gdcb.service.pages.views.frame import Choice, View

# Who has the decision: the values of the filter in the address.
CLAIMED = (
    Choice("", "anybody or nobody"),
    Choice("mine", "me"),
    Choice("free", "nobody"),
    Choice("others", "somebody else"),
)


@dataclass(frozen=True, slots=True)
class QueueFilters:
    """What the address asks for; empty means all.

    Parameters
    ----------
    rule, unit : exactly this one
    claimed : 'mine', 'free' or 'others'
    text : anywhere in id, unit, rule or words
    """

    rule: str = ""
    unit: str = ""
    claimed: str = ""
    text: str = ""

    @property
    def is_any(self) -> bool:
        """Whether anything is left out."""
        return bool(self.rule or self.unit or self.claimed or self.text)

    def query(self) -> dict[str, str]:
        """Return the fields that are set, as an address has them."""
        fields = {"rule": self.rule, "unit": self.unit, "claimed": self.claimed, "text": self.text}
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView(View):
    """Held decisions, by deadline and then by risk.

    Parameters
    ----------
    rows : of this page of the list, in the order in which they are shown
    total : how many the filters let through; `offset` is the place of the first row among them
    size : rows a page
    filters : what the address asked for
    rules, units : names to choose from
    bulk_cap : most decisions that one answer may settle; below 2 there is no answer to several
    version : last entry that this page has seen; news are asked for since it
    reload : seconds after which a page without script loads again; 0: never, which is the default
    """

    template: ClassVar[str] = "queue.html"

    rows: tuple[Waiting, ...] = ()
    total: int = 0
    offset: int = 0
    size: int = 50
    filters: QueueFilters = field(default_factory=QueueFilters)
    rules: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    bulk_cap: int = 20
    version: int = 0
    reload: int = 0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A decision that one answer to several does not settle, and why."""

    id: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkView(View):
    """One answer to several decisions that the same rule held: each is listed before it counts.

    Parameters
    ----------
    verdict : 'approve' or 'veto'
    rule : that held all of them
    rows : each with the version and content that the answer will be bound to
    reasons : coded reasons to choose from
    problem : why it cannot be done, in a sentence; then there is no button
    left : those that were selected and are left out
    done : how many were answered; None: nobody has confirmed yet
    """

    template: ClassVar[str] = "bulk.html"

    verdict: str
    rule: str = ""
    rows: tuple[Waiting, ...] = ()
    reasons: tuple[Choice, ...] = ()
    problem: str = ""
    left: tuple[LeftOut, ...] = ()
    done: int | None = None


@dataclass(frozen=True, slots=True)
class QueueNews:
    """What changed in a queue since an entry: what the script asks for.

    Parameters
    ----------
    version : last entry that is counted in
    waiting : how many decisions wait now
    n_new : how many came since, of those that the page's filters let through
    gone : (id, sentence) of those that were answered since
    claims : (id, sentence) of all that others have claimed now
    mine : ids of those that who asks has claimed
    """

    version: int
    waiting: int
    n_new: int = 0
    gone: tuple[tuple[str, str], ...] = ()
    claims: tuple[tuple[str, str], ...] = ()
    mine: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "version": self.version,
            "waiting": self.waiting,
            "new": self.n_new,
            "gone": [{"id": name, "words": words} for name, words in self.gone],
            "claims": [{"id": name, "words": words} for name, words in self.claims],
            "mine": list(self.mine),
        }
