"""What runs where the proposal does not: given for all rows, row by row, or column by column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import ArmList, Instance, Number, Schema
from gdcb.composition import Identity
from gdcb.errors import Conflict, InvalidInput
from gdcb.service.incumbents import actions_of
from tests.service.desks import night, office, plain
from tests.service.http import Site, problem, site

NAMES = ("allow", "warn", "remove")
CHOICE = Instance(Schema({"busy": Number(0, 1)}), ArmList(names=NAMES), Identity("choice"), [])
SHADOW = 'launch.mode = "shadow"'
BATCH = "/v1/instances/rooms/decisions/batch"
WEEK = [night(0.1, 100.0 + i) for i in range(3)]
OWN = [{"price": 81.0}, {"price": 92}, {"price": 103.5}]


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {"choice": st.sampled_from(NAMES), "severity": st.floats(-9, 9) | st.integers(-9, 9)}
        ),
        min_size=1,
        max_size=5,
    )
)
def test_columns_are_encoded_as_rows_are(rows: list[dict[str, Any]]) -> None:
    columns = {name: [row[name] for row in rows] for name in ("severity", "choice")}
    expected = [[NAMES.index(row["choice"]), row["severity"]] for row in rows]
    assert actions_of(CHOICE, rows, len(rows)).tolist() == expected
    assert actions_of(CHOICE, columns, len(rows)).tolist() == expected
    assert actions_of(CHOICE, rows[0], 3).tolist() == [expected[0]] * 3


@pytest.mark.parametrize("value", [1e11, 1e300, -1e300, 5, float("nan"), "1"])
def test_columns_take_what_rows_take(value: Any) -> None:
    """Whatever the bounds of an action are, they hold in both forms."""
    severity, said = [1.0, value, 2.0], []
    rows = [{"choice": "warn", "severity": one} for one in severity]
    for form in (rows, {"choice": ["warn"] * 3, "severity": severity}):
        try:
            said.append(str(actions_of(CHOICE, form, 3).tolist()))
        except InvalidInput as error:
            said.append(str(error).partition(".severity")[2])
    assert said[0] == said[1]


_GOOD = {"choice": "warn", "severity": 1.0}
WRONG: list[tuple[Any, str]] = [
    (7, "incumbent: expected choice, severity by name, got 7"),
    ("warn", "incumbent: expected choice, severity by name, got 'warn'"),
    ({}, "incumbent: expected choice, severity; got "),
    ({"choice": "warn"}, "incumbent: expected choice, severity; got choice"),
    (_GOOD | {"colour": 1}, "incumbent: expected choice, severity; got choice, severity, colour"),
    (_GOOD | {"choice": "ban"}, "incumbent.choice: expected one of allow, warn, remove; got 'ban'"),
    (_GOOD | {"severity": float("nan")}, "incumbent.severity: expected a finite number, got nan"),
    (_GOOD | {"severity": True}, "incumbent.severity: expected a finite number, got True"),
    ([], "incumbents: expected one a row (2), got 0"),
    ([_GOOD] * 3, "incumbents: expected one a row (2), got 3"),
    ([_GOOD, _GOOD | {"severity": float("inf")}],
     "incumbents.1.severity: expected a finite number, got inf"),
    ([_GOOD, {"severity": 1}], "incumbents.1: expected choice, severity; got severity"),
    ([_GOOD, 7], "incumbents.1: expected choice, severity by name, got 7"),
    ({"choice": ["warn"] * 2, "severity": 3},
     "incumbent_columns.severity: expected one value a row (2), got one value"),
    ({"choice": ["warn"] * 2, "severity": [3]},
     "incumbent_columns.severity: expected one value a row (2), got 1"),
    ({"choice": ["warn"] * 2}, "incumbent_columns: expected choice, severity; got choice"),
    ({"choice": ["warn"] * 2, "severity": [1, 2], "colour": [1, 2]},
     "incumbent_columns: expected choice, severity; got choice, severity, colour"),
    ({"choice": ["warn", "ban"], "severity": [1, 2]},
     "incumbent_columns.choice: expected one of allow, warn, remove; got 'ban'"),
    ({"choice": ["warn", 1], "severity": [1, 2]},
     "incumbent_columns.choice: expected one of allow, warn, remove; got 1"),
    ({"choice": ["warn"] * 2, "severity": [1, True]},
     "incumbent_columns.severity: expected a finite number, got True"),
    ({"choice": ["warn"] * 2, "severity": [1, float("nan")]},
     "incumbent_columns.severity: expected a finite number, got nan"),
    ({"choice": ["warn"] * 2, "severity": [float("inf"), 1]},
     "incumbent_columns.severity: expected a finite number, got inf"),
    ({"choice": ["warn"] * 2, "severity": [1, float("-inf")]},
     "incumbent_columns.severity: expected a finite number, got -inf"),
    ({"choice": ["warn"] * 2, "severity": [1, 10**400]},
     "incumbent_columns.severity: expected a finite number"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "says"), WRONG, ids=[says[:50] for _, says in WRONG])
def test_incumbents_that_cannot_be(said: Any, says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        actions_of(CHOICE, said, 2)
    assert str(refused.value).startswith(says)


@pytest.mark.parametrize(
    "service", ["", SHADOW, 'launch = { mode = "shadow", incumbent = { price = 90 } }']
)
def test_what_is_given_is_checked_though_it_may_not_run(service: str) -> None:
    """In live mode, and where the incumbent is declared, it has no effect; a slip shows anyway."""
    with office(plain(service)) as made:
        before = made.size
        for wrong in ({"cost": 3}, {"price": float("inf")}, [{"price": 3}] * 2):
            with pytest.raises(InvalidInput, match="incumbent"):
                made.decide("a", incumbent=wrong)
        assert made.size == before
        (row,) = made.rows("a", incumbent={"price": 77})
        assert row["live"] == (not service)
        made.check()


def test_an_incumbent_a_row_is_part_of_the_request() -> None:
    with office(plain(SHADOW)) as made:
        first = made.rows("week", WEEK, incumbent=OWN)
        assert [row["action"] for row in first] == OWN
        assert not made.decide("week", WEEK, incumbent=OWN).is_new
        with pytest.raises(Conflict, match="'week' was used before with another incumbent"):
            made.decide("week", WEEK, incumbent=[*OWN[:2], {"price": 104}])
        made.check()


# Over HTTP


@pytest.fixture(scope="module")
def here(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(sqlite_template, tmp_path_factory.mktemp("here"), plain(SHADOW)) as made:
        yield made


@pytest.mark.parametrize("form", ["contexts", "columns"])
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"incumbent": {"price": 90}}, [90.0, 90.0, 90.0]),
        ({"incumbents": OWN}, [81.0, 92.0, 103.5]),
        ({"incumbent_columns": {"price": [81, 92.0, 103.5]}}, [81.0, 92.0, 103.5]),
    ],
    ids=["all", "rows", "columns"],
)
def test_a_batch_in_the_shadow(
    here: Site, form: str, said: dict[str, Any], expected: list[float]
) -> None:
    asked: dict[str, Any] = {"id": f"{form}-{next(iter(said))}"} | said
    asked["contexts"] = WEEK
    if form == "columns":
        del asked["contexts"]
        asked["columns"] = {name: [row[name] for row in WEEK] for name in WEEK[0]}
    answers = [here.post(BATCH, here.shop, asked) for _ in range(2)]
    assert [one.status_code for one in answers] == [201, 200], answers[0].text
    found = answers[0].json()
    if form == "columns":
        assert found["columns"]["action.price"] == expected
        assert found["columns"]["live"] == [False] * 3
    else:
        assert [row["action"]["price"] for row in found["decisions"]] == expected


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"incumbent": {"price": 1}, "incumbents": OWN}, "give incumbent, incumbents or "),
        ({"incumbents": OWN, "incumbent_columns": {"price": [1, 2, 3]}}, "give incumbent, "),
        ({"incumbents": OWN[:2]}, "incumbents: expected one a row (3), got 2"),
        ({"incumbents": [*OWN[:2], {"cost": 1}]}, "incumbents.2: expected price; got cost"),
        ({"incumbents": [*OWN[:2], {"price": True}]},
         "incumbents.2.price: expected a number or a text"),
        ({"incumbents": [*OWN[:2], {"price": "x"}]},
         "incumbents.2.price: expected a finite number, got 'x'"),
        ({"incumbents": {"price": 1}}, "incumbents: expected a list"),
        ({"incumbent_columns": {"price": 1}}, "incumbent_columns.price: expected a list"),
        ({"incumbent_columns": {"price": [1, 2]}},
         "incumbent_columns.price: expected one value a row (3), got 2"),
        ({"incumbent_columns": {"price": [1, None, 2]}},
         "incumbent_columns.price.1: expected a number or a text"),
        ({"incumbent_columns": {}}, "incumbent: expected price; got "),
        ({}, "incumbent: this instance runs in mode 'shadow'"),
    ],
)  # fmt: skip
def test_a_batch_is_refused_whole(here: Site, said: dict[str, Any], says: str) -> None:
    before = here.heads()
    answer = here.post(BATCH, here.shop, {"contexts": WEEK} | said)
    assert answer.status_code == 422, answer.text
    assert problem(answer)["message"].startswith(says)
    assert here.heads() == before
