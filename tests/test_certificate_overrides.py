"""What a certificate says of overrides: sentence, verdict and the list of assumptions agree."""

from __future__ import annotations

import numpy as np
import pytest

from gdcb import Approval, ArmList, Bounds, GaussianThompson, Instance, Multiply, Number, Schema
from gdcb.history import Batch, certify, evidence
from gdcb.history.overrides import Contrast
from gdcb.rewards import Scaled

NAME = "Overrides used nothing outside the log"
KNEW, UNCLEAR, NO_SIGN = "probably knew something", "whether they did cannot be told", "no sign"


def overridden() -> tuple[Instance, Batch]:
    """Return a random log in which one proposal in five was overridden at random."""
    rng, n = np.random.default_rng(0), 400
    instance = Instance(
        context=Schema({"a": Number(-50, 50)}),
        arms=ArmList(values=(1.0, 2.0)),
        composition=Multiply(names=("e",)),
        gate=[Approval(name="boss"), Bounds(low=0, high=50)],
        reward=Scaled(outcome=("y",)),
    )
    x, proposed = rng.normal(size=(n, 1)), rng.integers(0, 2, n)
    status = (rng.random(n) < 0.2).astype(np.int8)
    ran = np.where(status == 1, 1 - proposed, proposed)
    columns = [(one + 1.0)[:, None] for one in (ran, proposed)]
    y, unit = rng.normal(size=(n, 1)), np.zeros(n, dtype=np.int64)
    batch = Batch(x, columns[0], y, unit, np.arange(float(n)), columns[1], status)
    return instance, batch


@pytest.mark.parametrize(
    ("posterior", "p", "low", "words", "state"),
    [
        (0.02, 0.001, 0.01, KNEW, "Tested: does not hold"),
        (0.02, 0.001, -0.06, KNEW, "Tested: does not hold"),
        (0.93, 0.001, -0.06, UNCLEAR, "Tested: may not hold"),
        (0.07, 0.4, 0.01, UNCLEAR, "Tested: may not hold"),
        (0.93, 0.4, -0.06, NO_SIGN, "Tested, but too few rows to tell"),
    ],
)
def test_what_is_said_of_overrides_agrees(
    monkeypatch: pytest.MonkeyPatch, posterior: float, p: float, low: float, words: str, state: str
) -> None:
    """'Probably knew something', and 'the probability that they did not is 93 %', stood together.

    The reason never says both, and the list of assumptions says the same.
    """
    found = Contrast(posterior, 0.2, low, 0.4 - low, p, 320.0, 80.0)
    monkeypatch.setattr(evidence, "contrast_of", lambda *_: found)
    instance, batch = overridden()
    certificate = certify(batch, instance, GaussianThompson(), full=False)
    (said,) = [one for one in certificate.reasons if one.startswith("Overridden rows earn ")]
    assert [each in said for each in (KNEW, UNCLEAR, NO_SIGN)].count(True) == 1
    assert words in said
    (rest,) = [one for one in certificate.figures["assumptions"] if one["name"] == NAME]
    assert rest["state"] == state
    assert ("single arms" in said or "in single arms" in said) == (p < 0.01 and low < 0)
