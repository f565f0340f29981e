"""The questions, their catalogues and retrieval; where bfcl-eval is not here, a small stand-in."""

import json
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdcb.errors import InvalidInput, NothingAllowed
from gdcb.instances.tools import catalogues, questions
from gdcb.instances.tools.columns import READS, K, S
from gdcb.instances.tools.questions import Bank
from gdcb.instances.tools.retrieval import (
    STOP,
    Retriever,
    Sentences,
    Tfidf,
    embedder_of,
    similarity,
    size_of,
)
from gdcb.instances.tools.world import Routing
from gdcb.streams import CONTEXT, WORLD, Streams


def _write(folder: Path) -> Path:
    """Write two files as bfcl-eval has them: one question each."""
    folder.joinpath("possible_answer").mkdir(parents=True)
    tool = {
        "name": "Weather_1_GetWeather",
        "description": "Weather of a city.",
        "parameters": {"properties": {"city": {}, "date": {}}, "required": ["city"]},
    }
    other = {"name": "book_hotel", "description": "Books a room.", "parameters": {}}
    again = tool | {"description": "Weather here or there."}
    for i, kind in enumerate(questions.FILES):
        said = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": f"Rome {i}, the city there?"},
        ]
        one = {"id": f"{kind}_0", "question": [said], "function": [(tool, again)[i], other]}
        answer = {"id": f"{kind}_0", "ground_truth": [{"Weather_1_GetWeather": {"city": ["Rome"]}}]}
        name = f"BFCL_v4_{kind}.json"
        folder.joinpath(name).write_text(json.dumps(one) + "\n", encoding="utf-8")
        folder.joinpath("possible_answer", name).write_text(json.dumps(answer) + "\n", "utf-8")
    return folder


@pytest.fixture
def fresh() -> Any:
    questions.bank.cache_clear()
    yield
    questions.bank.cache_clear()


def test_questions_are_read_as_bfcl_has_them(tmp_path: Any, monkeypatch: Any, fresh: Any) -> None:
    monkeypatch.setenv(questions.VARIABLE, str(_write(tmp_path / "data")))
    bank = questions.bank("bfcl")
    assert bank.tools == ("Weather_1_GetWeather", "book_hotel")
    assert bank.requests == (
        "Rome 0, the city there?",
        "Rome 1, the city there?",
    )  # what the system says is left out
    assert bank.right.tolist() == [0, 0]
    assert bank.arguments.tolist() == [1.0, 1.0]
    assert bank.required.tolist() == [1.0, 0.0]
    assert bank.is_write.tolist() == [False, True]
    assert bank.is_candidate.all()
    assert bank.descriptions[0] == "weather get weather Weather of a city. city date"
    # one tool by its name; the second question has words of its own for it
    assert bank.reworded == ((1, 0, "weather get weather Weather here or there. city date"),)


def test_a_request_is_compared_with_the_words_that_came_with_it(
    tmp_path: Any, monkeypatch: Any, fresh: Any
) -> None:
    monkeypatch.setenv(questions.VARIABLE, str(_write(tmp_path / "data")))
    catalogues.retrieved.cache_clear()
    found = catalogues.retrieved("bfcl", "tf-idf")
    catalogues.retrieved.cache_clear()
    first, second = found.bank.descriptions[0], found.bank.reworded[0][2]
    embedder = Tfidf((first, found.bank.descriptions[1], second))
    near = similarity(embedder.embed(found.bank.requests), embedder.embed([first, second]))
    np.testing.assert_allclose(found.near[:, 0], np.diag(near), atol=1e-12)


def test_an_environment_is_searched_for_the_data(
    tmp_path: Any, monkeypatch: Any, fresh: Any
) -> None:
    inside = tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "bfcl_eval" / "data"
    _write(inside)
    monkeypatch.setenv(questions.VARIABLE, str(tmp_path / "env"))
    assert questions.data_folder() == inside


def test_absent_questions_say_what_to_do(tmp_path: Any, monkeypatch: Any, fresh: Any) -> None:
    monkeypatch.setenv(questions.VARIABLE, str(tmp_path))
    with pytest.raises(InvalidInput, match=r"make bfcl.*pip install --no-deps bfcl-eval"):
        questions.bank("bfcl")
    with pytest.raises(InvalidInput, match="questions: expected one of bfcl, agentdojo"):
        questions.bank("mmlu")


