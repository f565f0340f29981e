"""One family of errors; every message says what was expected and what came."""

from __future__ import annotations


class GdcbError(Exception):
    """Anything that gdcb refuses to do; catch this to catch them all."""


class InvalidInput(GdcbError, ValueError):
    """A value of the wrong shape, type, range or finiteness."""


class UnknownField(InvalidInput):
    """A name that the declared schema does not have."""


class UnknownPart(InvalidInput):
    """A TOML file names a part that nobody registered."""


class NothingAllowed(InvalidInput):
    """A mask that leaves a row without any arm."""


class UnknownDecision(GdcbError, KeyError):
    """An outcome or a verdict for a decision that was never made."""

    def __str__(self) -> str:
        """Show the sentence; KeyError would show its repr."""
        return str(self.args[0]) if self.args else ""


class UnknownInstance(GdcbError, KeyError):
    """An instance that this ledger does not have."""

    def __str__(self) -> str:
        """Show the sentence; KeyError would show its repr."""
        return str(self.args[0]) if self.args else ""


class Conflict(GdcbError):
    """The request contradicts what was recorded before it; nothing was changed."""


DAMAGED = "the learner's values are not numbers; its state is damaged; roll back"


class ValuationError(GdcbError):
    """A learner failed while a gate asked for values: our fault, not the gate's veto."""


class OutOfMemory(ValuationError):
    """Deciding needs more memory than there is; nothing was changed, and no learner is damaged."""

    def __init__(self) -> None:
        super().__init__("this needs more memory than there is; ask for fewer rows at a time")


class StoreError(GdcbError):
    """The ledger's store cannot do what was asked; nothing was changed unless it says so."""


class StoreUnavailable(StoreError):
    """The store cannot be reached, is locked for too long, or cannot be read."""


class LedgerPutBack(StoreUnavailable):
    """An earlier state of a ledger was put back; an administrator must acknowledge it first."""


class StoreFull(StoreError):
    """The store has no room for more."""


class StoreReadOnly(StoreError):
    """The store may be read but not written."""


class BrokenChain(GdcbError):
    """A ledger's chain does not fit together: something in it was changed."""
