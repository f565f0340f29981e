"""Made-up pages: rents of holiday flats, and doses of insulin, as a service would fill them."""

from __future__ import annotations

from dataclasses import replace

from gdcb.pages.numbers import Estimate
from gdcb.service.pages.views import audit, dashboard, decision, entrance, people, queue, review
from gdcb.service.pages.views.frame import Choice, Frame, Notice, Pause, Place, View

NOW = 1_781_622_000_000_000  # 16 June 2026, 15:00 UTC
MINUTE = 60_000_000
HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE
EVERY_ROLE = frozenset(("decide", "outcome", "approve", "operate", "audit", "administer"))
HASH = "9f2c4b1e7a3d5068c1e2f3a4b5d6e7f80912a3b4c5d6e7f8091a2b3c4d5e6f70"

RENT = Place("rent", "Holiday rents", waiting=7, roles=EVERY_ROLE)
DOSE = Place("dosing", "Insulin doses", waiting=2, roles=EVERY_ROLE)
FRAME = Frame(NOW, "c5rf-t0ken", "Ana Horvat", place=RENT, request="01JY3Q8Z", here="/i/rent/queue")
OUTSIDE = replace(FRAME, place=None, is_administrator=True, here="/")
NOBODY = Frame(NOW, "c5rf-t0ken", request="01JY3Q8Z")


def price(value: float | None) -> decision.Action:
    return (decision.Quantity("price", value, "€", 0),)


def dose(units: float | None, kind: str = "lispro") -> decision.Action:
    return (decision.Quantity("bolus", units, "U", 1), decision.Quantity("insulin", kind))


FLATS = ("Lake House 3", "Old Town Loft", "Harbour View 12", "Pine Cabin", "Vineyard Barn")
RULES = (
    decision.Held("price change", "the price is further than 15 % from the last one"),
    decision.Held("peak season", "occupancy 0.93 is at least 0.9"),
    decision.Held("price ceiling", "it is above 400"),
)
LIMITS = (
    ("change", "%", "within 15"),
    ("occupancy", "", "below 0.9"),
    ("price", "€", "at most 400"),
)


def waiting(i: int) -> decision.Waiting:
    """Return the i-th decision that waits."""
    claims = {
        1: decision.Claim("Ana Horvat", NOW + 12 * MINUTE, is_mine=True),
        2: decision.Claim("Bruno Keller", NOW + 4 * MINUTE),
    }
    old, new = 118 + 21 * (i % 5), (142, 179, 416, 226, 149, 422, 171)[i % 7]
    value = (round(100 * abs(new - old) / old), 0.93, new)[i % 3]
    name, unit, limit = LIMITS[i % 3]
    return decision.Waiting(
        id=f"rent-2026-06-{16 + i % 14:02d}-{4711 + i}",
        unit=FLATS[i % len(FLATS)],
        proposed=price(new),
        current=price(old) if i % 4 != 3 else (),
        held=replace(RULES[i % 3], found=(decision.Found(name, value, limit, unit),)),
        asked=NOW - (9 + 13 * i) * MINUTE,
        deadline=None if i % 7 == 6 else NOW + (7 + 55 * i) * MINUTE,
        expiry=("veto", "fallback", "wait")[i % 3],
        fallback=price(129),
        risk=0.8 - 0.1 * (i % 6),
        claim=claims.get(i),
        version=8120 + i,
        content=HASH,
    )


def queue_of(n: int = 7) -> queue.QueueView:
    """Return a queue of so many decisions."""
    return queue.QueueView(
        frame=FRAME,
        rows=tuple(waiting(i) for i in range(n)),
        total=n,
        rules=tuple(rule.rule for rule in RULES),
        units=FLATS,
        version=8131,
    )


APPROVE = (Choice("agree", "as I would have done"), Choice("checked", "I checked with the owner"))
EDIT = (Choice("local", "I know something local"), Choice("step", "too large a step at once"))
VETO = (Choice("wrong-input", "the input is wrong"), Choice("owner", "the owner does not want it"))
REASONS = review.Reasons(APPROVE, EDIT, VETO)