def test_an_absent_agentdojo_says_what_to_install(monkeypatch: Any, fresh: Any) -> None:
    monkeypatch.setitem(sys.modules, "agentdojo.task_suite.load_suites", None)
    monkeypatch.setitem(sys.modules, "agentdojo.task_suite", None)
    monkeypatch.setitem(sys.modules, "agentdojo", None)
    with pytest.raises(InvalidInput, match=r"gdcb\[domains\]"):
        questions.bank("agentdojo")


def _stand_in(n_tools: int = 14, each: int = 6) -> catalogues.Retrieved:
    """Return a bank of tools that read and write, five questions each, with their similarities."""
    words = [f"w{chr(97 + i)}x" for i in range(n_tools)]
    tools = tuple(f"{'send' if i % 3 == 0 else 'find'}_{word}" for i, word in enumerate(words))
    requests = tuple(
        f"please {words[i % n_tools]} {j}" for j in range(each) for i in range(n_tools)
    )
    right = np.array([i for _ in range(each) for i in range(n_tools)])
    offered = np.abs(right[:, None] - np.arange(n_tools)) <= 1
    bank = Bank(
        "stand-in",
        tools,
        tuple(words),
        (),
        requests,
        right,
        offered,
        np.full(right.size, 2.0),
        np.ones(n_tools),
        np.array([i % 3 == 0 for i in range(n_tools)]),
    )
    embedder = Tfidf(bank.descriptions)
    vectors, asked = embedder.embed(bank.descriptions), embedder.embed(requests)
    sizes = np.array([size_of(text) for text in requests])
    together = (offered.astype(float).T @ offered) > 0
    np.fill_diagonal(together, False)
    return catalogues.Retrieved(
        bank,
        similarity(asked, vectors),
        similarity(asked, asked),
        (similarity(vectors, vectors) > catalogues.TWIN) & ~together & ~np.eye(n_tools, dtype=bool),
        tuple(np.flatnonzero(row) for row in together),
        np.bincount(right, minlength=n_tools),
        sizes[:, 0],
        sizes[:, 1],
    )


def test_catalogues_fill_their_slots_and_keep_past_and_requests_apart() -> None:
    found = _stand_in()
    table = catalogues.draw(found, np.random.default_rng(1).random((20, catalogues.DRAWS)))
    for g in range(20):
        tools = table.tools[g]
        assert len(set(tools.tolist())) == K
        assert found.bank.is_write[tools].tolist() == [False] * READS + [True] * (K - READS)
        real = table.request[g] >= 0
        requests = table.request[g][real]
        assert (found.bank.right[requests] == tools[table.slot[g][real]]).all()
        assert len(set(requests.tolist())) == requests.size
        # three of six questions of a tool are its past: three are left to be asked
        assert real.sum() == K * 3
        rows = np.arange(requests.size)
        assert table.is_own[g][real][rows, table.slot[g][real]].all()
        assert not (table.is_own[g] & table.is_free[g]).any()
        # a request has the very words of its own tool's past successes, of no other's
        own = table.past[g][real][rows, table.slot[g][real]]
        assert (own > 0.99).all()
        assert table.past[g][real].sum(axis=1) == pytest.approx(own)


def test_twins_are_never_distractors() -> None:
    found = _stand_in()
    far = np.zeros_like(found.is_twin)
    far[0, 5] = far[5, 0] = True
    both = replace(found, is_twin=far)
    table = catalogues.draw(both, np.random.default_rng(2).random((60, catalogues.DRAWS)))
    seen = 0
    for g in range(60):
        tools = table.tools[g].tolist()
        if 0 in tools and 5 in tools:
            asks = (table.request[g] >= 0) & (table.slot[g] == tools.index(0))
            assert not table.is_free[g][asks, tools.index(5)].any()
            seen += int(asks.sum())
    assert seen > 0


def test_tf_idf_is_that_of_scikit_learn() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = (
        "Get the weather forecast of a city, weather by day",
        "Find movies by genre and director",
        "Book a hotel room in a city for some days",
        "???",
    )
    reference = TfidfVectorizer(
        stop_words=sorted(STOP), sublinear_tf=True, token_pattern=r"(?u)\b[a-zA-Z]{2,}\b"
    )
    expected = reference.fit_transform(texts).toarray()
    ours = Tfidf(texts)
    np.testing.assert_allclose(ours.embed(texts), expected, atol=1e-12)
    asked = ["weather of the city of Rome", "nothing known", ""]
    np.testing.assert_allclose(ours.embed(asked), reference.transform(asked).toarray(), atol=1e-12)


