"""The table [service]: defaults, what it refuses and in which words, who is live and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import declaration
from gdcb.errors import GdcbError, InvalidInput
from gdcb.service.policy import CODES, Launch, Policy, incumbent_of, policy_of
from tests.properties import examples
from tests.service.desks import SECOND, START, held, night, plain

RAMP = """
launch.mode = "ramp"
launch.incumbent = { price = 90 }
launch.steps = [
  { since = 2026-01-01T00:00:00Z, share = 0.25 },
  { since = 2026-01-02T01:00:00+01:00, share = 1.0 },
]
"""


def policy(service: str) -> Policy:
    declared = declaration.parse(held(service))
    return policy_of(declared.service, declared.instance)


def test_what_holds_where_nothing_is_said() -> None:
    found = policy("")
    assert (found.expiry.then, found.expiry.after, found.expiry.fallback) == ("veto", 14_400, None)
    assert (found.outcomes.window, found.outcomes.late) == (None, "refuse")
    assert (found.outcomes.default, found.outcomes.correction) == (None, "refuse")
    assert (found.launch.mode, found.execution, found.bulk) == ("live", "release", 20)
    assert found.codes == CODES
    assert (found.batch, found.refit_every, found.personal) == (5_000, None, ())


def test_everything_can_be_said() -> None:
    found = policy(
        'expiry = { after = 60, then = "fallback", fallback = { price = 80 } }\n'
        'outcomes = { window = 10, default = { booked = 0 }, late = "take", '
        'correction = "replace" }\n'
        'launch = { mode = "holdback", share = 0.2, drawn_by = "unit", incumbent = "given" }\n'
        'execution = "report"\ncodes = { ok = "Fine" }\nlease = 5\nbulk = 3\n'
        'refit_every = 3600\npersonal = ["busy"]\nbatch = 2\n'
    )
    assert found.expiry.fallback == {"price": 80}
    assert found.outcomes.default == {"booked": 0}
    assert (found.launch.share, found.launch.drawn_by) == (0.2, "unit")
    assert (found.codes, found.lease, found.bulk) == ({"ok": "Fine"}, 5, 3)
    assert (found.refit_every, found.personal, found.batch) == (3600, ("busy",), 2)


@pytest.mark.parametrize(
    ("service", "says"),
    [
        ("colour = 3", "service.colour: Extra inputs are not permitted"),
        ("expiry.after = 0", "service.expiry.after: Input should be greater than 0"),
        ("expiry.after = inf", "service.expiry.after: Input should be"),
        ('expiry.then = "approve"', "service.expiry.then: Input should be 'veto', 'fallback' or"),
        ('expiry.then = "fallback"', "service.expiry: give a fallback action with then ="),
        ("expiry.fallback = { price = 80 }", "service.expiry: give a fallback action with then ="),
        (
            'expiry = { then = "fallback", fallback = { cost = 80 } }',
            "action: expected price; got cost",
        ),
        ("outcomes.window = -1", "service.outcomes.window: Input should be greater than 0"),
        ("outcomes.default = { booked = 0 }", "service.outcomes: a default outcome needs a window"),
        (
            "outcomes = { window = 5, default = { sold = 0 } }",
            "service.outcomes.default: expected booked",
        ),
        ("outcomes = { window = 5, default = { booked = 7 } }", "outcome"),
        ('outcomes.late = "keep"', "service.outcomes.late: Input should be 'refuse' or 'take'"),
        ('launch.mode = "half"', "service.launch.mode: Input should be 'live', 'shadow'"),
        ("launch.share = 1.5", "service.launch.share: Input should be less than or equal to 1"),
        ('launch.mode = "ramp"', "service.launch: give steps with mode = 'ramp', and only there"),
        (
            "launch.steps = [{ since = 2026-01-01T00:00:00Z, share = 1.0 }]",
            "service.launch: give steps with mode = 'ramp', and only there",
        ),
        (
            'launch = { mode = "ramp", steps = [{ since = 2026-01-01T00:00:00, share = 1.0 }] }',
            "service.launch.steps.0: since needs a time zone",
        ),
        (
            RAMP.replace("2026-01-02", "2025-01-02"),
            "service.launch: steps must be in order of time",
        ),
        ("launch.incumbent = { cost = 3 }", "action: expected price; got cost"),
        ('launch.incumbent = "null"', "service.launch.incumbent"),
        ('launch.incumbent = "arm"', "service.launch: give an arm with incumbent = 'arm'"),
        ('launch.arm = "1"', "service.launch: give an arm with incumbent = 'arm'"),
        ('launch = { incumbent = "arm", arm = "9" }', "service.launch.arm: "),
        ('execution = "never"', "service.execution: Input should be 'release' or 'report'"),
        ('codes = { "No!" = "never" }', "service.codes"),
        ('codes = { no = "" }', "service.codes.no: String should have at least 1 character"),
        ("bulk = 0", "service.bulk: Input should be greater than or equal to 1"),
        ("bulk = 201", "service.bulk: Input should be less than or equal to 200"),
        ("batch = 10_001", "service.batch: Input should be less than or equal to 10000"),
        ('personal = ["name"]', "service.personal: no context field 'name'"),
    ],
)
def test_what_it_refuses(service: str, says: str) -> None:
    with pytest.raises(GdcbError) as caught:
        policy(service)
    assert isinstance(caught.value, InvalidInput)
    assert str(caught.value).startswith(says)


def test_a_policy_without_a_code_is_refused() -> None:
    """Every answer has one, so that nothing could be answered."""
    with pytest.raises(InvalidInput, match=r"service\.codes"):
        policy("codes = {}")


def test_shares_by_mode_and_time() -> None:
    assert Launch().live_share(START) is None
    assert Launch(mode="shadow").live_share(START) == 0.0
    assert Launch(mode="holdback", share=0.25).live_share(START) == 0.75
    ramp = policy(RAMP).launch
    day = 86_400 * SECOND
    shares = [ramp.live_share(START + at) for at in (-1, 0, day - 1, day, 10 * day)]
    assert shares == [0.0, 0.25, 0.25, 1.0, 1.0]


@examples(50)
@given(st.lists(st.integers(-(10**15), 10**15), min_size=2, max_size=5))
def test_a_ramp_that_rises_never_falls(times: list[int]) -> None:
    ramp = policy_ramp
    shares = [ramp.live_share(START + at) or 0.0 for at in sorted(times)]
    assert shares == sorted(shares)


policy_ramp = policy(RAMP).launch


def test_the_incumbent_is_declared_or_given() -> None:
    instance = declaration.parse(plain()).instance
    x = instance.context.encode([night(base=100), night(base=200)])
    declared = policy('launch = { mode = "shadow", incumbent = { price = 90 } }')
    assert incumbent_of(declared, instance, None, x).tolist() == [[90.0], [90.0]]
    assert incumbent_of(declared, instance, {"price": 70}, x).tolist() == [[90.0], [90.0]]
    an_arm = policy('launch = { mode = "shadow", incumbent = "arm", arm = "0.8" }')
    assert incumbent_of(an_arm, instance, None, x).tolist() == [[80.0], [160.0]]
    given_ = policy('launch.mode = "shadow"')
    assert incumbent_of(given_, instance, {"price": 70}, x).tolist() == [[70.0], [70.0]]
    with pytest.raises(InvalidInput, match="this instance runs in mode 'shadow'; give the action"):
        incumbent_of(given_, instance, None, x)
    with pytest.raises(InvalidInput, match="action: expected price"):
        incumbent_of(given_, instance, {"cost": 70}, x)