BULK = queue.BulkView(
    frame=FRAME,
    verdict="approve",
    rule="price change",
    rows=tuple(waiting(i) for i in (0, 3)),
    reasons=APPROVE,
)
BULK_REFUSED = replace(
    BULK,
    verdict="veto",
    problem="You chose decisions of two rules, 'price change' and 'peak season'. Choose one rule.",
)


def arm(i: int) -> review.Arm:
    multiplier = 0.8 + 0.1 * i
    mean = 96 - 5.5 * (i - 4.2) ** 2
    return review.Arm(
        name=f"× {multiplier:.1f}",
        action=price(round(118.3 * multiplier)),
        worth=Estimate(mean, mean - 7 - 2 * abs(i - 3), mean + 7 + 2 * abs(i - 3)),
        probability=(0.001, 0.02, 0.09, 0.21, 0.46, 0.18, 0.03, 0.009)[i],
        is_proposed=i == 4,
    )


PREVIEW = review.Preview(
    action=price(155),
    arm="× 1.1",
    distance=0.15,
    worth=Estimate(91.2, 82.0, 100.4),
    approved=Estimate(92.4, 83.1, 101.2),
    gates=(
        decision.GateStep("floor price", "passed", price(155), price(155)),
        decision.GateStep(
            "weekend cap", "modified", price(155), price(150), "cap of 150 € in June"
        ),
    ),
)

REVIEW = review.ReviewView(
    frame=FRAME,
    case=waiting(0),
    worth=decision.Quantity("expected income", None, "€ a night"),
    context=(
        decision.Quantity("arrival in", 23, "days"),
        decision.Quantity("nights", 4),
        decision.Quantity("weekday", "Friday"),
        decision.Quantity("occupancy nearby", 0.87),
        decision.Quantity("event", "lake festival"),
    ),
    factors=(
        review.Factor("season", "June", 1.12, "+12 % on the price"),
        review.Factor("occupancy nearby", 0.87, 1.06, "+6 % on the price"),
        review.Factor("last-minute", 23, 0.99, "−1 % on the price"),
    ),
    effects=(
        review.Factor("season", "June", None, "×1.08"),
        review.Factor("last-minute", 23, None, "as is typical"),
    ),
    arms=tuple(arm(i) for i in range(8)),
    past=(
        review.PastCase("rent-2025-06-18-101", NOW - 363 * DAY, FLATS[0], price(139), "passed", 556,
                        likeness=0.94),
        review.PastCase("rent-2025-06-20-117", NOW - 361 * DAY, FLATS[0], price(149), "edited", 447,
                        "Bruno Keller", 0.91),
        review.PastCase("rent-2026-06-02-4400", NOW - 14 * DAY, FLATS[2], price(161), "approved",
                        by="Ana Horvat", likeness=0.72),
    ),
    edit=(review.EditField("price", "Price", 142, "€", 60, 400, 1),),
    reasons=REASONS,
    later="rent-2026-06-17-4712",
    position=1,
    waiting=7,
)  # fmt: skip
ANSWER = decision.Answer(
    "edited", "Bruno Keller", NOW - 2 * MINUTE, "I know something local",
    "The festival was moved to July.", price(129), 8140,
)  # fmt: skip
REVIEW_PREVIEW = replace(
    REVIEW,
    preview=PREVIEW,
    edit=(review.EditField("price", "Price", 155, "€", 60, 400, 1),),
    draft=review.Draft("edit", "Choose a reason.", "", "festival moved"),
)
REVIEW_CONFLICT = replace(REVIEW, conflict=ANSWER)
REVIEW_DONE = replace(REVIEW, answer=replace(ANSWER, by="Ana Horvat"), executed=price(129))
REVIEW_TAKEN = replace(REVIEW, case=waiting(2), earlier="rent-2026-06-17-4712")
REVIEW_OWN = replace(REVIEW, is_own=True)
REVIEW_OWN_KEY = replace(REVIEW_OWN, own_key="till")
REVIEW_VETOED = replace(REVIEW, answer=replace(ANSWER, verdict="vetoed", action=()), executed=())
REVIEW_CHANGED = replace(REVIEW, case=replace(REVIEW.case, original=price(1080)))
REVIEW_KEPT = replace(REVIEW, case=replace(REVIEW.case, original=price(151), is_live=False))
REVIEW_PASSED = replace(
    REVIEW,
    case=replace(
        waiting(6), status="passed", held=decision.Held("", "every gate let it pass"), deadline=None
    ),
    executed=price(171),
)
REVIEW_READER = replace(
    REVIEW, frame=replace(FRAME, place=replace(RENT, roles=frozenset(("audit",))))
)
REVIEW_DOSE = review.ReviewView(
    frame=replace(FRAME, place=DOSE, viewer="Dr Samira Okafor"),
    case=decision.Waiting(
        id="ward4-bed11-1500",
        unit="Ward 4, bed 11",
        proposed=dose(6.5),
        current=dose(4),
        held=decision.Held(
            "large step",
            "the bolus differs from the last by more than 2 U",
            (decision.Found("step", 2.5, "at most 2", "U"),),
        ),
        asked=NOW - 3 * MINUTE,
        deadline=NOW + 12 * MINUTE,
        expiry="fallback",
        fallback=dose(4),
        version=311,
        content=HASH,
    ),
    worth=decision.Quantity("time in range", None, "% of 4 h"),
    context=(
        decision.Quantity("glucose", 212, "mg/dL"),
        decision.Quantity("trend", "rising"),
        decision.Quantity("meal", 62, "g"),
        decision.Quantity("insulin on board", 1.3, "U"),
        decision.Quantity("last potassium", None, "mmol/L"),
    ),
    factors=(review.Factor("sensitivity", "low", 1.31, "+31 % on the bolus"),),
    arms=(
        review.Arm("1 U : 8 g", dose(8), Estimate(71, 58, 80), 0.22, note="above the hard limit"),
        review.Arm("1 U : 10 g", dose(6.5), Estimate(74, 66, 81), 0.61, is_proposed=True),
        review.Arm("1 U : 15 g", dose(4), Estimate(62, 55, 69), 0.17),
        review.Arm("no bolus", (), None, None),
    ),
    edit=(
        review.EditField("bolus", "Bolus", 6.5, "U", 0, 10, 0.5),
        review.EditField(
            "insulin", "Insulin", "lispro",
            options=(Choice("lispro", "lispro"), Choice("aspart", "aspart")),
        ),
    ),
    reasons=REASONS,
    position=1,
    waiting=2,
)  # fmt: skip

