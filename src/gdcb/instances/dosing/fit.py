"""The first layer of the scaler, fitted once: kernel, noise and inducing points.

`python -m gdcb.instances.dosing.fit` writes `map.json` and the scaler's table of `dosing.toml`
anew. Lengths, variance and noise come from a pilot clinic by marginal likelihood; how far lengths
are stretched, since few points stand for many, is chosen by the error on held-out labels of all
pilot clinics. None of them is in any result. The map also keeps the head of one model for all
pilot clinics, from which rivals have their advice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.dosing.advice import head_of
from gdcb.instances.dosing.columns import FEATURES, WEIGHT
from gdcb.instances.dosing.learners import MAP
from gdcb.instances.dosing.world import VARIANTS, Meals
from gdcb.scalers import GaussianProcessScaler
from gdcb.streams import CONTEXT, LABEL, WORLD, Streams

SEED = 9_000_002  # no result is computed on it
CLINICS, PATIENTS, MEALS, HELD_OUT = 24, 8, 150, 30
POINTS = {"well": 36, "mis": 72}  # inducing points: more did not help, or took too long
ROWS = 400  # for the marginal likelihood
TOML = MAP.with_name("dosing.toml")
BEGINS, ENDS = "# The feature map begins.\n", "# The feature map ends.\n"
STRETCHES = (1.0, 1.5, 2.0, 3.0)


@dataclass(slots=True)
class Pilot:
    """Labelled meals: clinic (n,), contexts (n, 5), labels (n, 1), and which are held out."""

    clinic: Array
    x: Array
    label: Array
    is_held_out: Array


def pilot(variant: str, clinics: int = CLINICS, meals: int = MEALS) -> Pilot:
    """Draw the pilot history."""
    # Nobody advises in the pilot: the advice is what comes of it.
    world, streams = Meals(variant, is_advised=False), Streams(SEED, PATIENTS)
    group = np.repeat(np.arange(clinics), PATIENTS)
    state = world.start(streams.at(WORLD, 0), group)
    x, label = [], []
    for t in range(meals + HELD_OUT):
        rows = world.context(streams.at(CONTEXT, t), state, t, group)
        x.append(rows.x[:, : len(FEATURES)])
        label.append(world.label(streams.at(LABEL, t), state, np.zeros((group.size, 1)), rows))
    held_out = np.repeat(np.arange(meals + HELD_OUT) >= meals, group.size)
    clinic = np.tile(group, meals + HELD_OUT)
    return Pilot(clinic, np.concatenate(x), np.concatenate(label), held_out)


def fit(seen: Pilot, points: int, rows: int = ROWS) -> dict[str, Any]:
    """Return the feature map that a pilot history makes, as it is stored."""
    first = (seen.clinic == 0) & ~seen.is_held_out
    found = GaussianProcessScaler.from_history(
        FEATURES,
        seen.x[first],
        seen.label[first],
        n_inducing=points,
        n_fit=rows,
        link="identity",
    )
    tried = [_stretched(found, seen, factor, points) for factor in STRETCHES]
    best = min(tried, key=lambda one: _error(one, seen))
    known = {
        "kernel": best.kernel,
        "variance": _short(best.variance),
        "noise": _short(best.penalty),
        "shift": _short(float(seen.label.mean())),
        "unit": _short(best.unit[0]),
        "lengths": [_short(length) for length in best.lengths],
        "inducing": [[_short(value) for value in point] for point in best.inducing],
    }
    # On the map as it is stored, so that both belong together to the last digit.
    return known | {"head": [_short(value) for value in head_of(known, seen.x, seen.label)]}


def _stretched(
    found: GaussianProcessScaler, seen: Pilot, factor: float, points: int
) -> GaussianProcessScaler:
    """Return the scaler with longer lengths, its points spread over all pilot contexts."""
    longer = replace(
        found,
        features=tuple(range(len(FEATURES))),
        lengths=tuple(factor * length for length in found.lengths),
        shift=(float(seen.label.mean()),),
    )
    contexts = np.unique(seen.x, axis=0)
    chosen = longer._spread_out(contexts, points)
    return replace(longer, inducing=tuple(tuple(row) for row in contexts[chosen].tolist()))


def _error(scaler: GaussianProcessScaler, seen: Pilot) -> float:
    """Return the mean squared error on held-out labels, in units a kg."""
    known, held = ~seen.is_held_out, seen.is_held_out
    state = scaler.init(int(seen.clinic.max()) + 1)
    weight = np.ones(int(known.sum()))
    none = np.full((weight.size, 1), np.nan)
    scaler.observe(state, seen.clinic[known], seen.x[known], none, seen.label[known], weight)
    scaler.publish(state, np.arange(state.versions.size))
    said = scaler.predict(state, seen.clinic[held], seen.x[held])[:, 0, 0]
    return float((((said - seen.label[held, 0]) / seen.x[held, WEIGHT]) ** 2).mean())


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def declared(text: str, found: dict[str, Any]) -> str:
    """Return the instance's file with a feature map in its scaler's table."""
    points = ",\n".join(f"  {point}" for point in found["inducing"])
    table = (
        f'kernel = "{found["kernel"]}"\nvariance = {found["variance"]}\n'
        f"penalty = {found['noise']}\nshift = [{found['shift']}]\nunit = [{found['unit']}]\n"
        f"lengths = {found['lengths']}\n"
        f"inducing = [\n{points},\n]\n"
    )
    before, _, rest = text.partition(BEGINS)
    _, _, after = rest.partition(ENDS)
    return f"{before}{BEGINS}{table}{ENDS}{after}"


def main() -> None:
    """Write the maps of both variants."""
    found = {variant: fit(pilot(variant), POINTS[variant]) for variant in VARIANTS}
    MAP.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    text = TOML.read_text(encoding="utf-8")
    TOML.write_text(declared(text, found["mis"]), encoding="utf-8")


if __name__ == "__main__":
    main()
