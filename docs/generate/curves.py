"""One figure a domain, from its own world: what an action is worth there, and where limits lie.

All is read from what the package ships (tables, banks, priors), at the prior's middle where a
number is drawn, so that building the site needs none of the back ends.
"""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from docs.generate.chart import Axis, Line, Panel, figure
from gdcb.records import Rows
from gdcb.streams import Stream

_SHEDS = ((0.0, "c-red", ""), (0.4, "c-cold", "7 3"), (0.8, "c-ours", "2 3"))  # MW


def dosing() -> str:
    """Draw reward and time below 70 mg/dL against the dose, of three patients."""
    from gdcb.instances.dosing import response, tabulate

    table, found = tabulate.read(), response.known()
    reward, low, who = [], [], []
    styles = (("child", "c-red", ""), ("adolescent", "c-green", "7 3"), ("adult", "c-ours", "2 3"))
    # Where the names stand in the two panels.
    spots = {
        "child": ((4.4, -0.4), (4.2, 40.0)),
        "adolescent": ((9.2, 0.65), (9.6, 9.0)),
        "adult": ((11.0, 0.25), (10.9, 27.0)),
    }
    for kind, colour, dash in styles:
        mine = [i for i, name in enumerate(table.name) if str(name).startswith(kind)]
        # The meal that is most like 50 g, eaten at 140 mg/dL with no insulin on board.
        gap = (table.meal[mine] - 50) ** 2 / 25 + (table.glucose[mine] - 140) ** 2 / 100
        gap += (10 * table.iob[mine]) ** 2 + (10 * table.trend[mine]) ** 2
        i, state = np.unravel_index(gap.argmin(), gap.shape)
        patient = mine[i]
        at = patient * found.states + int(state)
        dose, is_shown = found.dose[patient], found.dose[patient] <= 12.0
        worth, below = found.reward[at][is_shown], found.shares[1, at][is_shown]
        units, best = dose[is_shown].tolist(), int(worth.argmax())
        at_worth, at_low = spots[kind]
        reward.append(Line(kind, units, worth.tolist(), colour, dash, at_worth, "end", (best,)))
        low.append(Line(kind, units, (100 * below).tolist(), colour, dash, at_low, "end"))
        x = table.meal[patient, state], table.glucose[patient, state]
        who.append(f"{kind} of {table.weight[patient]:.0f} kg, {x[0]:.0f} g at {x[1]:.0f} mg/dL")
    doses = Axis("bolus, units", (0, 2, 4, 6, 8, 10, 12))
    says = "The best dose is marked: small for the child, larger for the adolescent and the adult. "
    panels = (
        Panel(
            "What a bolus is worth",
            says + "To the right of it the reward falls steeply for the child.",
            doses,
            Axis("expected reward", (-1.5, -1, -0.5, 0, 0.5, 1)),
            reward,
        ),
        Panel(
            "What it risks",
            "Time below 70 mg/dL is none at small doses and rises steeply, first for the child.",
            doses,
            Axis("time below 70 mg/dL in five hours", (0, 20, 40, 60, 80), " %"),
            low,
            levels=(("goal: 4 %", 4.0, "2 3"),),
        ),
    )
    caption = (
        f"One meal of each: {'; '.join(who)}. Dots are the best doses. The patients are "
        "simglucose's, virtual; five hours under 61 doses each, as tabulated, over three true meal "
        "sizes. Nothing here says what anybody should inject."
    )
    return figure("dosing", panels, caption)