HOURS = tuple(NOW - (24 - i) * HOUR for i in range(24))
DAYS = tuple(NOW - (14 - i) * DAY for i in range(14))


def _flow(scale: float, shift: int) -> tuple[float, ...]:
    return tuple(round(scale * (1 + 0.8 * ((i * 7 + shift) % 11) / 11)) for i in range(24))


DASHBOARD = dashboard.DashboardView(
    frame=replace(FRAME, here="/i/rent"),
    flow=dashboard.Timeline(
        HOURS,
        (
            dashboard.Series("passed", _flow(310, 0)),
            dashboard.Series("modified", _flow(42, 3)),
            dashboard.Series("held", _flow(6, 5)),
            dashboard.Series("vetoed", tuple(float(i % 5 == 2) for i in range(24))),
            dashboard.Series("expired", (0.0,) * 23 + (None,)),
        ),
    ),
    ages=dashboard.QueueAge(7, 5220, 1260, 4380),
    overrides=dashboard.Timeline(
        DAYS,
        (
            dashboard.Series(
                "price change",
                (0.18, 0.16, 0.2, 0.17, 0.15, 0.19, 0.18, 0.2, 0.41, 0.44, 0.39, 0.45, 0.42, 0.4),
                (8,),
                "Drift since 10 June: people lower prices by 11 % on average.",
            ),
            dashboard.Series("peak season", (0.05, None, None, 0.08, 0.04, 0.06, 0.05, 0.07, 0.05,
                                             0.06, 0.03, 0.05, 0.06, 0.05)),
            dashboard.Series("price ceiling", (None,) * 14),
        ),
    ),
    alarms=(
        dashboard.Alarm("reward", DAYS[9], DAYS[7], "It fell by 4 % on average."),
        dashboard.Alarm("gate price change: how often it acts", DAYS[8], DAYS[8]),
    ),
    rewards=(
        dashboard.Part("launched", Estimate(94.1, 92.6, 95.6), 41_230),
        dashboard.Part("holdback", Estimate(88.7, 85.9, 91.5), 4_611),
    ),
    difference=Estimate(5.4, 2.2, 8.6),
    reward_unit="€ a night",
    regret=(
        dashboard.Part("bandit", Estimate(1.9, 1.2, 2.6), note="arms that were not the best"),
        dashboard.Part("calibration", Estimate(0.8, -0.1, 1.7), note="factors that were off"),
        dashboard.Part("gate", Estimate(2.4, 1.9, 2.9), note="what gates and people changed"),
        dashboard.Part("in all", Estimate(5.1, 4.0, 6.2)),
    ),
    bins=tuple(
        dashboard.Bin(40 + 15 * i, Estimate(43 + 14 * i, 36 + 14 * i, 50 + 14 * i), 900 - 100 * i)
        for i in range(7)
    ),
    coverage=(
        dashboard.Coverage("under a day", 7_911, 0.12),
        dashboard.Coverage("1 to 7 days", 31_870, 0.64),
        dashboard.Coverage("7 to 30 days", 90_112, 0.93),
        dashboard.Coverage("older", 411_500, 0.998),
    ),
    known=0.91,
    certificate=dashboard.Certificate("adjust", NOW - 61 * DAY, "Two arms were refused."),
    chain=dashboard.ChainState(8_131, 8_120, NOW - 3 * MINUTE, True),
    launch=dashboard.Launch("ramp", 0.5, "Next step, 75 %, on 20 June."),
    learner="v312 at entry 8,131",
    fitted=NOW - 2 * DAY,
    updated=NOW - MINUTE,
)  # fmt: skip
PAUSED = replace(
    DASHBOARD,
    frame=replace(
        FRAME,
        place=replace(
            RENT,
            pause=Pause("Bruno Keller", NOW - HOUR, "The feed of bookings is late."),
        ),
    ),
    chain=dashboard.ChainState(8_131, 7_002, NOW, False, "Entry 7,003 does not follow 7,002."),
)
CONFIRM = dashboard.ConfirmView(
    frame=FRAME,
    title="Pause Holiday rents?",
    words="Nothing is decided until somebody resumes. Seven decisions stay in the queue.",
    action="/i/rent/pause",
    button="Pause",
    fields=(("reason", "feed late"),),
    back="/i/rent",
)

