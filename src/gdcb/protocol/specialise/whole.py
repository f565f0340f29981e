"""All four theorems together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdcb.protocol.ground import Shared
from gdcb.protocol.methods import Setup, build, settings_for
from gdcb.protocol.record import Record
from gdcb.protocol.specialise.equivalence import equivalence
from gdcb.protocol.specialise.figures import measured
from gdcb.protocol.specialise.lifting import lifting
from gdcb.protocol.specialise.measured import past_of, ratio_of
from gdcb.protocol.specialise.regret import regret
from gdcb.protocol.specialise.runs import OURS, look
from gdcb.protocol.specialise.variance import variance
from gdcb.protocol.summary import plain


def specialised(
    shared: Shared, records: Mapping[str, Record], seed: int, setup: Setup | None = None
) -> dict[str, Any]:
    """Return what holds of the theorems for an instance, safe for JSON.

    Statements say what is true in general, verdicts what follows from the figures here. A figure is
    a mean over replicates with its interval, unless its note says otherwise; what does not apply
    is null, with the reason beside it.

    Parameters
    ----------
    shared : the first replicates: their history, gate and contexts are measured
    records : of the methods that were run, by key; each is read once. Their first replicates are
        those of `shared`
    seed : of folds and shuffles
    setup : GDCB, both of whose loops learn the history; None: B4 as it was tuned

    Returns
    -------
    `variance_ratio` (null where the history cannot tell) and `theorems`, t1 to t4, each with
    `statement`, `figures` (name, value, note) and `verdict`
    """
    runs = look(records, shared.floor.shape[0])
    if setup is None:
        setup = build(shared.study, OURS, settings_for(shared.study))
    past = past_of(shared, setup)
    ratio, why = measured(lambda: ratio_of(past, seed))
    found = None if ratio is None else ratio.as_json() | {"replicates": past.replicates}
    theorems = {
        "t1": variance(shared, past, runs, ratio, why),
        "t2": equivalence(shared, past, runs),
        "t3": regret(shared, runs),
        "t4": lifting(past, seed),
    }
    return {"variance_ratio": plain(found), "theorems": plain(theorems)}