def credit() -> str:
    """Draw what an offer earns, and how often it is taken, against its rate."""
    from gdcb.instances.credit import prior as pr
    from gdcb.instances.credit.columns import LGD, MIDDLE, loan_years
    from gdcb.instances.credit.demand import MisDemand

    rates, years = np.linspace(0.04, 0.30, 131), loan_years(np.array(MIDDLE))
    offers = np.stack((rates, np.full_like(rates, MIDDLE)), axis=-1)[None]
    base = pr.FUNDING + pr.MARGIN + LGD * np.exp(pr.ODDS) / years
    earned, taken, words = [], [], []
    styles = (("good risk", -0.8, "c-ours", ""), ("poor risk", 1.2, "c-red", "7 3"))
    for name, risk, colour, dash in styles:
        score = pr.ODDS + risk
        fair = pr.FUNDING + pr.MARGIN + LGD * np.exp(score) / years
        one = np.ones((1, 1))
        going, law = base * (fair / base) ** pr.OUTSIDE * one, pr.MIS
        demand = MisDemand(
            going, 2.0 * one, law.level * one, law.slope * one, law.tenor * one, score * one
        )
        accepted, default = demand.taken(offers)[0], demand.default(offers)[0]
        margin = (rates - pr.FUNDING) * years
        gain = 1000.0 * accepted * ((1.0 - default) * margin - default * LGD)
        percent, best = (100 * rates).tolist(), int(gain.argmax())
        at = (percent[best] + 1.0, gain[best] + 1.2)
        earned.append(Line(name, percent, gain.tolist(), colour, dash, at, "start", (best,)))
        spot, end = ((10.4, 8.0), "end") if risk < 0 else ((14.0, 50.0), "start")
        taken.append(Line(name, percent, (100 * accepted).tolist(), colour, dash, spot, end))
        words.append(f"{name}: {100 * default[best]:.0f} % of such loans default")
    caps = [float(rule(np.array([base]))[0]) for rule in pr.CAPS]
    names = ("Germany", "France", "flat")
    uprights = [(n, 100 * cap, "5 3") for n, cap in zip(names, caps, strict=True)]
    apr = Axis("APR offered, % a year", (5, 10, 15, 20, 25, 30))
    cut = [_from(line, 5.0) for line in earned]
    panels = (
        Panel(
            "What an offer earns",
            "Profit rises with the rate, then falls as fewer take it. For the good risk it is "
            "highest at a lower rate than for the poor risk, whose best rate lies above the lowest "
            "cap.",
            apr,
            Axis("expected profit, marks of 1,000 asked for", (-20, -10, 0, 10, 20, 30)),
            cut,
            uprights=uprights,
        ),
        Panel(
            "How often it is taken",
            "Take-up falls with the rate, for the good risk at lower rates already.",
            apr,
            Axis("offers taken", (0, 25, 50, 75, 100), " %"),
            [_from(line, 5.0) for line in taken],
            uprights=[("", at, dash) for _, at, dash in uprights],
        ),
    )
    caption = (
        f"Two applicants of variant mis for two years ({'; '.join(words)}), at a lender in the "
        "middle of the prior. Dots are the best rates. Upright lines are caps: the market's rate "
        "and a third (France), twice it (Germany), 24 %. Default risk is fitted to the German "
        "credit data; take-up is made, with published elasticities."
    )
    return figure("credit", panels, caption)


def _from(line: Line, least: float) -> Line:
    """Return a line from some x on."""
    first = next(i for i, x in enumerate(line.x) if x >= least - 1e-9)
    dots = tuple(i - first for i in line.dots)
    return Line(
        line.name,
        line.x[first:],
        line.y[first:],
        line.colour,
        line.dash,
        line.at,
        line.anchor,
        dots,
    )