AUDIT = audit.AuditView(
    frame=replace(FRAME, here="/i/rent/audit?unit=Lake"),
    filters=audit.AuditFilters(unit="Lake House 3", since="2026-06-01"),
    rows=tuple(
        audit.Found(
            f"rent-2026-06-{15 - i:02d}-{4700 - i}", NOW - i * DAY, FLATS[0], price(140 + i),
            audit.STATUSES[i % 5], RULES[i % 3].rule if i % 2 else "",
            "Ana Horvat" if i % 2 else "", 420.5 + i if i % 3 else None, 8_000 - i,
        )
        for i in range(12)
    ),
    total=1_461,
    rules=tuple(rule.rule for rule in RULES),
    after="7988",
)  # fmt: skip
EVIDENCE = audit.EvidenceView(
    frame=replace(FRAME, here="/i/rent/d/rent-2026-06-16-4711/evidence"),
    id="rent-2026-06-16-4711",
    unit=FLATS[0],
    status="modified",
    at=NOW - 20 * MINUTE,
    proposed=price(142),
    executed=price(129),
    rule="price change",
    timeline=(
        audit.Entry(8120, NOW - 20 * MINUTE, "key booking-engine", "DecisionMade",
                    "Arm × 1.2 drawn; proposed 142 €.", HASH),
        audit.Entry(8121, NOW - 20 * MINUTE, "key booking-engine", "ReviewRequested",
                    "Held by price change: 20 %, limit 15 %.", HASH[::-1]),
        audit.Entry(8140, NOW - 2 * MINUTE, "Bruno Keller", "Reviewed",
                    "Edited to 129 €: I know something local.", HASH),
        audit.Entry(8141, NOW - MINUTE, "key booking-engine", "ActionExecuted", "129 €", HASH),
    ),
    context=REVIEW.context,
    chances=tuple(
        audit.Chance(one.name, one.probability, 90 + 1.7 * i, one.is_proposed)
        for i, one in enumerate(REVIEW.arms)
    ),
    factors=REVIEW.factors,
    composition="multiply",
    nominal=price(118),
    gates=(
        decision.GateStep("bounds", "passed", price(142), price(142), version="1"),
        decision.GateStep("price change", "modified", price(142), price(129), "edited", "2"),
        decision.GateStep("weekend cap", "passed", price(129), price(129), version="1"),
    ),
    seen=(
        audit.Seen("Ana Horvat", NOW - 15 * MINUTE, "looked"),
        audit.Seen("Bruno Keller", NOW - 2 * MINUTE, "edited", "I know something local",
                   "The festival was moved to July."),
    ),
    outcome=(decision.Quantity("income", 516, "€"),),
    versions=(("instance", "v12 3f9a"), ("learner", "entry 8119"), ("gdcb", "0.1.0")),
    proof=audit.Proof(3, HASH, (("left", HASH[::-1]), ("right", HASH)), HASH, HASH, HASH, True),
    replay=audit.Replay(NOW, True, "Bit for bit, on the same build."),
)  # fmt: skip
EVIDENCE_DIFFERS = replace(
    EVIDENCE,
    replay=audit.Replay(NOW, False, "Another build.", (("price", "142", "141.9998"),)),
)

