"""Evidence: one decision whole, and a proof that holds for it and for no other account of it."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.errors import UnknownDecision, UnknownInstance
from gdcb.ledger import open_store
from gdcb.ledger.evidence import evidence_of, verify
from gdcb.ledger.evidence_page import evidence_page
from tests.ledger.written_ledgers import first_of, rewrite, run_sql, write_small
from tests.page_checks import is_whole
from tests.properties import examples


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a ledger with answers, an appeal and a batch."""
    found = tmp_path_factory.mktemp("evidence") / "str.db"
    write_small(found, "str")
    return found


def _evidence(path: Path, id: str, chain: str = "str") -> dict[str, Any]:
    store = open_store(path)
    try:
        found: dict[str, Any] = json.loads(
            json.dumps(evidence_of(store, chain, id, draws=50), allow_nan=False)
        )
        return found
    finally:
        store.close()


def _reviewed(path: Path) -> str:
    store = open_store(path)
    (entry,) = store.get("str", [first_of(path, "Reviewed")])
    store.close()
    return str(
        json.loads(entry.body[4 : 4 + int.from_bytes(entry.body[:4], "little")])["fields"]["id"]
    )


@pytest.fixture(scope="module")
def document(path: Path) -> dict[str, Any]:
    """Return the evidence of a decision that a person answered."""
    return _evidence(path, _reviewed(path))


def test_a_reviewed_decision_is_told_whole(document: dict[str, Any]) -> None:
    assert document["recomputed"]["verdict"] == "equal"
    assert verify(document) == []
    assert document["input"].keys() >= {"occupancy", "day", "base"}
    assert len(document["arms"]) == 25
    assert sum(arm["probability"] for arm in document["arms"]) == pytest.approx(1.0)
    best = max(document["arms"], key=lambda arm: float(arm["worth"]))
    assert best["name"] == document["proposed"]["arm"]
    assert best["composed"] == document["proposed"]["action"]
    assert document["scaler"]["factors"].keys() == {"occ", "gap", "lead", "inv"}
    [held, final] = document["verdicts"]
    assert held["status"] == "held"
    assert final["status"] != "held"
    assert [gate["name"] for gate in final["gates"]] == ["revenue manager", "price bounds"]
    [review] = document["reviews"]
    assert review["by"] == "manager"
    assert review["code"]
    assert review["reason"] in document["reason"]
    [shown] = document["shown"]
    assert shown["by"] == "manager"
    assert document["executed"]["entry"] < document["outcome"]["entry"]
    kinds = [one["kind"] for one in document["entries"]]
    assert kinds[0] == "DecisionMade"
    assert kinds[-1] == "OutcomeObserved"
    assert {"GateApplied", "ReviewRequested", "Shown", "Reviewed", "ActionExecuted"} < set(kinds)


def test_δ_is_the_product_of_its_factors(document: dict[str, Any]) -> None:
    product = 1.0
    for factor in document["scaler"]["factors"].values():
        product *= factor
    assert document["scaler"]["delta"][0][0] == pytest.approx(product)


@pytest.mark.parametrize("id", ["d2", "b38.0", "b38.19", "d44"])
def test_singles_and_rows_of_a_batch_are_proven(path: Path, id: str) -> None:
    found = _evidence(path, id)
    assert verify(found) == []
    assert found["recomputed"]["verdict"] == "equal"
    assert (found["appeal"] is not None) == (id == "d2")
    assert found["request"]["rows"] == (20 if id.startswith("b") else 1)


@pytest.mark.parametrize("id", ["nobody", "d2.0", "b38", "b38.20", "", "d2\0"])
def test_an_unknown_id_is_refused(path: Path, id: str) -> None:
    with pytest.raises(UnknownDecision, match="no decision"):
        _evidence(path, id)


def test_an_unknown_chain_is_refused(path: Path) -> None:
    with pytest.raises(UnknownInstance, match="no instance 'other'"):
        _evidence(path, "d2", "other")


