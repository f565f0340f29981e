"""Pages around the work: sign in, home, settings, and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gdcb.service.pages.views.frame import Place, View
from gdcb.service.pages.views.people import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInView(View):
    """The form for a login and a password.

    Parameters
    ----------
    login : what was entered; `problem` says why it did not do
    then : path to go to afterwards; one of ours
    has_password : whether passwords are in use; else only one-time links are
    """

    template: ClassVar[str] = "sign_in.html"

    login: str = ""
    problem: str = ""
    then: str = ""
    has_password: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView(View):
    """Where a one-time link lands: a button, since what only looks must not use it up.

    Parameters
    ----------
    token : of the link, which the form sends on as `link`
    problem : why it does not do
    """

    template: ClassVar[str] = "link.html"

    token: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Door:
    """An instance that one may see, in a few words."""

    place: Place
    words: str = ""
    mode: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeView(View):
    """The instances that one may see."""

    template: ClassVar[str] = "home.html"

    doors: tuple[Door, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsView(View):
    """How one likes the pages; the frame has the settings."""

    template: ClassVar[str] = "settings.html"

    back: str = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountView(View):
    """How one signs in: one's login, a form for one's password, the way out of every browser.

    Parameters
    ----------
    login : with which one signs in
    grants : roles, each with its instance
    has_password : whether the present one must be given to change it
    shortest : characters of a password at least
    problem : why it was not changed
    """

    template: ClassVar[str] = "account.html"

    login: str
    grants: tuple[Grant, ...] = ()
    has_password: bool = False
    shortest: int = 12
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorView(View):
    """What went wrong: one sentence, and what to do."""

    template: ClassVar[str] = "error.html"

    status: int
    sentence: str
    todo: str = ""
    back: str = "/"
