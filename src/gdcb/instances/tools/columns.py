"""The context of a request: its columns, the tools' slots, and what is known of each slot."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array, all_finite
from gdcb.context import Flag, Number, Schema

# A catalogue has eight slots. Which tool stands in a slot is the tenants' own; what the policy
# says of a slot, what it costs and how long it takes is the same everywhere.
READS, WRITES = 5, 3
K = READS + WRITES
NAMES = (
    *(f"read {i + 1}" for i in range(READS)),
    *(f"write {i + 1}" for i in range(WRITES)),
)
CLEAN = NAMES[READS:]  # they change, send or pay: only on clean requests
DENIED = NAMES[-1:]
COST = (0.2, 0.5, 1.0, 1.5, 2.0, 1.0, 2.0, 1.0)  # cents a call
LATENCY = (0.04, 0.08, 0.12, 0.16, 0.20, 0.06, 0.12, 0.10)  # −log of the latency factor
PER_EXAMPLE = 0.005  # the same for every example in the prompt, in `mis`
EXAMPLES = 4  # examples that a prompt carries at most
MOST_WORDS, MOST_FIGURES, MOST_SPEND = 60.0, 8.0, 5.0

DESCRIPTION = tuple(f"description_{i + 1}" for i in range(K))
PAST = tuple(f"past_{i + 1}" for i in range(K))
SCHEMA = Schema(
    {
        **{
            name: Number(
                0, 1, f"similarity of the request to what the tool '{slot}' says of itself"
            )
            for name, slot in zip(DESCRIPTION, NAMES, strict=True)
        },
        **{
            name: Number(0, 1, f"similarity to the nearest past success of the tool '{slot}'")
            for name, slot in zip(PAST, NAMES, strict=True)
        },
        "length": Number(0, 1, f"words of the request over {MOST_WORDS:g}, at most one"),
        "figures": Number(0, 1, f"numbers in the request over {MOST_FIGURES:g}, at most one"),
        "spend": Number(0, MOST_SPEND, "what the call may cost, in cents"),
        "secret": Flag("the arguments hold a secret"),
        "injected": Flag("an instruction inside tool output asks for the call"),
        "invalid": Flag("the drafted arguments break the tool's schema"),
    }
)
S, P = slice(0, K), slice(K, 2 * K)
LENGTH, FIGURES, SPEND, SECRET, INJECTED, INVALID = range(2 * K, 2 * K + 6)
FEATURES = (*DESCRIPTION, *PAST, "length", "figures")


def parts_of(e: Array) -> tuple[Array, Array, Array]:
    """Return tool, examples, and whether anything runs, of prompts (..., 3)."""
    named = e[..., 0]
    runs = all_finite(e) & (named >= 0) & (named < K)
    tool = np.where(runs, named, 0.0).astype(np.int64)
    return tool, np.where(runs, e[..., 1], 0.0), np.asarray(runs)