GRANTS = (people.Grant("approve", "rent"), people.Grant("audit", "*"))
PEOPLE = people.PeopleView(
    frame=OUTSIDE,
    people=(
        people.Person("p1", "Ana Horvat", "ana", GRANTS, NOW - HOUR),
        people.Person("p2", "Bruno Keller", "bruno", (people.Grant("operate", "rent"),), NOW - DAY),
        people.Person("p3", "Carla Rossi", "carla", (), None, is_active=False),
    ),
    keys=(
        people.Key("k7f3", "booking engine", (people.Grant("decide", "rent"),), NOW - 90 * DAY,
                   NOW - MINUTE, NOW + 275 * DAY),
        people.Key("k11a", "old import", GRANTS, NOW - 400 * DAY, None, None, is_revoked=True),
    ),
    instances=("rent", "dosing"),
    secret=people.Secret("key", "nightly batch", "gdcb_k9b2_Zm9vYmFyYmF6cXV4", NOW + 90 * DAY),
)  # fmt: skip
CHANGES = people.ChangesView(
    frame=replace(FRAME, here="/i/rent/changes"),
    rows=(
        people.ChangeRow("c9", "Ceiling of 450 €", "Bruno Keller", NOW - HOUR, "proposed"),
        people.ChangeRow("c8", "Two arms more", "Ana Horvat", NOW - 9 * DAY, "approved"),
    ),
    toml='name = "rent"\ncontext.nights = { type = "number", low = 1, high = 30 }\n',
    older="c8",
    in_force="c8",
    since=NOW - 8 * DAY,
    problem="gates[1].high: expected a number, got 'four hundred'",
)
CHANGE = people.ChangeView(
    frame=replace(FRAME, here="/i/rent/changes/c9"),
    id="c9",
    title="Ceiling of 450 €",
    by="Bruno Keller",
    at=NOW - HOUR,
    reason="Four lake houses sold out at 400 € last week.",
    diff=(
        people.DiffLine("hunk", "[[gates]]"),
        people.DiffLine("same", 'part = "review"'),
        people.DiffLine("removed", "high = 400"),
        people.DiffLine("added", "high = 450"),
    ),
    effects=("Learners keep what they know.", "Three open decisions stay under the old rule."),
    content=HASH,
)
CHANGE_MINE = replace(CHANGE, is_mine=True)
CHANGE_DONE = replace(
    CHANGE, status="approved", decided_by="Ana Horvat", decided_at=NOW, decided_reason="Agreed."
)