class _Letters:
    """A fake model: how often a text has the letters a to c."""

    def embed(self, texts: Any) -> Any:
        counts = np.array([[text.count(letter) for letter in "abc"] for text in texts], float)
        length = np.sqrt((counts**2).sum(axis=1, keepdims=True))
        return counts / np.where(length > 0, length, 1.0)


def test_another_embedder_takes_the_place_of_tf_idf() -> None:
    retriever = Retriever({"one": "aa", "two": "bb"}, _Letters())
    retriever.remember("two", "b c")
    context = retriever.context("ab", ("one", "two"))
    half = 0.5**0.5
    assert context["description_1"] == pytest.approx(half)
    assert context["description_2"] == pytest.approx(half)
    assert context["past_1"] == 0.0
    assert context["past_2"] == pytest.approx(0.5)
    only = retriever.context("ab", ("one",))
    assert (only["description_2"], only["past_2"]) == (0.0, 0.0)


def test_a_sentence_model_is_loaded_by_name(monkeypatch: Any) -> None:
    class Model:
        def __init__(self, name: Any) -> None:
            self.name = name

        def encode(self, texts: Any, normalize_embeddings: Any) -> Any:
            assert normalize_embeddings
            return [[1.0, 0.0] if "rain" in text else [0.0, 1.0] for text in texts]

    fake: Any = types.ModuleType("sentence_transformers")
    fake.SentenceTransformer = Model
    monkeypatch.setitem(sys.modules, "sentence_transformers", fake)
    model = embedder_of("mini", ("rain", "sun"))
    assert isinstance(model, Sentences)
    assert model.embed(["will it rain"]).tolist() == [[1.0, 0.0]]


def test_an_absent_sentence_model_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(InvalidInput, match=r"pip install sentence-transformers, or take retrieval"):
        embedder_of("mini", ("rain",))


def test_examples_come_nearest_first_and_as_many_as_asked() -> None:
    retriever = Retriever({"one": "aa", "two": "bb"}, _Letters())
    for text in ("b c", "b", "c c b"):
        retriever.remember("two", text)
    assert retriever.examples("two", "b", 2) == ("b", "b c")
    assert retriever.examples("two", "b", 0) == ()
    assert retriever.examples("one", "b", 3) == ()


@pytest.mark.parametrize("request_", ["", "   ", None])
def test_an_empty_request_is_refused(request_: Any) -> None:
    retriever = Retriever({"one": "aa"}, _Letters())
    with pytest.raises(InvalidInput, match="request: expected text"):
        retriever.context(request_, ("one",))


def test_a_tool_that_vanished_and_no_candidate_at_all_are_refused() -> None:
    retriever = Retriever({"one": "aa"}, _Letters())
    with pytest.raises(InvalidInput, match="tool 'gone' is not in the catalogue any more"):
        retriever.context("a", ("one", "gone"))
    with pytest.raises(InvalidInput, match="tool 'gone' is not in the catalogue any more"):
        retriever.remember("gone", "a")
    with pytest.raises(NothingAllowed, match="expected at least one tool, got none"):
        retriever.context("a", ())


def test_vectors_that_are_no_numbers_are_refused() -> None:
    class Broken:
        def embed(self, texts: Any) -> Any:
            return np.full((len(texts), 2), np.nan)

    with pytest.raises(InvalidInput, match="expected 1 finite vectors"):
        Retriever({"one": "aa"}, Broken())


def test_the_real_questions_where_they_are() -> None:
    try:
        questions.data_folder()
    except InvalidInput:
        pytest.skip("bfcl-eval is not here; make bfcl")
    found = catalogues.retrieved("bfcl", "tf-idf")
    bank = found.bank
    assert (len(bank.requests), bank.right.shape) == (1253, (1253,))
    assert bank.is_candidate[np.arange(1253), bank.right].all()
    assert bank.is_candidate.sum(axis=1).min() >= 2
    assert bank.is_candidate.sum(axis=1).max() == 37
    world, streams, group = Routing("mis"), Streams(11, 8), np.repeat(np.arange(100), 8)
    state = world.start(streams.at(WORLD, 0), group)
    told = []
    for t in range(20):
        rows = world.context(streams.at(CONTEXT, t), state, t, group)
        assert rows.mask is not None
        nearest = np.where(rows.mask, rows.x[:, S], -1.0).argmax(axis=1)
        told.append(world.relevance(rows)[np.arange(rows.n), nearest].mean())
    assert np.mean(told) == pytest.approx(0.88, abs=0.02)  # what the README says
