"""Catalogues drawn from a bank of questions: eight tools, and the requests that are asked of them.

A tool is drawn, and with it up to three tools that the data offer beside it, until the slots are
full: reading tools in the reading slots, writing tools in the writing ones. Of a tool's questions
up to three, and never more than half, are its past successes; the others are requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.tools.columns import READS, K
from gdcb.instances.tools.questions import Bank, bank
from gdcb.instances.tools.retrieval import embedder_of, similarity, size_of

DRAWS = 160  # uniforms that a catalogue takes at most
LIBRARY = 3  # past successes of a tool
ENOUGH = 4  # questions that make a tool worth drawing; tools beside it may have fewer
BESIDE = 3  # tools that one brings along: those that the data offer beside it
TWIN = 0.35  # tools that say so nearly the same are never each other's distractors
MOST = 24  # requests of a tool


@dataclass(frozen=True, eq=False)
class Retrieved:
    """A bank with its similarities.

    Parameters
    ----------
    bank : questions and tools
    near : (Q, F) similarity of requests to descriptions, in the words that came with the request
    alike : (Q, Q) of requests to each other
    is_twin : (F, F) tools that say nearly the same and are never offered together by the data
    beside : for every tool, the tools that the data offer beside it
    n_right : (F,) questions that a tool answers
    length, figures : (Q,) of the requests
    """

    bank: Bank
    near: Array
    alike: Array
    is_twin: Array
    beside: tuple[Array, ...]
    n_right: Array
    length: Array
    figures: Array


@cache
def retrieved(source: str, retrieval: str) -> Retrieved:
    """Return a source's questions with their similarities, worked out once a process."""
    found = bank(source)
    said = tuple(dict.fromkeys((*found.descriptions, *(text for *_, text in found.reworded))))
    embedder = embedder_of(retrieval, said)
    tools, requests = embedder.embed(found.descriptions), embedder.embed(found.requests)
    near = similarity(requests, tools)
    if found.reworded:
        place = {text: at for at, text in enumerate(said)}
        asked, tool, text = zip(*found.reworded, strict=True)
        words = embedder.embed(said)[[place[one] for one in text]]
        near[asked, tool] = np.clip((requests[list(asked)] * words).sum(axis=1), 0.0, 1.0)
    together = found.is_candidate.astype(np.float32)
    offered = together.T @ together > 0
    np.fill_diagonal(offered, False)
    sizes = np.array([size_of(request) for request in found.requests])
    return Retrieved(
        found,
        near,
        similarity(requests, requests),
        (similarity(tools, tools) > TWIN) & ~offered,
        tuple(np.flatnonzero(row) for row in offered),
        np.bincount(found.right, minlength=len(found.tools)),
        sizes[:, 0],
        sizes[:, 1],
    )


@dataclass(slots=True)
class Table:
    """What every catalogue's requests are like: G catalogues of Q requests, padded.

    Parameters
    ----------
    tools : (G, K) the tool in each slot, by its place in the bank
    request : (G, Q) by its place in the bank; −1: none
    slot : (G, Q) the slot whose call is right
    near, past : (G, Q, K) similarity to descriptions and to past successes
    is_own, is_free : (G, Q, K) slots that the data offer with a request; that may be distractors
    length, figures, arguments : (G, Q)
    """

    tools: Array
    request: Array
    slot: Array
    near: Array
    past: Array
    is_own: Array
    is_free: Array
    length: Array
    figures: Array
    arguments: Array


def draw(found: Retrieved, uniforms: Array) -> Table:
    """Draw a catalogue for each row of uniforms (G, DRAWS), and lay its requests out."""
    parts = [_one(found, row) for row in uniforms]
    g, q = len(parts), K * MOST
    request = np.full((g, q), -1)
    slot = np.zeros((g, q), dtype=np.int64)
    past = np.zeros((g, q, K))
    for at, (_, library, asked) in enumerate(parts):
        places = np.concatenate(asked)
        request[at, : places.size] = places
        slot[at, : places.size] = np.repeat(np.arange(K), [one.size for one in asked])
        for a, kept in enumerate(library):
            if kept.size:
                past[at, : places.size, a] = found.alike[places][:, kept].max(axis=1)
    tools = np.stack([one for one, _, _ in parts])
    is_real = request >= 0
    known = np.where(is_real, request, 0)
    here, real = tools[:, None, :], is_real[..., None]
    is_own = found.bank.is_candidate[known[..., None], here] & real
    right = np.take_along_axis(tools, slot, axis=1)[..., None]
    return Table(
        tools,
        request,
        slot,
        np.where(real, found.near[known[..., None], here], 0.0),
        past,
        is_own,
        ~found.is_twin[right, here] & ~is_own & real,
        found.length[known],
        found.figures[known],
        found.bank.arguments[known],
    )


def _one(found: Retrieved, uniforms: Array) -> tuple[Array, list[Array], list[Array]]:
    """Return the tools of one catalogue, each one's past successes and its requests."""
    numbers = iter(uniforms.tolist())
    is_write, n_right = found.bank.is_write, found.n_right
    slots: tuple[list[int], list[int]] = ([], [])
    room = (READS, K - READS)
    taken: set[int] = set()

    def put(tool: int) -> None:
        kind = int(is_write[tool])
        if tool not in taken and len(slots[kind]) < room[kind]:
            slots[kind].append(tool)
            taken.add(tool)

    while min(r - len(some) for r, some in zip(room, slots, strict=True)) >= 0 and any(
        len(some) < r for r, some in zip(room, slots, strict=True)
    ):
        kind = int(len(slots[0]) >= room[0])
        eligible = _eligible(found, kind, taken)
        first = int(eligible[int(next(numbers) * eligible.size)])
        put(first)
        for _ in range(BESIDE):
            beside = [tool for tool in found.beside[first].tolist() if tool not in taken]
            which = next(numbers)
            if beside:
                put(beside[int(which * len(beside))])
    tools = np.array(slots[0] + slots[1])
    library, asked = [], []
    for tool in tools:
        places = np.flatnonzero(found.bank.right == tool)
        kept = min(LIBRARY, int(n_right[tool]) // 2)
        turn = int(next(numbers) * max(1, places.size))  # questions stand in a ring
        places = np.roll(places, turn)
        library.append(places[:kept])
        asked.append(places[kept : kept + MOST])
    return tools, library, asked


def _eligible(found: Retrieved, kind: int, taken: set[int]) -> Array:
    """Return the tools from which a slot may be filled: those with most questions, if any."""
    fits = found.bank.is_write == bool(kind)
    fits[list(taken)] = False
    for least in (ENOUGH, 2, 1):
        some = np.flatnonzero(fits & (found.n_right >= least))
        if some.size:
            return some
    return np.flatnonzero(fits)
