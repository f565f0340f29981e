"""What stands around every page: who looks at it, where, when, and how they like it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from gdcb.errors import InvalidInput

THEMES = ("system", "light", "dark")


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several: what a form sends, and the words for it."""

    value: str
    words: str


@dataclass(frozen=True, slots=True)
class Settings:
    """How somebody likes the pages; kept in cookies, so that no script is needed.

    Parameters
    ----------
    theme : 'system', 'light' or 'dark'
    keys : whether single keys do something
    refresh : whether the script asks for news of the queue
    """

    theme: str = "system"
    keys: bool = True
    refresh: bool = True

    def __post_init__(self) -> None:
        if self.theme not in THEMES:
            raise InvalidInput(f"theme: expected one of {', '.join(THEMES)}, got {self.theme!r}")


@dataclass(frozen=True, slots=True)
class Pause:
    """That an instance stands still: by whom, since when, and why."""

    by: str
    at: int
    reason: str


@dataclass(frozen=True, slots=True)
class SetBack:
    """That an earlier ledger was put back: when it was found, entries before and then."""

    at: int
    had: int
    has: int


@dataclass(frozen=True, slots=True)
class Place:
    """The instance that a page is about.

    Parameters
    ----------
    name : as addresses have it
    title : as people call it
    waiting : how many decisions wait for a person
    pause : None while it runs
    roles : what the viewer may do here
    is_ungated : whether no gate stands between a proposal and what runs
    set_back : None, but where an earlier ledger was put back and nobody has acknowledged it
    """

    name: str
    title: str
    waiting: int = 0
    pause: Pause | None = None
    roles: frozenset[str] = frozenset()
    is_ungated: bool = False
    set_back: SetBack | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence on top of a page: 'done', 'note' or 'problem'."""

    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class Frame:
    """Everything around the contents of a page.

    Parameters
    ----------
    now : the time of the answer
    csrf : the token of the session, hidden in every form
    viewer : the name of who is signed in, or None
    settings : how they like it
    place : the instance, or None outside of any
    is_administrator : whether people and keys are shown
    notice : what the last form did
    request : id of the request, for whoever must look it up
    here : the path of this page with its query, to come back to
    """

    now: int
    csrf: str = ""
    viewer: str | None = None
    settings: Settings = field(default_factory=Settings)
    place: Place | None = None
    is_administrator: bool = False
    notice: Notice | None = None
    request: str = ""
    here: str = "/"

    def may(self, role: str) -> bool:
        """Return whether the viewer has a role on the instance of this page."""
        return self.place is not None and role in self.place.roles


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A page: what stands around it, and the template that draws it."""

    frame: Frame
    template: ClassVar[str] = ""

    @property
    def place(self) -> Place:
        """The instance of the page; pages of an instance always have one."""
        if self.frame.place is None:
            raise InvalidInput(f"{type(self).__name__}: expected a frame with a place, got none")
        return self.frame.place
