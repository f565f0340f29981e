"""obp's off-policy estimators on a feedback file: `python -m benchmarks.peers.obp_values ROWS.npz`.

The file has action, reward, pscore, action_dist, q (N, C) and the threshold `switch`.
Prints one JSON document: obp's value by the name that gdcb has for the estimator.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version

import numpy as np

from benchmarks.peers.obp import _STAND_INS, _NoTorch
from benchmarks.peers.tasks import Array

sys.modules.update({name: _NoTorch(name) for name in _STAND_INS})
from obp.ope import (  # noqa: E402
    DirectMethod,
    DoublyRobust,
    InverseProbabilityWeighting,
    SelfNormalizedDoublyRobust,
    SelfNormalizedInverseProbabilityWeighting,
    SwitchDoublyRobust,
)

for _name in _STAND_INS:
    del sys.modules[_name]


def values(data: dict[str, Array]) -> dict[str, float]:
    """Return what obp says of the rows."""
    made = {
        "dm": DirectMethod(),
        "ips": InverseProbabilityWeighting(),
        "snips": SelfNormalizedInverseProbabilityWeighting(),
        "dr": DoublyRobust(),
        "sndr": SelfNormalizedDoublyRobust(),
        "switch-dr": SwitchDoublyRobust(tau=float(data["switch"])),
    }
    rows = {
        "reward": data["reward"],
        "action": data["action"],
        "pscore": data["pscore"],
        "action_dist": data["action_dist"][:, :, None],
        "estimated_rewards_by_reg_model": data["q"][:, :, None],
        "position": np.zeros(data["reward"].size, dtype=int),
    }
    return {name: float(one.estimate_policy_value(**rows)) for name, one in made.items()}


if __name__ == "__main__":
    with np.load(sys.argv[1]) as file:
        found = values(dict(file))
    print(json.dumps({"version": version("obp"), "values": found}))