def grid() -> str:
    """Draw the stability margin over a hot day by shed, and which sheds the network bears."""
    from gdcb.instances.grid import prior
    from gdcb.instances.grid.columns import FLEXIBLE, HIGH, LOW, N_ZONES, ZONES
    from gdcb.instances.grid.world import Feeder, Zones

    world, zone = Feeder("mis"), list(ZONES).index("5-6")
    hours = np.arange(prior.HOURS[0], prior.HOURS[1] + 1)
    n = hours.size * N_ZONES
    middle: dict[str, float] = {
        "voll": prior.VOLL,
        "price": prior.PRICE,
        "swing": prior.SWING,
        "peak": prior.PEAK,
        "cooling": prior.COOLING,
        "voltage": float(np.mean(prior.VOLTAGE)),
        "panels": float(np.mean(prior.PANELS)),
        "summer": prior.SUMMER,
        "flexible": float(np.mean(prior.FLEXIBLE)),
        "need": prior.NEED,
        "width": prior.WIDTH,
    }
    names = [one.name for one in fields(Zones) if one.name != "theta"]
    state = Zones(**{k: np.full(n, middle[k]) for k in names}, theta=np.zeros((n, 0)))
    # One hour after the other, clear, 4 °C hotter than usual: the draws of such a day.
    hour = (np.repeat(np.arange(hours.size), N_ZONES) + 0.5) / hours.size
    draws = SimpleNamespace(
        uniform=lambda n, _: np.stack((hour, np.full(n, 0.7)), axis=1),
        normal=lambda n, _: np.tile([4.0 / prior.WEATHER_SD, 0.0], (n, 1)),
    )
    rows = world.context(cast(Stream, draws), state, 0, np.zeros(n, dtype=int))
    rows = rows.take(np.flatnonzero(np.arange(n) % N_ZONES == zone))
    day = hours.tolist()
    margins = []
    for shed, colour, dash in _SHEDS:
        y = world.margin(rows, np.full((rows.n, 1), shed))[:, 0]
        at = (15.0, float(y[7]) + (0.025 if shed else -0.045))
        margins.append(Line(f"{shed:g} MW shed", day, y.tolist(), colour, dash, at, "middle"))
    low, high = rows.x[:, LOW], np.minimum(rows.x[:, HIGH], rows.x[:, FLEXIBLE])
    best = world.best(state, rows)[:, 0]
    area = [*zip(day, low, strict=True), *zip(day[::-1], high[::-1], strict=True)]
    clock = Axis("hour of the day", (8, 10, 12, 14, 16, 18, 20, 22))
    least = Line(
        "least that the network needs", day, low.tolist(), "c-red", "7 3", (15.0, 0.29), "middle"
    )
    top = Line("best", day, best.tolist(), "c-ours", "", (15.0, 0.58), "middle")
    panels = (
        Panel(
            "What a shed does to the margin",
            "The margin is lowest in the evening, when the sun is gone. Without a shed it is below "
            "0, a limit broken, in all hours; 0.4 MW lift it above.",
            clock,
            Axis("stability margin; below 0 a limit is broken", (-0.2, -0.1, 0, 0.1, 0.2, 0.3)),
            margins,
        ),
        Panel(
            "Feasible sheds, and the best of them",
            "The feasible sheds lie between the least that the power flow bears and all that is "
            "under contract; the best shed lies above the least.",
            clock,
            Axis("shed, MW", (0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2)),
            (least, top),
            areas=(("c-green", area),),
        ),
    )
    caption = (
        "One zone (buses 5 and 6) on a clear day, 4 °C hotter than usual, in a network in the "
        "middle of the prior. Tinted: what the power flow and the contract allow. The margins are "
        "pandapower's, tabulated; load, weather and prices are made."
    )
    return figure("grid", panels, caption)


def moderation() -> str:
    """Draw what each category is worth by severity, and what the profanity model sees of it."""
    from gdcb.instances.moderation import world as w
    from gdcb.instances.moderation.columns import (
        APPEAL_COST,
        REACH,
        SCHEMA,
        SEVERITY,
        VIOLATION_COST,
    )

    severity = np.linspace(0.0, 1.0, 101)
    n, world = severity.size, w.Forum("mis")
    middle = {
        "warn": w.WARN_AT,
        "remove": w.REMOVE_AT,
        "lax": float(np.mean(w.LAX)),
        "harsh": float(np.mean(w.HARSH)),
        "contested": w.APPEAL_LEVEL,
        "violation_cost": w.VIOLATION,
        "appeal_cost": w.APPEAL,
    }
    drawn: dict[str, Any] = {name: np.full(n, value) for name, value in middle.items()}
    state = w.Communities(**drawn, weights=np.tile(w.WEIGHTS, (n, 1)), theta=np.zeros((n, 0)))
    x, hidden = np.zeros((n, SCHEMA.width)), np.zeros((n, 4))
    x[:, REACH] = w.REACH_LAW[0] / sum(w.REACH_LAW)
    x[:, VIOLATION_COST], x[:, APPEAL_COST] = w.VIOLATION, w.APPEAL
    hidden[:, SEVERITY] = severity
    worth = world.means(state, Rows(np.arange(n), np.zeros(n, dtype=int), x, hidden=hidden))
    styles = (
        ("allow", "c-green", "", (0.02, 0.98), "start"),
        ("warn", "c-ours", "7 3", (0.46, 0.86), "middle"),
        ("remove", "c-red", "2 3", (0.98, 0.98), "end"),
    )
    lines = [
        Line(name, severity.tolist(), worth[:, i].tolist(), colour, dash, at, anchor)
        for i, (name, colour, dash, at, anchor) in enumerate(styles)
    ]
    posts = world.posts
    built = np.minimum((w.WEIGHTS * posts.parts).sum(axis=1), 1.0)
    some = slice(0, 300)
    places = list(zip(built[some].tolist(), posts.x[some, 0].tolist(), strict=True))
    together = float(np.corrcoef(built, posts.x[:, 0])[0, 1])
    panels = (
        Panel(
            "What each category is worth",
            "Allowing is best at low severity, a warning between the two thresholds, removal above "
            "the second.",
            Axis("severity of the post", (0, 0.2, 0.4, 0.6, 0.8, 1)),
            Axis("expected reward", (-1, -0.5, 0, 0.5, 1)),
            lines,
            uprights=(
                ("warning", w.WARN_AT, "5 3"),
                ("removal", w.REMOVE_AT, "5 3"),
            ),
        ),
        Panel(
            "What a profanity model sees of it",
            f"Profanity says little of severity: the correlation is {together:.2f}.",
            Axis("severity of the post", (0, 0.2, 0.4, 0.6, 0.8, 1)),
            Axis("probability of profanity", (0, 0.2, 0.4, 0.6, 0.8, 1)),
            points=(("c-purple", "ring", 2.6, places),),
        ),
    )
    caption = (
        "Left: a community in the middle of the prior, made; upright lines are the severities from "
        "which it wants a warning and a removal. Right: 300 posts of the bank, whose "
        "severity is made and the probability real, from alt-profanity-check; over all 4,000 they "
        f"correlate by {together:.2f}, and more features have to tell the rest."
    )
    return figure("moderation", panels, caption)


