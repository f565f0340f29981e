"""Every page from made-up views: whole, without numbers that are none, however odd the contents."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from gdcb.errors import InvalidInput
from gdcb.records import STATUS
from gdcb.service.access import roles
from gdcb.service.pages import render
from gdcb.service.pages.views import audit, dashboard, people, queue
from gdcb.service.pages.views.decision import Claim, Found, Held, Quantity
from gdcb.service.pages.views.frame import Frame, Settings, View
from gdcb.service.pages.views.review import Preview
from tests.page_checks import Page, is_whole
from tests.service import sample_views as samples
from tests.service.sample_views import PAGES

each_page = pytest.mark.parametrize("name", PAGES)


def changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a record with every leaf changed; the settings of the viewer stay."""
    if isinstance(value, Settings):
        return value
    if isinstance(value, tuple):
        return tuple(changed(one, change) for one in value)
    if isinstance(value, frozenset):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value)]
        return replace(value, **{name: changed(getattr(value, name), change) for name in fields})
    return change(value)


def with_words(view: View, words: str) -> View:
    """Return the view with the same words in every text."""
    found = changed(view, lambda leaf: words if isinstance(leaf, str) else leaf)
    assert isinstance(found, View)
    return found


def hollow(value: Any, keeps_rows: bool = False) -> Any:
    """Return a record in which whatever may be None is, and whatever may be empty, or not."""
    if isinstance(value, tuple):
        return tuple(hollow(one, keeps_rows) for one in value) if keeps_rows else ()
    if not dataclasses.is_dataclass(value) or isinstance(value, type | Settings | Frame):
        return value
    hints = typing.get_type_hints(type(value))
    empty: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        kind, found = hints[field.name], getattr(value, field.name)
        if isinstance(kind, types.UnionType) and type(None) in typing.get_args(kind):
            empty[field.name] = None
        else:
            empty[field.name] = hollow(found, keeps_rows)
    return replace(value, **empty)


