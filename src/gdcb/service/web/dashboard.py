"""The operator's dashboard: figures, what is in force, and the few things to be done about it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
import time
from dataclasses import replace
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from starlette.concurrency import run_in_threadpool

from gdcb.errors import Conflict, InvalidInput
from gdcb.history.page import certificate_page
from gdcb.ledger.live import Live
from gdcb.pages.words import some
from gdcb.service import operating
from gdcb.service.access.headers import CONTENT_SECURITY_POLICY
from gdcb.service.desk import Desk
from gdcb.service.figures.running import Certified
from gdcb.service.figures.shown import Shown
from gdcb.service.pages import links
from gdcb.service.pages.views.dashboard import (
    Certificate,
    ChainState,
    ConfirmView,
    DashboardView,
    Launch,
    QueueAge,
)
from gdcb.service.pages.views.frame import Frame, Notice
from gdcb.service.policy import Policy
from gdcb.service.problems import BadRequest
from gdcb.service.routing import command, house_of, look
from gdcb.service.turn import Turn
from gdcb.service.web.frame import back, enter, form_of, frame_of, page, text, viewer_of
from gdcb.service.who import written as who

log = logging.getLogger("gdcb.service")
router = APIRouter(prefix="/i/{name}", include_in_schema=False)
PATIENCE = 3.0  # seconds that a page waits for fresh figures before it shows older ones
SECOND = 1_000_000
_PAUSE = 0.1
_READS = ("operate", "audit")
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_DONE = {
    "pause": ("It is paused.", "It was paused already."),
    "resume": ("It goes on.", "It was not paused."),
}


@router.get("")
async def dashboard(name: str, request: Request) -> Response:
    """Show what flows, what waits, what it is worth and what is in force."""
    viewer = await viewer_of(request)
    if viewer is not None and not any(viewer.may(role, name) for role in _READS):
        if viewer.may("approve", name):
            return back(links.instance(name, "queue"))
        if viewer.may("administer", name):
            return back(links.instance(name, "changes"))
    _, desk = await enter(request, name, *_READS)
    shown = await fresh(request, desk)
    now = house_of(request).clock()
    version, fitted, since = await look(desk, _read)
    return page(
        DashboardView(
            frame=_framed(await frame_of(request, name), shown),
            ages=ages_of(since, now),
            launch=launch_of(desk.policy, now, is_ungated=not desk.instance.chain.gates),
            learner=f"Version {version:,}",
            fitted=fitted or None,
            **_figures(shown),
            chain=_checked(shown, house_of(request).figures.checked(name)),
        )
    )


def _read(live: Live) -> tuple[int, int, list[int]]:
    return len(live.events), live.fitted_at, [one.since for one in live.waiting.values()]


async def fresh(request: Request, desk: Desk) -> Shown | None:
    """Return the figures as they are now, or as they were made last; None: there are none yet.

    After a start the chain is checked to its end first, as far as patience goes: who comes then
    should not read that nothing is verified.
    """
    figures, until = house_of(request).figures, time.monotonic() + PATIENCE
    while True:
        asked = asyncio.wrap_future(figures.ask(desk.chain, desk.instance))
        found = None
        try:
            found = await asyncio.wait_for(asyncio.shield(asked), until - time.monotonic())
        except TimeoutError:
            asked.cancel()
        except Exception:  # the thread has logged it; the check of the chain may still go on
            log.info("figures of %s cannot be made now", desk.chain)
        state = figures.checked(desk.chain) if found is None else found.chain
        is_checked = state is not None and state.is_whole is not None
        if is_checked or time.monotonic() + _PAUSE >= until:
            return figures.latest(desk.chain) if found is None else found
        await asyncio.sleep(_PAUSE)  # who asks goes before what takes long


def _framed(frame: Frame, shown: Shown | None) -> Frame:
    """Say on top of the page how far the figures go, unless a form has something to say."""
    if frame.notice is not None:
        return frame
    if shown is None:
        words = "The figures are being made. Load the page again in a moment."
        return replace(frame, notice=Notice("note", words))
    return replace(frame, notice=Notice("note", shown.reach)) if shown.reach else frame


def _figures(shown: Shown | None) -> dict[str, Any]:
    if shown is None:
        return {}
    certified = shown.certified
    return {
        "flow": shown.flow,
        "overrides": shown.overrides,
        "alarms": shown.alarms,
        "unwatched": shown.unwatched,
        "rewards": shown.rewards,
        "difference": shown.contrast.difference,
        "regret": shown.regret,
        "bins": shown.bins,
        "coverage": shown.coverage,
        "known": shown.known,
        "certificate": None if certified is None else certificate_of(certified),
        "updated": shown.at,
    }


def _checked(shown: Shown | None, now: ChainState | None) -> ChainState | None:
    """Return how far the chain was checked; what was found since the figures were made counts."""
    if shown is None or (now is not None and now.is_whole is False):
        return now
    return shown.chain


def certificate_of(certified: Certified) -> Certificate:
    """Return a certificate in short."""
    document = certified.document
    override = document.get("override")
    words = f"A person overrode it: {override}" if isinstance(override, str) else ""
    if not certified.is_taken:
        words = "Nothing was learned from that history."
    return Certificate(str(document.get("verdict", "unknown")), certified.at, words)


def ages_of(since: list[int], now: int) -> QueueAge:
    """Return how long decisions wait, from when they were held (µs)."""
    if not since:
        return QueueAge()
    ages = np.maximum(0.0, (now - np.array(since)) / SECOND)
    middle, late = np.quantile(ages, (0.5, 0.95))
    return QueueAge(len(since), float(ages.max()), float(middle), float(late))


def launch_of(policy: Policy, now: int, *, is_ungated: bool) -> Launch:
    """Return the launch mode in force, and what share of proposals it lets in now."""
    launch = policy.launch
    share = launch.live_share(now)
    if share is None:
        gated = "Every proposal enters the gates."
        return Launch("live", None, "Every proposal runs as it is." if is_ungated else gated)
    kept = {"given": "what the request names", "arm": f"arm {launch.arm}"}
    incumbent = kept.get(str(launch.incumbent), "the declared action")
    drawn = "" if share in (0.0, 1.0) else f" It is drawn for every {launch.drawn_by}."
    return Launch(launch.mode, share, f"Where the proposal is not live, {incumbent} is.{drawn}")


# Operate


@router.post("/pause")
async def pause(name: str, request: Request) -> Response:
    """Stop: nothing is decided or released until somebody resumes."""
    words = "Nothing is decided or released, in any process, until somebody resumes."
    return await _act(name, request, "pause", "Pause now?", words)


@router.post("/resume")
async def resume(name: str, request: Request) -> Response:
    """Go on after a pause."""
    words = "Decisions are made again from the next request on."
    return await _act(name, request, "resume", "Resume now?", words)


@router.post("/acknowledge")
async def acknowledge(name: str, request: Request) -> Response:
    """Go on although an earlier ledger was put back: an administrator says that they know."""
    form = await form_of(request)
    viewer, desk = await enter(request, name, "administer")
    try:
        done = operating.acknowledge(desk, text(form, "reason").strip(), who(viewer))
        news = await asyncio.wrap_future(done)
    except (InvalidInput, Conflict) as error:
        return back(links.instance(name), str(error), "problem")
    words = "It goes on." if news else "It had been acknowledged already."
    return back(links.instance(name), words, "done" if news else "note")


async def _act(name: str, request: Request, what: str, title: str, words: str) -> Response:
    form = await form_of(request)
    viewer, desk = await enter(request, name, "operate")
    home, by, reason = links.instance(name), who(viewer), text(form, "reason").strip()
    if text(form, "confirm") != "yes":
        fields = (("reason", reason), ("confirm", "yes"))
        return await _confirm(request, name, what, title, words, fields)
    run = operating.pause if what == "pause" else operating.resume
    try:
        news = await command(desk, lambda turn: run(turn, reason, by))
    except (InvalidInput, Conflict) as error:
        return back(home, str(error), "problem")
    done, before = _DONE[what]
    return back(home, done if news else before, "done" if news else "note")


async def _confirm(
    request: Request,
    name: str,
    what: str,
    title: str,
    words: str,
    fields: tuple[tuple[str, str], ...],
) -> Response:
    view = ConfirmView(
        frame=await frame_of(request, name),
        title=title,
        words=words,
        action=links.instance(name, what),
        button=what.capitalize(),
        fields=fields,
        back=links.instance(name),
        is_grave=what == "pause",
    )
    return page(view)


@router.post("/refit")
async def refit(name: str, request: Request) -> Response:
    """Fit the scaler again, once the question whether it should be is answered."""
    form = await form_of(request)
    viewer, desk = await enter(request, name, "operate")
    if text(form, "confirm") != "yes":
        words = "The scaler is fitted again from all that is known, and arms are folded anew."
        return await _confirm(
            request, name, "refit", "Refit the scaler now?", words, (("confirm", "yes"),)
        )
    by = who(viewer)

    def run(turn: Turn) -> list[int]:
        return operating.refit(turn, by)

    try:
        versions = await command(desk, run)
    except Conflict as error:
        return back(links.instance(name), str(error), "problem")
    return back(links.instance(name), f"{some(len(versions), 'fit')} put in force.")


# The certificate


@router.get("/certificate")
async def certificate(name: str, request: Request) -> Response:
    """Show the certificate of the history, as it is filed: one sheet with its own style.

    Pages of ours have no inline style. This sheet has, so its policy names that one style by its
    hash, and nothing else may load.
    """
    _, desk = await enter(request, name, "operate", "audit", "approve", "administer")
    shown = await fresh(request, desk)
    if shown is None or shown.certified is None:
        raise BadRequest("no history was certified here", 404, "not_found")
    drawn = await run_in_threadpool(certificate_page, shown.certified.document)
    return HTMLResponse(drawn, headers={"content-security-policy": policy_of_sheet(drawn)})


def policy_of_sheet(drawn: str) -> str:
    """Return a policy under which a page has its own style, known by its hash, and no script.

    >>> policy_of_sheet("<style>p{}</style>")[:60]
    "default-src 'none'; style-src 'sha256-gG2yISYereRMiG2lMXrbiU"
    """
    hashes = [
        base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        for style in _STYLE.findall(drawn)
    ]
    styles = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    kept = [
        part
        for part in CONTENT_SECURITY_POLICY.split("; ")
        if part.partition(" ")[0] in ("frame-ancestors", "base-uri")
    ]
    return "; ".join(["default-src 'none'", f"style-src {styles}", "form-action 'none'", *kept])
