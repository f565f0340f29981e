"""The door: who sent a request, and whether our own page did."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from gdcb.service.access import links, passwords, sessions
from gdcb.service.access.books import SECOND, Books
from gdcb.service.access.cookies import clear_cookie, session_token, set_cookie
from gdcb.service.access.forgery import SAFE, check_origin, check_token, form_token
from gdcb.service.access.keys import find_key
from gdcb.service.access.lockout import LockOut
from gdcb.service.access.roles import Principal
from gdcb.service.access.sessions import Found, SessionLimits, find_session
from gdcb.service.access.tokens import digest, key_id

_MOST = 50_000


@dataclass(slots=True)
class Door:
    """Finds out who sent a request, from its headers (names in small letters).

    An API key comes as `Authorization: Bearer gdcb_…`, a person's session as a cookie. A request
    with an `Authorization` header is judged by it alone: a wrong key is nobody, cookie or not.

    An answer is kept for `fresh_s`, so that a check costs microseconds and no query. A revoked key,
    a taken role and a session that was signed out are therefore honoured for at most `fresh_s` by
    other processes; by the process that made the change, not at all. Expiry is to the moment.

    Parameters
    ----------
    books : the database
    base_url : scheme, host and port where people reach the service; https decides on the cookie
    session_limits, cost, lock_out : timeouts of sessions, parameters of scrypt, of the lock-out
    fresh_s : for how long an answer is kept
    """

    books: Books
    base_url: str = "http://127.0.0.1:8000"
    session_limits: SessionLimits = field(default_factory=SessionLimits)
    cost: passwords.Cost = field(default_factory=passwords.Cost)
    lock_out: LockOut = field(default_factory=LockOut)
    fresh_s: float = 3.0
    is_https: bool = field(init=False)
    _kept: dict[bytes, tuple[int, int, Principal]] = field(default_factory=dict, repr=False)
    _state: object = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _asked: dict[object, asyncio.Task[Principal | None]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.base_url = links.base_of(self.base_url)
        self.is_https = self.base_url.startswith("https://")

    def authenticate(self, headers: Mapping[str, str], is_use: bool = True) -> Principal | None:
        """Return who sent the request; None: nobody who is known.

        What is not known from a moment ago is looked up in the database; `known` never does. Where
        a page asked by itself (`is_use` is false) a session goes on idling.
        """
        secret = self._secret(headers)
        if secret is None:
            return None
        text, key = secret
        hashed = digest(text)
        kept = self._recall(hashed)
        if kept is not None:
            return kept
        state, at = self.books.state, self.books.clock()
        if key is not None:
            found = find_key(self.books, key, hashed)
        else:
            found = find_session(self.books, hashed, self.session_limits, is_use)
        if found is None:
            with self._lock:
                self._kept.pop(hashed, None)
            return None
        if is_use:  # else a person's next click would be answered from memory, and never be marked
            self._keep(hashed, found, at, state)
        return found.principal

    async def ask(self, headers: Mapping[str, str], is_use: bool = True) -> Principal | None:
        """Return what `authenticate` returns, without blocking an event loop.

        Of many requests that show the same at once one is looked up: hundreds come while a busy
        key is looked up again. The others are answered by what is known then, if that is fresh.
        Who asks after a change of this process is not answered by what was looked up before it.
        """
        secret = self._secret(headers)
        if secret is None:
            return None
        loop = asyncio.get_running_loop()
        what = (loop, self.books.state, digest(secret[0]), secret[1], is_use)
        task = self._asked.get(what)
        if task is not None:
            found = await asyncio.shield(task)
            known = None if found is None else self.known(headers)
            if found is None or known is not None:
                return known
            return await asyncio.to_thread(self.authenticate, headers, is_use)
        task = loop.create_task(asyncio.to_thread(self.authenticate, headers, is_use))
        self._asked[what] = task
        task.add_done_callback(lambda _: self._asked.pop(what, None))
        return await asyncio.shield(task)  # who goes away takes nobody's answer along

    def known(self, headers: Mapping[str, str]) -> Principal | None:
        """Return who sent the request if that is fresh in memory; it never waits for anything.

        None says only 'ask `authenticate`, in a thread that may wait for the database'.
        """
        secret = self._secret(headers)
        return None if secret is None else self._recall(digest(secret[0]))

    def has_met(self, headers: Mapping[str, str]) -> bool:
        """Return whether what the request shows opened something lately; it never waits.

        Whoever tries out keys is held back before the database is asked. Those who share an
        address with them, and were let in before, are not.
        """
        secret = self._secret(headers)
        return secret is not None and digest(secret[0]) in self._kept

    def form_token(self, headers: Mapping[str, str]) -> str:
        """Return the hidden field of the forms on a page; empty where there is no session."""
        token = session_token(headers.get("cookie"), self.is_https)
        return "" if token is None else form_token(self.books.secret, token)

    def check_forgery(
        self, method: str, headers: Mapping[str, str], token: object, is_sign_in: bool = False
    ) -> None:
        """Refuse an unsafe request with a cookie that our own page did not make.

        Parameters
        ----------
        method : of HTTP
        headers : of the request
        token : what the form's hidden field or the header `x-csrf-token` said
        is_sign_in : a form that signs in is judged by its origin alone: its page may have been
            opened from another site, so without the cookie that its POST then brings
        """
        if method.upper() in SAFE or "authorization" in headers:
            return
        check_origin(headers, self.base_url)
        session = session_token(headers.get("cookie"), self.is_https)
        if session is not None and not is_sign_in:
            check_token(self.books.secret, session, token)

    def sign_in_by_link(self, token: str, headers: Mapping[str, str]) -> str:
        """Use a one-time link up, and return the value of `Set-Cookie`."""
        old = session_token(headers.get("cookie"), self.is_https)
        return self._cookie(links.redeem(self.books, token, old))

    def sign_in_by_password(self, login: str, password: str, headers: Mapping[str, str]) -> str:
        """Check a password, and return the value of `Set-Cookie`."""
        old = session_token(headers.get("cookie"), self.is_https)
        opened = passwords.sign_in(
            self.books, login, password, old, cost=self.cost, rule=self.lock_out
        )
        return self._cookie(opened)

    def set_password(
        self, by: Principal, password: str, old: str, headers: Mapping[str, str]
    ) -> None:
        """Set the password of who sent the request, unless their session ends meanwhile."""
        token = session_token(headers.get("cookie"), self.is_https)
        passwords.set_password(
            self.books, by, password, old, cost=self.cost, rule=self.lock_out, session=token
        )

    def sign_out(self, headers: Mapping[str, str]) -> str:
        """End the request's session, and return the value of `Set-Cookie` that clears it."""
        token = session_token(headers.get("cookie"), self.is_https)
        if token is not None:
            sessions.end_session(self.books, token)
        return clear_cookie(self.is_https)

    def _cookie(self, token: str) -> str:
        return set_cookie(token, self.is_https, self.session_limits.whole_s)

    def _secret(self, headers: Mapping[str, str]) -> tuple[str, str | None] | None:
        """Return the secret that came, with the id of its key; the id is None for a session."""
        given = headers.get("authorization")
        if given is None:
            token = session_token(headers.get("cookie"), self.is_https)
            return None if token is None else (token, None)
        scheme, _, text = given.partition(" ")
        key = key_id(text) if scheme.lower() == "bearer" else None
        return None if key is None else (text, key)

    def _recall(self, hashed: bytes) -> Principal | None:
        if self._state is not self.books.state:
            with self._lock:
                self._kept.clear()
                self._state = self.books.state
            return None
        kept = self._kept.get(hashed)
        # Before `since` the clock went back, and nothing is sure.
        if kept is None or not kept[0] <= self.books.clock() < kept[1]:
            return None
        return kept[2]

    def _keep(self, hashed: bytes, found: Found, at: int, state: object) -> None:
        until = at + int(self.fresh_s * SECOND)
        if found.until is not None:
            until = min(until, found.until)
        with self._lock:
            # Read before a change and kept after it, an answer would outlive the change.
            if state is not self.books.state or state is not self._state:
                return
            if len(self._kept) >= _MOST:
                self._kept.clear()
            self._kept[hashed] = (at, until, found.principal)