def kalman() -> str:
    """Draw the gains of the modes against the ratio of noises, and how a change is noticed."""
    from gdcb.composition.steady import table
    from gdcb.instances.kalman.plants import TARGET
    from gdcb.instances.kalman.tracker import Tracker

    plant, k = TARGET, TARGET.n_modes
    styles = (("c-ours", ""), ("c-green", "7 3"), ("c-red", "2 3"))
    matrices = ((plant.transition,) * k, (plant.measurement,) * k, plant.process)
    steady = table(*matrices, (((plant.noise,),),) * k, 0.01, 100.0)
    decades = np.linspace(-2.0, 2.0, 81)
    p = steady.at(np.repeat(10.0 ** decades[:, None], k, axis=1), np.ones((decades.size, k)))
    gain = p[..., 0, 0] / (p[..., 0, 0] + plant.noise)
    spots = ((0.9, 0.30), (-0.9, 0.33), (-1.2, 0.62))
    gains = [
        Line(mode, decades.tolist(), gain[:, i].tolist(), *styles[i], spots[i], "middle")
        for i, mode in enumerate(plant.modes)
    ]
    # One track: cruise, then a manoeuvre, then cruise again; a fixed draw at nominal sizes.
    rng, tracker = np.random.default_rng(7), Tracker(plant)
    state = np.zeros((1, len(plant.axes), 2))
    track, likely = tracker.begin(state), []
    for step in range(120):
        mode = 2 if 40 <= step < 80 else 0
        root = np.linalg.cholesky(np.array(plant.process[mode]))
        state = plant.predict(state) + rng.normal(size=state.shape) @ root.T
        seen = state[..., 0] + rng.normal(size=state.shape[:2]) * np.sqrt(plant.noise)
        own = plant.gains[int(track.likely.argmax()), -1][None]
        track = tracker.update(track, own, seen, np.full(1, 0.5), np.full(1, 0.5))
        likely.append(track.likely[0])
    steps, found = list(range(1, 121)), np.array(likely)
    places = ((20.0, 92.0), (100.0, 30.0), (60.0, 97.0))
    chances = [
        Line(mode, steps, (100 * found[:, i]).tolist(), *styles[i], places[i], "middle")
        for i, mode in enumerate(plant.modes)
    ]
    panels = (
        Panel(
            "The gain that is right",
            "Gains rise with process noise over measurement noise, each mode's along a curve of "
            "its own.",
            Axis("size of Q over size of R, powers of ten", (-2, -1, 0, 1, 2)),
            Axis("gain on the place", (0, 0.2, 0.4, 0.6, 0.8, 1)),
            gains,
        ),
        Panel(
            "How a change is noticed",
            "The cruise mode is likely until the target manoeuvres, then that mode is, and some "
            "steps after the end cruise is again.",
            Axis("step", (0, 20, 40, 60, 80, 100, 120)),
            Axis("how likely, by the bank", (0, 20, 40, 60, 80, 100), " %"),
            chances,
            uprights=(("", 40.0, "5 3"), ("", 80.0, "5 3")),
        ),
    )
    caption = (
        "Left: steady gains of the target's three modes at nominal shapes. Right: one simulated "
        "track that manoeuvres between the dashed lines, and what the bank of three filters makes "
        "of it. All of it is made."
    )
    return figure("kalman", panels, caption)
