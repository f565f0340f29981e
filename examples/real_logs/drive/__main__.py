"""Print what came of the drive as Markdown, and draw it."""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from pathlib import Path

import numpy as np

import gdcb
from examples.real_logs.drive import __doc__ as about
from examples.real_logs.drive import decision, fix, plot, run, score
from examples.real_logs.drive.log import Drive, read
from gdcb.arrays import Array
from gdcb.errors import InvalidInput

SEED = 2016
LIVE = (1, 2, 3)  # seeds of the agent that learns while it steers
SOURCE = "Made from smartLoc, TU Chemnitz, CC BY-SA 4.0"


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A method's positions (T, 3).

    Parameters
    ----------
    track : what its filter said of itself
    taught : the score of its model in the first half, as the bandit has it
    """

    name: str
    position: Array
    track: run.Track | None = None
    taught: float | None = None


def say(words: str) -> None:
    """Tell how far it is, beside the report."""
    print(words, file=sys.stderr, flush=True)


def filtered(drive: Drive, plane: fix.Plane, name: str, made: gdcb.Instance, model: str) -> Found:
    """Run the filter through the whole drive with one model as it is."""
    say(f"whole drive: {name}")
    track = run.follow(drive, plane, run.Fixed(made, model))
    return Found(name, track.position, track)


def frozen(
    drive: Drive, plane: fix.Plane, name: str, agent: gdcb.Agent, model: str | None = None
) -> Found:
    """Run the filter through the whole drive with what an agent has learned, and teach it no more.

    The model is the one with the best score, unless one is named.
    """
    best = model or run.best_model(agent)
    name = name if model else f"{name} ({best})"
    say(f"whole drive: {name}")
    track = run.follow(drive, plane, run.Fixed(agent.instance, best, agent.state))
    taught = float(run.means(agent)[decision.MODELS.index(best)])
    return Found(name, track.position, track, taught)


def compared(
    drive: Drive, plane: fix.Plane, half: int, with_ablations: bool
) -> tuple[list[Found], gdcb.Agent]:
    """Return every method's positions, GDCB's first, and the agent that learned."""
    found = [
        Found(name, fix.fixes(drive, plane, weigh, reject))
        for name, weigh, reject in (
            ("fix, equal weights", fix.equal, np.inf),
            ("fix, C/N0", fix.by_cn0, np.inf),
            ("fix, C/N0 and rejection", fix.by_cn0, fix.REJECT),
        )
    ]
    gated = decision.instance()
    found += [filtered(drive, plane, f"filter, {model}", gated, model) for model in decision.MODELS]
    agent = run.learned(drive, plane, half, gated, say)
    ours = frozen(drive, plane, "**GDCB**", agent)
    if with_ablations:
        found += ablations(drive, plane, half, agent)
    return [ours, *found], agent


def ablations(drive: Drive, plane: fix.Plane, half: int, agent: gdcb.Agent) -> list[Found]:
    """Return GDCB with a part taken out, or changed."""
    found = [
        frozen(drive, plane, f"same δ, {model}", agent, model)
        for model in decision.MODELS
        if model != run.best_model(agent)
    ]
    wide = (*decision.ARMS_READ, *decision.FEATURES)
    for name, made in (
        ("no scaler", decision.instance(features=())),
        ("δ reads C/N0 and elevation too", decision.instance(features=wide)),
        ("no gate", decision.instance(gated=False)),
    ):
        say(name)
        found.append(frozen(drive, plane, name, run.learned(drive, plane, half, made, say)))
    for seed in LIVE:
        name = f"learns while it steers, seed {seed}"
        say(name)
        live = gdcb.Agent(decision.instance(every=1500), decision.bandit(), seed=seed)
        run.follow(drive, plane, run.Learning(live), half)
        found.append(frozen(drive, plane, name, live))
    return found


def _three(value: tuple[float, float, float]) -> str:
    return f"{value[0]:.1f} ({value[1]:.1f} to {value[2]:.1f})"


def _whole(found: list[Found], truth: Array) -> None:
    print("\n## The whole drive, in space\n\n| m | median | 95th percentile | on the ground |")
    print("|---|--:|--:|--:|")
    for one in found:
        if one.track is None:
            apart = one.position - truth
            space = np.percentile(np.linalg.norm(apart, axis=1), (50, 95))
            ground = np.percentile(np.hypot(apart[:, 0], apart[:, 1]), (50, 95))
            figures = f"{space[0]:.1f} | {space[1]:.1f} | {ground[0]:.1f}, {ground[1]:.1f}"
            print(f"| {one.name} | {figures} |")


def _second(found: list[Found], truth: Array, time: Array, half: int) -> None:
    drawn = score.blocks(time[half:], np.random.default_rng(SEED))
    scored = [score.errors(one.position[half:], truth[half:], drawn) for one in found]
    print("\n## The second half, in space\n")
    print("| m | median | 95th percentile | GDCB less it: median | 95th percentile |")
    print("|---|--:|--:|--:|--:|")
    for i, (one, errors) in enumerate(zip(found, scored, strict=True)):
        less = score.less(scored[0], errors)
        gaps = [_three(gap) for gap in less] if i else ["", ""]
        figures = (_three(errors.median), _three(errors.high), *gaps)
        print(f"| {one.name} | {' | '.join(figures)} |")
    print("\n## The second half: on the ground, and what the filter says of itself\n")
    print("| | median, m | 95th, m | own deviation, m | NIS a row | used | score | first half's |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for one, errors in zip(found, scored, strict=True):
        own, taught = "– | – | – | –", "–" if one.taught is None else f"{one.taught:.2f}"
        if one.track is not None:
            used = one.track.n_used[half:]
            own = (
                f"{np.median(one.track.deviation[half:]):.1f} | "
                f"{one.track.nis[half:].sum() / used.sum():.2f} | {used.mean():.1f} | "
                f"{one.track.log_density[half:].sum() / used.sum():.2f}"
            )
        print(f"| {one.name} | {errors.ground:.1f} | {errors.ground_high:.1f} | {own} | {taught} |")


def _learned(agent: gdcb.Agent) -> None:
    print("\n## What the first half taught\n")
    print("| noise model | score | rows | log δ |\n|---|--:|--:|---|")
    names, theta = ("1", *decision.FEATURES), agent.state.scaler.theta[0]
    rows = agent.state.bandit.count[0]
    for i, (model, mean) in enumerate(zip(decision.MODELS, run.means(agent), strict=True)):
        terms = ", ".join(
            f"{one} {weight:+.2f}" for one, weight in zip(names, theta[i], strict=True)
        )
        print(f"| {model} | {mean:.3f} | {rows[i]:,.0f} | {terms} |")
    vetoed = [one for one, record in agent.records.items() if record.status == "vetoed"]
    print(f"\n{len(vetoed):,} of {len(agent.records):,} decisions rejected a satellite; the first")
    print("of each kind of reason:\n")
    kinds = {re.sub(r"[\d.]+", "#", agent.records[one].reason): one for one in reversed(vetoed)}
    print("\n".join(f"- {agent[one].reason}" for one in kinds.values()))


def picture(drive: Drive, plane: fix.Plane, found: list[Found], half: int) -> str:
    """Draw the truth, and of the second half the fixes, one filter without learning and GDCB."""
    time, truth, named = drive.time, plane.of(drive.truth), {one.name: one for one in found}

    def later(position: Array) -> Array:
        return plot.thinned(time[half:], position[half:])

    layers = [
        plot.Layer(
            "ground truth, first half",
            plot.thinned(time[:half], truth[:half]),
            "c-floor",
            dash="3 4",
        ),
        plot.Layer("ground truth, second half", later(truth), "c-ink", width=3.0),
        plot.Layer(
            "fix, C/N0 and rejection",
            later(named["fix, C/N0 and rejection"].position),
            "c-red",
            "cross",
            2.6,
        ),
        plot.Layer("filter, C/N0", later(named["filter, C/N0"].position), "c-green", dash="7 4"),
        plot.Layer("GDCB", later(found[0].position), "c-ours", width=2.6),
    ]
    title = "The drive on a plane, in metres"
    says = (
        "East to the right, north up. Ground truth of both halves, and of the second half the "
        "least-squares fixes, a filter with C/N0 weights and GDCB."
    )
    return plot.plane(layers, title, says, SOURCE)


def main() -> None:
    """Read, learn on the first half, score on the second, print and draw."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.real_logs.drive",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", type=Path, help="folder with the drive's three tables")
    parser.add_argument("--plot", type=Path, help="where to write the drawing (SVG)")
    parser.add_argument("--ablations", action="store_true", help="parts taken out, too: minutes")
    given = parser.parse_args()
    try:
        if given.plot and not given.plot.absolute().parent.is_dir():
            raise InvalidInput(f"--plot: expected a file in a folder that exists, got {given.plot}")
        drive = read(given.path)
        plane = fix.plane_of(drive)
        half = int(np.searchsorted(drive.time, (drive.time[0] + drive.time[-1]) / 2))
        found, agent = compared(drive, plane, half, given.ablations)
    except InvalidInput as error:
        raise SystemExit(f"error: {error}") from error
    truth = plane.of(drive.truth)
    seconds = drive.time[-1] - drive.time[0]
    print(
        f"{seconds:.0f} s, {drive.n:,} epochs, {drive.ranges.size:,} pseudoranges of "
        f"{', '.join(drive.systems)}; learned on {half:,} epochs, scored on {drive.n - half:,}"
    )
    _whole(found, truth)
    _learned(agent)
    _second(found, truth, drive.time, half)
    if given.plot:
        given.plot.write_text(picture(drive, plane, found, half), encoding="utf-8")
        say(f"drawn: {given.plot}")


if __name__ == "__main__":
    main()