def _set(*keys: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        at: Any = document
        for key in keys[:-1]:
            at = at[key]
        at[keys[-1]] = value

    return change


def _swap_inputs(document: dict[str, Any]) -> None:
    given = document["input"]
    given["occupancy"], given["lead"] = given["lead"], given["occupancy"]


def _drop_proof(document: dict[str, Any]) -> None:
    del document["proofs"][0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_set("proofs", 0, "hash", value="00" * 32), "its hash is not that of its header"),
        (_set("proofs", 0, "by", value="somebody else"), "its hash is not that of its header"),
        (_set("proofs", 0, "at", value=1), "its hash is not that of its header"),
        (_set("proofs", 0, "row", value=4), "is not under its root"),
        (_set("proofs", 1, "path", value=[]), "is not under its root"),
        (_set("proofs", 0, "format", value=2), "expected format 1, got 2"),
        (_set("proofs", 0, "seq", value=5.5), "expected a whole number as seq, got 5.5"),
        (_set("proofs", 0, "more", value=1), "a proof has other fields than this one (more)"),
        (_set("proofs", 5, "body", value="00"), "its bytes are not those of its body"),
        (_set("proofs", 0, "body", value="00"), "it has several rows, and its proof a body"),
        (_set("proofs", 3, "rows", value=2), "it has no rows, and its proof tells of one"),
        (_set("proofs", 0, "columns", 4, 0, value="delta"), "are not laid out as it says"),
        (_set("declarations", 0, "leaf", value="00"), "its bytes are not those of its body"),
        (_set("declarations", value=[]), "cannot be read"),
        (_set("format", value=1), "Expected a document of format 2, got 1"),
        (_set("head", "entries", value=3), "does not stand before the head"),
        (_set("id", value="another"), "is not about decision 'another'"),
        (_set("chain", value="another"), "is of chain 'str'"),
        (_set("unit", value="another"), "The document says unit 'another', and its entries"),
        (_set("status", value="expired"), "The document says status 'expired'"),
        (_set("at", value="1999-01-01"), "The document says at '1999-01-01'"),
        (_set("asked_by", value="mallory"), "The document says asked_by 'mallory'"),
        (_set("proposed", "arm", value="A=1.3 B=1.1"), "The document says proposed.arm"),
        (_set("proposed", "live", value=False), "The document says proposed.live False"),
        (_set("arms", 0, "worth", value=0.0), "The document says arms[0].worth 0.0"),
        (_set("arms", 0, "composed", "price", value=1.0), "The document says arms[0].composed"),
        (_set("input", "occupancy", value=0.123), "The document says input.occupancy 0.123"),
        (_swap_inputs, "The document says input.occupancy 0.022, and its entries 0.98."),
        (_set("executed", "is_null", value=0), "The document says executed.is_null 0"),
        (_set("executed", value=None), "The document says executed None, and its entries"),
        (_set("verdicts", 1, "reason", value="why not"), "says verdicts[1].reason 'why not'"),
        (_set("verdicts", value=[]), "The document says verdicts [], and its entries"),
        (_set("reviews", 0, "reason", value="why not"), "says reviews[0].reason 'why not'"),
        (_set("reviews", 0, "by", value="mallory"), "says reviews[0].by 'mallory'"),
        (_set("reviews", 0, "verdict", value="sleep"), "says reviews[0].verdict 'sleep'"),
        (_set("reviews", value=[]), "The document says reviews [], and its entries"),
        (_set("outcome", "values", "booked", value=7.0), "says outcome.values.booked 7.0"),
        (_set("outcome", "profit", value=7.0), "says outcome.profit, of which its entries know"),
        (_drop_proof, "does not prove that the decision was made"),
        (_set("proofs", value=None), "cannot be read"),
        (_set("proofs", 0, "leaf", value="zz"), "cannot be read"),
    ],
)
def test_another_account_is_not_proven(
    document: dict[str, Any], change: Callable[[dict[str, Any]], None], says: str
) -> None:
    other = copy.deepcopy(document)
    change(other)
    assert says in " ".join(verify(other))


@pytest.mark.parametrize("other", [None, [], {}, "text", {"format": 2}, {"format": 2, "proofs": 1}])
def test_what_is_no_document_is_said_to_be_none(other: Any) -> None:
    assert "cannot be read" in " ".join(verify(other))


def test_columns_of_a_row_cannot_take_each_others_place(path: Path) -> None:
    """Names of columns are in no hash where an entry has several rows: the declaration has them."""
    other = _evidence(path, "b38.3")
    columns = other["proofs"][0]["columns"]
    names = [name for name, _, _ in columns]
    one, two = names.index("row"), names.index("scaler_version")
    columns[one][0], columns[two][0] = "scaler_version", "row"
    assert "rows of DecisionMade are not laid out as it says" in " ".join(verify(other))


@examples(40)
@given(st.data())
def test_no_byte_of_a_proven_row_can_be_changed(
    document: dict[str, Any], data: st.DataObject
) -> None:
    other = copy.deepcopy(document)
    proof = data.draw(st.sampled_from(other["proofs"]))
    leaf = bytearray.fromhex(proof["leaf"])
    leaf[data.draw(st.integers(0, len(leaf) - 1))] ^= data.draw(st.integers(1, 255))
    proof["leaf"] = bytes(leaf).hex()
    assert verify(other)


def test_a_rewritten_decision_is_proven_and_does_not_come_out(path: Path, tmp_path: Path) -> None:
    """A proof says what was written; that it was computed so, only computing it again does."""
    copied = Path(shutil.copy(path, tmp_path / "str.db"))

    def other(event: Any) -> Any:
        arm = event.arm.copy()
        arm[2] = (arm[2] + 1) % 25
        return replace(event, arm=arm)

    rewrite(copied, "str", first_of(copied, "DecisionMade"), other)
    found = _evidence(copied, "d2")
    assert verify(found) == []
    assert found["recomputed"]["verdict"] == "differs"
    assert "arm" in {one["field"] for one in found["recomputed"]["differing"]}
    assert _evidence(copied, "d3")["recomputed"]["verdict"] == "equal"


def test_a_misplaced_decision_is_not_taken_for_another(path: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copy(path, tmp_path / "str.db"))
    run_sql(copied, "UPDATE places SET seq = seq + 1 WHERE request = 'd2'")
    with pytest.raises(UnknownDecision):
        _evidence(copied, "d2")


def test_the_page_is_whole_and_tells_it(document: dict[str, Any]) -> None:
    page = evidence_page(document)
    is_whole(page)
    assert "Its proofs hold." in page
    assert "comes out the same to the last bit" in page
    assert document["head"]["hash"] in page
    assert "<script" not in page


def test_another_wording_is_no_fault(document: dict[str, Any]) -> None:
    """A ledger of an older version has other sentences, and the same decisions."""
    other = copy.deepcopy(document)
    one = {"entry": 2, "field": "reason", "recorded": "0.9 is much", "recomputed": "busy 0.9"}
    other["recomputed"]["differing"] = [one]
    page = evidence_page(other)
    assert "This version would word entry 2: busy 0.9" in page
    assert "✗" not in page
    other["recomputed"]["verdict"] = "differs"
    assert "✗ Entry 2: reason is 0.9 is much" in evidence_page(other)


def test_the_page_says_what_is_wrong_and_escapes_it(document: dict[str, Any]) -> None:
    other = copy.deepcopy(document)
    other["unit"] = "<script>alert(1)</script>"
    page = evidence_page(other)
    assert "Its proofs do not hold." in page
    assert "<script" not in page
