"""Moderation: posts that are built, their features, the bank, and posts of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gdcb.errors import InvalidInput
from gdcb.instances.moderation import bank, features, posts
from gdcb.instances.moderation.columns import LIVE
from gdcb.instances.moderation.generator import DISGUISES, FRAMES, KINDS, Post
from gdcb.instances.moderation.generator import posts as build


def test_the_same_seed_builds_the_same_posts() -> None:
    """A longer list begins alike, and another seed builds others."""
    assert build(30, 5)[:10] == build(10, 5)
    assert build(10, 5) != build(10, 6)


def test_every_way_of_building_is_used() -> None:
    """Kinds, frames and disguises all occur, and severities lie in [0, 1] from end to end."""
    some = build(2000, 3)
    assert {post.kind for post in some} == set(KINDS)
    assert {post.frame for post in some} == set(FRAMES)
    assert {post.disguise for post in some} == set(DISGUISES)
    severity = np.array([post.severity for post in some])
    assert severity.min() == 0.0
    assert 0.9 < severity.max() <= 1.0


def test_severity_is_known_by_construction() -> None:
    """An insult of 0.9 at 'you' weighs 0.9, quoted 0.12 of it; swearing adds 0.35 of its 0.5."""
    some = [post for post in build(4000, 3) if post.kind == "insult" and post.target == "you"]
    worst = [post for post in some if any(word in post.text.lower() for word in ("idiot", "moron"))]
    plain = {post.severity for post in worst if post.frame == "plain" and not post.vulgarity}
    quoted = {post.severity for post in worst if post.frame == "quoted" and not post.vulgarity}
    assert plain == {0.9}
    assert quoted == {0.108}
    assert Post("…", "insult", "you", "plain", "none", 0.4, 0.0, 0.5).severity == pytest.approx(
        0.4 + 0.35 * 0.5
    )


def test_a_disguise_changes_how_it_looks_and_not_what_it_is() -> None:
    """Among disguised insults at the reader the severities are those of the plain ones."""
    some = [post for post in build(4000, 3) if post.kind == "insult" and post.frame == "plain"]
    shown = {post.severity for post in some if post.disguise == "none" and not post.vulgarity}
    hidden = {post.severity for post in some if post.disguise == "leet" and not post.vulgarity}
    assert hidden
    assert hidden <= shown


def test_profanity_alone_is_not_enough() -> None:
    """Many look bad and are harmless, many look harmless and are bad; the bank has both."""
    shipped = bank.shipped()
    severity = np.minimum(shipped.parts @ np.array([1.0, 1.0, 0.35]), 1.0)
    profanity = shipped.x[:, 0]
    assert np.mean((profanity > 0.8) & (severity < 0.25)) > 0.05
    assert np.mean((profanity < 0.2) & (severity > 0.45)) > 0.05
    assert np.corrcoef(profanity, severity)[0, 1] < 0.5


def test_the_bank_is_what_the_live_model_says() -> None:
    """The first 200 posts, features computed anew with the original model."""
    made, shipped = bank.make(200), bank.shipped()
    assert shipped.n == bank.SIZE
    np.testing.assert_allclose(shipped.x[:200], made.x, atol=1e-6)
    np.testing.assert_allclose(shipped.parts[:200], made.parts, atol=1e-4)


def test_the_bank_is_small() -> None:
    """It is shipped, so at most 2 MB."""
    assert bank.PATH.stat().st_size < 2_000_000


def test_features_lie_in_their_ranges() -> None:
    """Whatever the text, the context schema takes what is computed from it."""
    texts = ["a", "!" * 60, "YOU " * 400, "Ünïcödé ✓ 你好", '"quoted" ' * 9, "i d i o t " * 50]
    for text in texts:
        LIVE.encode([features.context_of(text, reach=0.0, reports=1.0)])


@pytest.mark.parametrize("word", ["1d10t", "i d i o t", "idiooot", "id*ot"])
def test_tricks_of_spelling_are_seen(word: str) -> None:
    """A disguised insult is no insult as it stands, and one behind its disguise."""
    found = dict(zip(features.NAMES[1:], features.counts(f"You are an {word}."), strict=True))
    assert found["insults"] == 0.0
    assert found["disguised"] == pytest.approx(1 / 3)


def test_features_by_hand() -> None:
    """'I will not say "Moron" to you!': first and second person, a negation, a quote, an insult."""
    counts = features.counts('I will not say "Moron" to you!')
    found = dict(zip(features.NAMES[1:], counts, strict=True))
    assert found["first_person"] == found["second_person"] == pytest.approx(1 / 3)
    assert found["negation"] == found["insults"] == pytest.approx(1 / 3)
    assert found["quotation"] == 1.0
    assert found["exclamation"] == 0.2
    assert found["capitals"] == pytest.approx(2 / 21)


def test_many_texts_are_each_by_itself() -> None:
    """A text's features do not depend on those beside it."""
    texts = bank.texts(20)
    alone = np.stack([features.of(text) for text in texts])
    np.testing.assert_array_equal(features.of_all(texts), alone)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "text: expected some words, got empty text"),
        (" \n\t", "text: expected some words"),
        (None, "text: expected text, got None"),
        (7, "text: expected text, got 7"),
        (b"bytes", "text: expected text"),
        ("a" * 20_001, "text: expected at most 20,000 characters, got 20,001"),
        ("\ud800", "text: expected text in Unicode"),
    ],
)
def test_what_is_no_post_is_refused(text: Any, message: str) -> None:
    """Empty, not text, huge, not Unicode."""
    with pytest.raises(InvalidInput, match=message):
        features.of(text)