SIGN_IN = entrance.SignInView(frame=NOBODY, then="/i/rent/queue")
SIGN_IN_WRONG = entrance.SignInView(
    frame=NOBODY, login="ana", problem="Login and password do not belong together."
)
LINK = entrance.LinkView(frame=NOBODY, token="b64-t0ken")
LINK_USED = entrance.LinkView(frame=NOBODY, token="b64", problem="This link was used already.")
HOME = entrance.HomeView(
    frame=OUTSIDE,
    doors=(
        entrance.Door(RENT, "Prices of 214 flats, every night.", "ramp, 50 %"),
        entrance.Door(
            replace(DOSE, pause=Pause("Dr Samira Okafor", NOW - HOUR, "Sensors changed."),
                    roles=frozenset(("approve", "audit"))),
            "Boluses for four wards.", "shadow",
        ),
    ),
)  # fmt: skip
SETTINGS = entrance.SettingsView(frame=OUTSIDE, back="/i/rent/queue")
ACCOUNT = entrance.AccountView(
    frame=OUTSIDE,
    login="ana",
    grants=(people.Grant("approve", "rent"), people.Grant("audit", "*")),
)
ACCOUNT_CHANGE = replace(
    ACCOUNT, has_password=True, problem="the two new passwords are not the same: type it twice"
)
ERROR = entrance.ErrorView(
    frame=FRAME,
    status=409,
    sentence="The decision was settled while you read it.",
    todo="Look at what was decided, then go back to the queue.",
    back="/i/rent/queue",
)

QUEUE = queue_of()
QUEUE_PAUSED = replace(QUEUE, frame=PAUSED.frame)
QUEUE_FILTERED = replace(
    QUEUE,
    frame=replace(FRAME, notice=Notice("done", "You approved 142 € for Lake House 3.")),
    rows=QUEUE.rows[:3], offset=50, size=50, total=120, reload=60,
    filters=queue.QueueFilters("price change", "Lake House 3", "free", "lake & sun"),
)  # fmt: skip
QUEUE_EMPTY = replace(QUEUE, rows=(), total=0)

PAGES: dict[str, View] = {
    "queue": QUEUE,
    "queue-paused": QUEUE_PAUSED,
    "queue-filtered": QUEUE_FILTERED,
    "queue-empty": QUEUE_EMPTY,
    "bulk": BULK,
    "bulk-refused": BULK_REFUSED,
    "review": REVIEW,
    "review-preview": REVIEW_PREVIEW,
    "review-conflict": REVIEW_CONFLICT,
    "review-done": REVIEW_DONE,
    "review-taken": REVIEW_TAKEN,
    "review-reader": REVIEW_READER,
    "review-own": REVIEW_OWN,
    "review-own-key": REVIEW_OWN_KEY,
    "review-vetoed": REVIEW_VETOED,
    "review-changed": REVIEW_CHANGED,
    "review-kept": REVIEW_KEPT,
    "review-passed": REVIEW_PASSED,
    "review-dose": REVIEW_DOSE,
    "dashboard": DASHBOARD,
    "dashboard-paused": PAUSED,
    "dashboard-empty": dashboard.DashboardView(frame=FRAME),
    "confirm": CONFIRM,
    "audit": AUDIT,
    "audit-empty": audit.AuditView(frame=FRAME),
    "evidence": EVIDENCE,
    "evidence-differs": EVIDENCE_DIFFERS,
    "people": PEOPLE,
    "changes": CHANGES,
    "change": CHANGE,
    "change-mine": CHANGE_MINE,
    "change-done": CHANGE_DONE,
    "sign-in": SIGN_IN,
    "sign-in-wrong": SIGN_IN_WRONG,
    "link": LINK,
    "link-used": LINK_USED,
    "home": HOME,
    "home-empty": entrance.HomeView(frame=OUTSIDE),
    "settings": SETTINGS,
    "account": ACCOUNT,
    "account-change": ACCOUNT_CHANGE,
    "error": ERROR,
}
