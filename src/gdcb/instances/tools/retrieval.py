"""Retrieval: how near a request is to what tools say of themselves, and to their past successes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput, NothingAllowed
from gdcb.instances.tools.columns import MOST_FIGURES, MOST_WORDS
from gdcb.parts import check_text

DEFAULT = "tf-idf"
_FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
_WORD = re.compile(r"[a-z]{2,}")
# Words that say nothing of what is asked for.
STOP = frozenset(
    _WORD.findall(
        "about all also am an and any are as at be been but by can could did do does for from get "
        "give had has have he her him his how if in into is it its like may me more my need no not "
        "of on one only or our out please same she should so some such than that the their them "
        "then there these they this to under up use used us very want was we were what when where "
        "whether which who will with would you your"
    )
)


class Embedder(Protocol):
    """Texts as vectors of length one, or zero where a text says nothing that it knows."""

    def embed(self, texts: Sequence[str]) -> Array:
        """Return one vector a text: (n, d)."""


@dataclass(eq=False)
class Tfidf:
    """TF-IDF vectors over the words of tool descriptions.

    A word w that a text has f times weighs (1 + log f)·(1 + log((1 + n)/(1 + n_w))), n_w of the n
    descriptions having it, and the vector is brought to length one: scikit-learn's
    TfidfVectorizer with sublinear_tf. Words that no description has say nothing: a text without
    any known word is the zero vector.

    Examples
    --------
    Each of two descriptions has two words of its own, all of one weight: 'weather' alone is at
    1/√2 from the first and at 0 from the second.

    >>> embedder = Tfidf(("weather forecast", "book a room"))
    >>> vectors = embedder.embed(embedder.descriptions)
    >>> similarity(embedder.embed(["the weather in Rome"]), vectors).round(4).tolist()
    [[0.7071, 0.0]]
    """

    descriptions: tuple[str, ...]
    _place: dict[str, int] = field(init=False, repr=False)
    _rarity: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        said = [frozenset(_words(text)) for text in self.descriptions]
        self._place = {word: at for at, word in enumerate(sorted(frozenset().union(*said)))}
        count = np.zeros(len(self._place))
        for words in said:
            count[[self._place[word] for word in words]] += 1.0
        self._rarity = 1.0 + np.log((1.0 + len(said)) / (1.0 + count))

    def embed(self, texts: Sequence[str]) -> Array:
        """Return one vector a text: (n, words)."""
        out = np.zeros((len(texts), len(self._place)))
        for row, text in zip(out, texts, strict=True):
            for word in _words(text):
                at = self._place.get(word)
                if at is not None:
                    row[at] += 1.0
        out[out > 0] = 1.0 + np.log(out[out > 0])
        out *= self._rarity
        length = np.sqrt((out * out).sum(axis=1, keepdims=True))
        return np.asarray(out / np.where(length > 0, length, 1.0))


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in STOP]


@dataclass(eq=False)
class Sentences:
    """A sentence-embedding model of sentence-transformers, by its name."""

    name: str
    _model: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            models: Any = import_module("sentence_transformers")
        except ModuleNotFoundError as error:
            raise InvalidInput(
                f"retrieval={self.name} needs sentence-transformers; pip install "
                f"sentence-transformers, or take retrieval={DEFAULT}"
            ) from error
        self._model = models.SentenceTransformer(self.name)

    def embed(self, texts: Sequence[str]) -> Array:
        """Return one vector a text: (n, d), of length one."""
        return np.asarray(self._model.encode(list(texts), normalize_embeddings=True), dtype=float)


def embedder_of(name: str, descriptions: Sequence[str]) -> Embedder:
    """Return TF-IDF over the descriptions, or the sentence model of that name."""
    check_text("retrieval", name)
    return Tfidf(tuple(descriptions)) if name == DEFAULT else Sentences(name)


def similarity(vectors: Array, others: Array) -> Array:
    """Return the cosines of unit vectors (n, d) and (m, d), negative ones as 0: (n, m)."""
    near = np.clip(vectors @ others.T, 0.0, 1.0)
    if not np.isfinite(near).all():
        raise InvalidInput("retrieval: expected finite vectors, the embedder gave others")
    return np.asarray(near)


def size_of(request: str) -> tuple[float, float]:
    """Return the length and the figures of a request, as the context has them.

    >>> size_of("2 seats on the 9:30 train")
    (0.1, 0.25)
    """
    words, figures = len(request.split()), len(_FIGURE.findall(request))
    return min(1.0, words / MOST_WORDS), min(1.0, figures / MOST_FIGURES)


@dataclass(eq=False)
class Retriever:
    """The tools of a live catalogue and the requests that they once answered.

    Parameters
    ----------
    tools : what each tool says of itself, by name, in the order of the arms
    embedder : texts as vectors; None: TF-IDF over the descriptions

    Examples
    --------
    >>> tools = {"weather": "weather forecast of a city", "hotel": "book a room in a hotel"}
    >>> retriever = Retriever(tools)
    >>> retriever.remember("hotel", "a room for two in Rome")
    >>> retriever.examples("hotel", "one room please", 3)
    ('a room for two in Rome',)
    >>> context = retriever.context("I need a hotel room", ("weather", "hotel"))
    >>> context["description_1"], context["past_2"] > 0
    (0.0, True)
    """

    tools: Mapping[str, str]
    embedder: Embedder | None = None
    _vectors: Array = field(init=False, repr=False)
    _past: dict[str, list[tuple[str, Array]]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.tools:
            raise InvalidInput("retrieval: expected at least one tool, got none")
        for name, about in self.tools.items():
            check_text("retrieval: tool", name)
            check_text(f"retrieval: what '{name}' says of itself", about)
        if self.embedder is None:
            self.embedder = embedder_of(DEFAULT, tuple(self.tools.values()))
        self._vectors = self._embed(tuple(self.tools.values()))
        self._past = {name: [] for name in self.tools}

    def _embed(self, texts: Sequence[str]) -> Array:
        assert self.embedder is not None
        vectors = np.asarray(self.embedder.embed(texts), dtype=float)
        if vectors.ndim != 2 or vectors.shape[0] != len(texts) or not np.isfinite(vectors).all():
            raise InvalidInput(
                f"retrieval: expected {len(texts)} finite vectors, the embedder gave "
                f"an array of shape {vectors.shape}"
            )
        return vectors

    def _require(self, tool: str) -> None:
        if tool not in self._past:
            known = ", ".join(self.tools)
            raise InvalidInput(f"tool '{tool}' is not in the catalogue any more; it has {known}")

    def remember(self, tool: str, request: str) -> None:
        """Keep a request that a call of the tool answered well."""
        self._require(tool)
        _require_text(request)
        self._past[tool].append((request, self._embed([request])[0]))

    def examples(self, tool: str, request: str, n: int) -> tuple[str, ...]:
        """Return the n past successes of a tool that are nearest to a request, nearest first."""
        self._require(tool)
        past = self._past[tool]
        if not past or n < 1:
            return ()
        near = similarity(self._embed([request]), np.stack([vector for _, vector in past]))[0]
        return tuple(past[at][0] for at in np.argsort(-near, kind="stable")[:n])

    def context(self, request: str, candidates: Sequence[str]) -> dict[str, float]:
        """Return the columns of a request that retrieval makes; 0 for tools that are none of its.

        Spend limit and flags are the caller's.
        """
        _require_text(request)
        for tool in candidates:
            self._require(tool)
        if not candidates:
            raise NothingAllowed("candidates: expected at least one tool, got none")
        vector = self._embed([request])
        near = similarity(vector, self._vectors)[0]
        length, figures = size_of(request)
        columns = {"length": length, "figures": figures}
        for at, name in enumerate(self.tools):
            past = [found for _, found in self._past[name]]
            is_asked = name in candidates
            nearest = similarity(vector, np.stack(past)).max() if past else 0.0
            columns[f"description_{at + 1}"] = float(near[at]) if is_asked else 0.0
            columns[f"past_{at + 1}"] = float(nearest) if is_asked else 0.0
        return columns


def _require_text(request: object) -> None:
    """Refuse a request that says nothing."""
    if not isinstance(request, str) or not request.strip():
        raise InvalidInput(f"request: expected text, got {request!r}")