def test_a_bare_text_is_no_list() -> None:
    """A string is not taken for a list of letters, and no text for none at all."""
    with pytest.raises(InvalidInput, match="texts: expected a list of texts"):
        features.of_all("one text")
    with pytest.raises(InvalidInput, match="at least one text"):
        features.of_all([])


# Posts of one's own


def written(path: Path, header: str, lines: list[str]) -> Path:
    """Write a CSV."""
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def lines(n: int = 25) -> list[str]:
    """Return lines of text and severity."""
    return [f"a harmless remark number {i},{i / n:.2f}" for i in range(n)]


def test_own_posts_are_read(tmp_path: Path) -> None:
    """Severity goes into the bank as it stands, features are those of the live model."""
    path = written(tmp_path / "own.csv", "text,severity", lines())
    found = posts.read(path)
    np.testing.assert_allclose(found.parts[:, 0], np.arange(25) / 25)
    np.testing.assert_array_equal(found.x[3], features.of("a harmless remark number 3"))
    assert found.reach is None
    assert found.reports is None


def test_labels_reach_and_reports_are_read(tmp_path: Path) -> None:
    """A label stands for its severity; attributes are kept where they are known."""
    kinds = ["allow", "warn", "remove"]
    rows = [f"remark {i},{kinds[i % 3]},0.25,0.5" for i in range(21)]
    found = posts.read(written(tmp_path / "own.csv", "text,label,reach,reports", rows))
    assert found.parts[:3, 0].tolist() == [0.1, 0.45, 0.85]
    assert found.reach is not None
    assert found.reports is not None
    assert set(found.reach.tolist()) == {0.25}
    assert set(found.reports.tolist()) == {0.5}


@pytest.mark.parametrize(
    ("header", "change", "message"),
    [
        ("text,severity", ("", "0.5"), "line 27: text: expected some words, got empty text"),
        ("text,severity", ("new", "1.5"), "line 27: severity: expected a number from 0 to 1"),
        ("text,severity", ("new", "-0.1"), "line 27: severity: expected a number from 0 to 1"),
        ("text,severity", ("new", "nan"), "line 27: severity: expected a number from 0 to 1"),
        ("text,severity", ("new", "bad"), "severity: expected a number from 0 to 1, got 'bad'"),
        ("text,severity", ("a harmless remark number 3", "0.1"), "the same text as in line 5"),
        ("text,severity", ("new", "0.1", "more"), "line 27: expected as many fields as columns"),
        ("text,severity", ("new",), "line 27: expected as many fields as columns"),
        ("body,severity", ("new", "0.1"), "expected a column 'text', got body, severity"),
        ("text,mark", ("new", "0.1"), "expected one of the columns 'severity' and 'label'"),
        ("text,text", ("new", "0.1"), "two columns are named text"),
        ("text,label", ("new", "ban"), "label: expected allow, warn, remove; got"),
    ],
)
def test_own_posts_that_make_no_sense(
    tmp_path: Path, header: str, change: tuple[str, ...], message: str
) -> None:
    """Each is refused with its line and what was expected."""
    path = written(tmp_path / "own.csv", header, [*lines(), ",".join(change)])
    with pytest.raises(InvalidInput, match=message):
        posts.read(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, too short, and not text."""
    with pytest.raises(InvalidInput, match="cannot be read"):
        posts.read(tmp_path / "none.csv")
    with pytest.raises(InvalidInput, match="expected at least 20 posts, got 3"):
        posts.read(written(tmp_path / "few.csv", "text,severity", lines(3)))
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"text,severity\n\xff\xfe,0.1\n")
    with pytest.raises(InvalidInput, match="cannot be read"):
        posts.read(binary)