@each_page
def test_a_page_is_whole(name: str) -> None:
    """Balanced, unique ids, no None or NaN, one h1, headings in order, one main."""
    page = render.page(PAGES[name])
    is_whole(page)
    found = Page(page)
    tags = Counter(tag for tag, _ in found.attributes)
    assert (tags["h1"], tags["main"], tags["title"]) == (1, 1, 1)
    levels = [int(tag[1]) for tag, _ in found.attributes if re.fullmatch(r"h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert tags["table"] == tags["caption"]


@each_page
def test_a_page_bears_the_strictest_policy(name: str) -> None:
    """No inline script, style or handler; every address is ours."""
    for tag, attributes in Page(render.page(PAGES[name])).attributes:
        assert tag != "style"
        assert tag != "script" or attributes["src"]
        for key, value in attributes.items():
            assert key != "style"
            assert not key.startswith("on")
            if key in ("href", "action", "formaction", "src"):
                assert value is not None
                assert re.match(r"/(?![/\\])|#", value)


@each_page
def test_every_post_is_bound_to_the_session(name: str) -> None:
    """As many tokens as forms that change something."""
    page = render.page(PAGES[name])
    assert page.count('method="post"') == page.count('name="csrf" value="c5rf-t0ken"')


@each_page
def test_a_page_of_nothing_renders(name: str) -> None:
    """Empty lists and unknown numbers leave a whole page, with words instead of gaps."""
    view = hollow(PAGES[name])
    is_whole(render.page(view))
    is_whole(render.page(hollow(PAGES[name], keeps_rows=True)))
    is_whole(render.page(replace(view, frame=replace(view.frame, notice=None, request=""))))


@each_page
@pytest.mark.parametrize(
    "words", ["W" * 400, "مرحبا بالعالم שלום", "a\u202eb\u0000c\ud800", "{{ 7*7 }}"]
)
def test_odd_words_render(name: str, words: str) -> None:
    """Very long names, right-to-left text, control characters, template syntax: shown as is."""
    page = render.page(with_words(PAGES[name], words))
    is_whole(page)
    assert "49" not in Page(page).text or "49" in Page(render.page(PAGES[name])).text


@pytest.mark.parametrize("size", [1, 500])
def test_long_lists_are_whole(size: int) -> None:
    """Five hundred rows are five hundred rows."""
    rows = render.page(replace(samples.queue_of(size), bulk_cap=20))
    is_whole(rows)
    assert rows.count('class="open"') == size
    found = replace(samples.AUDIT, rows=samples.AUDIT.rows[:1] * size, total=size)
    assert render.page(found).count("/evidence") == size


def test_the_queue_says_what_a_reviewer_needs() -> None:
    """Proposal against now, rule with value and limit, deadline and expiry, claims."""
    text = Page(render.page(samples.QUEUE)).text
    assert "142 € +20 % now 118 €, asked 9 min ago Lake House 3 rent-2026-06-16-4711" in text
    assert "price change change 20 % held unless within 15 % risk 80 % 7 min 00 s left" in text
    assert "7 min 00 s left then it is vetoed" in text
    assert "Yours until 15:12 UTC" in text
    assert "Bruno Keller has it until 15:04 UTC" in text


def test_filters_stay_in_the_address() -> None:
    """The form shows what was asked, and the other pages of the list ask it again."""
    page = render.page(samples.QUEUE_FILTERED)
    assert '<option value="price change" selected>' in page
    assert 'value="lake &amp; sun"' in page
    asked = "rule=price+change&amp;unit=Lake+House+3&amp;claimed=free&amp;text=lake+%26+sun"
    assert f"/i/rent/queue?{asked}&amp;offset=0" in page
    assert f"/i/rent/queue?{asked}&amp;offset=53" in page


def test_a_filter_for_a_name_that_is_gone_stays_chosen() -> None:
    """Somebody may have kept the address of a rule that was renamed."""
    view = replace(samples.QUEUE, filters=queue.QueueFilters(rule="old rule"))
    assert '<option value="old rule" selected>' in render.page(view)


@pytest.mark.parametrize(("cap", "roles", "is_there"), [
    (20, samples.EVERY_ROLE, True),
    (1, samples.EVERY_ROLE, False),
    (20, frozenset(("audit",)), False),
])  # fmt: skip
def test_who_may_answer_several(cap: int, roles: frozenset[str], is_there: bool) -> None:
    """Only with the role, and only where the policy allows more than one."""
    place = replace(samples.RENT, roles=roles)
    view = replace(samples.QUEUE, bulk_cap=cap, frame=replace(samples.FRAME, place=place))
    page = render.page(view)
    assert ('id="bulk"' in page) is is_there
    # All but the one that somebody else has claimed.
    assert page.count('name="row"') == (len(view.rows) - 1 if is_there else 0)
    assert (">Claim<" in page) is ("approve" in roles)


def test_an_answer_to_several_is_bound_to_each() -> None:
    """The confirmation sends id, version and content of every row, in the same order."""
    fields = [
        (attributes["name"], attributes["value"])
        for tag, attributes in Page(render.page(samples.BULK)).attributes
        if tag == "input" and attributes.get("name") in ("row", "version", "content")
    ]
    wanted = [
        pair
        for row in samples.BULK.rows
        for pair in (("row", row.id), ("version", str(row.version)), ("content", row.content))
    ]
    assert fields == wanted
    assert "bulk/confirm" not in render.page(samples.BULK_REFUSED)


def test_the_three_answers_are_bound_to_what_was_seen() -> None:
    """Approve, edit and veto carry version, content and token; a settled one has no form."""
    page = render.page(samples.REVIEW)
    for name in ("csrf", "version", "content"):
        forms = re.findall(r'<form [^>]*class="stack answer.*?</form>', page, flags=re.S)
        assert [form.count(f'name="{name}"') for form in forms] == [1, 1, 1]
    shut = (samples.REVIEW_DONE, samples.REVIEW_CONFLICT, samples.REVIEW_READER)
    for view in (*shut, samples.REVIEW_TAKEN, samples.REVIEW_PASSED):
        assert "stack answer" not in render.page(view)


def test_who_asked_may_only_veto() -> None:
    """Nobody approves what they proposed."""
    page = render.page(samples.REVIEW_OWN)
    assert "/veto" in page
    assert "/approve" not in page
    assert "/edit" not in page
    assert "You asked for this decision." in Page(page).text
    assert "Your key ‘till’ asked for this;" in Page(render.page(samples.REVIEW_OWN_KEY)).text


def test_a_chain_is_whole_only_when_all_of_it_was_checked() -> None:
    """434 of 720 are 'so far'."""

    def tile(verified: int) -> str:
        chain = dashboard.ChainState(719, verified, samples.NOW, True)
        return Page(render.page(replace(samples.DASHBOARD, chain=chain))).text

    assert "Chain Whole so far verified to entry 434 of 719" in tile(434)
    assert "Chain Whole verified to entry 719 of 719" in tile(719)


def test_what_waits_now_and_what_came_lately_have_two_names() -> None:
    """The queue counts all that wait; the flow those of a week, when the figures were made."""
    series = dashboard.Series("held", (3.0,))
    flow = dashboard.Timeline((samples.NOW,), (series,))
    text = Page(render.page(replace(samples.DASHBOARD, flow=flow))).text
    assert "Still waiting" in text
    assert "Decisions of the last seven days, by what had become of them" in text


def test_the_search_says_that_it_takes_a_whole_id() -> None:
    """Before one asks, and where nothing was found."""
    whole = "Id and unit are found as a whole, not by a part."
    assert Page(render.page(samples.AUDIT)).text.count(whole) == 1
    none = replace(samples.AUDIT, filters=audit.AuditFilters(id="quay"), rows=(), total=0)
    assert Page(render.page(none)).text.count(whole) == 2


def test_two_accounts_of_the_scaler_stand_in_two_tables() -> None:
    """A factor and a field may have one name and two numbers; and a reward is called one."""
    page = render.page(samples.REVIEW)
    _, first, second, _ = re.split(r"<caption>(?:What the|What each|Most alike)", page)
    assert ("×1.08" in first, "×1.08" in second) == (False, True)
    assert ("1.12" in first, "1.12" in second) == (True, False)
    past = page.partition("Similar past cases")[2]
    assert "Reward" in past
    assert "Outcome" not in past


def test_edit_fields_say_their_limits() -> None:
    """Limits stand there in words; categories are a list; no thousands in attributes.

    A number field of a browser drops what it cannot read (a decimal comma), so there is none.
    """
    page = render.page(samples.REVIEW_DOSE)
    assert 'name="action.bolus" value="6.5" required inputmode="decimal"' in page
    assert "0 to 10, in steps of 0.5" in page
    assert 'type="number"' not in page
    assert '<select name="action.insulin"' in page
    large = replace(samples.REVIEW.edit[0], value=123456.5, step=None, low=None, high=None)
    odd = render.page(replace(samples.REVIEW, edit=(large,)))
    assert 'name="action.price" value="123456.5" required' in odd
    above = render.page(replace(samples.REVIEW, edit=(replace(large, low=50.0),)))
    assert '<span class="soft hint">at least 50</span>' in above


def test_conflict_says_who_what_and_when() -> None:
    """And that the late answer changed nothing."""
    text = Page(render.page(samples.REVIEW_CONFLICT)).text
    assert "Somebody was quicker; your answer changed nothing." in text
    assert "Bruno Keller answered at 16 Jun 2026, 14:58 UTC: edited I know something local" in text


def test_a_screen_says_where_its_action_is_from() -> None:
    """From the learner, changed on the way, or the incumbent's; or it ran, and nobody is asked."""
    views = (samples.REVIEW, samples.REVIEW_CHANGED, samples.REVIEW_KEPT, samples.REVIEW_PASSED)
    said = (
        "Changed on the way here. The learner proposed 1,080 €; gates or people before this one",
        "keeps the incumbent’s action. The learner would have proposed 151 €, which does not run",
        "It waits for nobody passed every gate let it pass Ran: 171 €.",
    )
    texts = [Page(render.page(view)).text.replace("\u00a0", " ") for view in views]
    for i, text in enumerate(texts):
        assert [words in text for words in said] == [i == 1, i == 2, i == 3]
    assert "Why it wait" not in texts[3]


@pytest.mark.parametrize("expiry", ["veto", "fallback", "wait"])
def test_expiry_is_announced_and_never_approves(expiry: str) -> None:
    """Whatever the policy, the page says it before it happens."""
    case = replace(samples.REVIEW.case, expiry=expiry)
    text = Page(render.page(replace(samples.REVIEW, case=case))).text
    said = {"veto": "it is vetoed, and does not run", "fallback": "the fallback runs: 129 €"}
    assert f"At 15:07 UTC {said.get(expiry, 'it goes on waiting')}." in text


def test_who_proposed_a_change_cannot_approve_it() -> None:
    """The second pair of eyes is somebody else's."""
    assert "/changes/c9/agree" in render.page(samples.CHANGE)
    assert "/changes/c9/agree" not in render.page(samples.CHANGE_MINE)
    assert "/changes/c9/agree" not in render.page(samples.CHANGE_DONE)


def test_evidence_shows_the_whole_of_a_hash_and_what_differs() -> None:
    """The auditor compares by eye or by machine."""
    page = render.page(samples.EVIDENCE_DIFFERS)
    assert f"<code>{samples.HASH}</code>" in page
    text = Page(page).text
    assert "Differs. Made again from the chain" in text
    assert "RecordedRecomputedprice142141.9998" in text.replace(" ", "")


def test_a_secret_is_shown_only_when_there_is_one() -> None:
    """Once, in its own box."""
    assert "gdcb_k9b2_" in render.page(samples.PEOPLE)
    assert "shown this once" not in render.page(replace(samples.PEOPLE, secret=None))


def test_settings_mark_the_page() -> None:
    """Theme, keys and news are attributes that style and script read."""
    view = replace(
        samples.QUEUE, frame=replace(samples.FRAME, settings=Settings("dark", False, False))
    )
    page = render.page(view)
    assert 'data-theme="dark"' in page
    assert 'data-keys="off" data-refresh="off"' in page
    assert "<dialog" not in page


def test_the_page_reloads_only_when_asked() -> None:
    """No forced refresh; the address offers it to who has no script."""
    assert "http-equiv" not in render.page(samples.QUEUE)
    offered = render.page(samples.QUEUE)
    assert "/i/rent/queue?reload=60" in offered
    assert '<noscript><meta http-equiv="refresh" content="60"></noscript>' in render.page(
        samples.QUEUE_FILTERED
    )


def test_the_preview_is_the_same_in_words_and_as_a_document() -> None:
    """Script and plain form show the same lines."""
    document = render.preview(samples.PREVIEW, "€ a night")
    text = Page(render.page(samples.REVIEW_PREVIEW)).text
    assert document["problem"] == ""
    assert len(document["lines"]) == 5
    words = {line["name"]: line["words"] for line in document["lines"]}
    assert words["As edited"] == "expected 91.2 [82.0, 100.4] € a night"
    assert words["As it is"] == "expected 92.4 [83.1, 101.2] € a night, if approved"
    for line in document["lines"]:
        assert line["name"] + line["words"].replace("\u00a0", " ") in text
    assert render.preview(Preview(problem="too much")) == {"problem": "too much", "lines": []}


def test_news_as_a_document() -> None:
    """The names that the script reads."""
    news = queue.QueueNews(9, 3, 1, (("a", "approved by B"),), (("c", "D has it"),), ("e",))
    assert news.document() == {
        "version": 9,
        "waiting": 3,
        "new": 1,
        "gone": [{"id": "a", "words": "approved by B"}],
        "claims": [{"id": "c", "words": "D has it"}],
        "mine": ["e"],
    }


def test_what_a_view_refuses() -> None:
    """A theme that there is not, a page of an instance without one, a view without a template."""
    with pytest.raises(
        InvalidInput, match="theme: expected one of system, light, dark, got 'blue'"
    ):
        Settings("blue")
    with pytest.raises(InvalidInput, match="QueueView: expected a frame with a place, got none"):
        render.page(replace(samples.QUEUE, frame=samples.OUTSIDE))
    with pytest.raises(InvalidInput, match="expected a view with a template, got View"):
        render.page(View(frame=samples.FRAME))


def test_assets_have_addresses_that_change_with_them() -> None:
    """So that caches may keep them for ever."""
    for name in ("gdcb.css", "gdcb.js", "mark.svg"):
        assert re.fullmatch(rf"/static/{re.escape(name)}\?v=[0-9a-f]{{12}}", render.asset(name))


def test_lists_of_the_views_are_those_of_the_service() -> None:
    """Roles, statuses: the words that everybody uses."""
    assert [role for role, _ in people.ROLES] == list(roles.ROLES)
    assert {role for role, _ in people.KEY_ROLES} == roles.FOR_KEYS
    assert audit.STATUSES == STATUS


def test_numbers_of_a_rule_may_be_words_or_missing() -> None:
    """A rule on a category has a category as its value, and perhaps no limit."""
    held = Held("insulin", found=(Found("kind", "aspart", None),))
    case = replace(
        samples.REVIEW.case, held=held, claim=Claim("x", samples.NOW + 3 * samples.DAY),
        proposed=(Quantity("dose", float("nan")),), current=(Quantity("dose", float("inf")),),
    )  # fmt: skip
    page = render.page(replace(samples.QUEUE, rows=(case, case), total=2))
    assert "kind aspart held unless –" in Page(page).text
    assert "until 19 Jun 2026, 15:00 UTC" in Page(page).text
