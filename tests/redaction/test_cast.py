"""The cast of a run: what one span tells is replaced in the others, in every form."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from dataclasses import replace
from itertools import pairwise

import pytest
from bare_spans import bare_span
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freezeframe_redaction import Cast, Redactor, TenantKey, load_policy
from freezeframe_redaction.casts.book import Member
from freezeframe_redaction.casts.casting import Hit, Indexes, merged
from freezeframe_redaction.maker import Maker
from freezeframe_redaction.prf import Prf
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import SpanRecord

REDACTOR = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))
TELLS = "Her name is Maria Keller, write to maria.keller@acme-corp.com"


def _span(text: object, at: int = 1) -> SpanRecord:
    written = text if isinstance(text, str) else json.dumps(text)
    return bare_span({"app.text": written}, span_id=f"{at:016x}", start_time_unix_nano=at, end_time_unix_nano=at)


def test_a_later_span_holds_no_form_of_what_an_earlier_one_told() -> None:
    _, cast = REDACTOR.redact_in_run(_span(TELLS), Cast())
    span = _span({"user": "maria_keller_77", "note": "MARIA said so", "to": "MARIA.KELLER@ACME-CORP.COM"}, 2)
    made, after = REDACTOR.redact_in_run(span, cast)
    assert REDACTOR.rewrite(span, cast) is not span
    assert REDACTOR.rewrite(made, after) is made
    assert "maria" not in str(made.attributes).lower()


def test_a_span_that_was_stored_before_is_rewritten_and_one_that_holds_nothing_stays_the_same_object() -> None:
    early = REDACTOR.redact_span(_span("user maria_keller_77 logged in"))
    other = REDACTOR.redact_span(_span("nothing to see", 3))
    told, cast = REDACTOR.redact_in_run(_span(TELLS, 2), Cast())
    made = REDACTOR.rewrite(early, cast)
    assert "maria" not in str(made.attributes["app.text"])
    assert REDACTOR.rewrite(made, cast) is made
    assert REDACTOR.rewrite(other, cast) is other
    assert REDACTOR.rewrite(told, cast) is told


def test_without_anything_new_the_cast_is_the_same_object() -> None:
    _, cast = REDACTOR.redact_in_run(_span(TELLS), Cast())
    assert REDACTOR.redact_in_run(_span(TELLS, 2), cast)[1] is cast


@given(st.lists(st.builds(Member, class_=st.text(), spelling=st.text(), kind=st.text(), spreads=st.booleans())))
def test_a_cast_survives_its_bytes(members: list[Member]) -> None:
    cast = Cast().joined(Cast(members=tuple(members), pairs=(("Maria", "Keller"),)))
    assert Cast.from_bytes(cast.to_bytes()) == cast


def test_a_cast_of_the_first_version_is_read() -> None:
    held = b'{"version":1,"members":[["PERSON","Maria","",true]],"pairs":[["Maria","Keller"]]}'
    assert Cast.from_bytes(held) == Cast(members=(Member(class_="PERSON", spelling="Maria"),), pairs=(("Maria", "Keller"),))


@pytest.mark.parametrize("held", [b"", b"[]", b'{"version":2}', b'{"version":3,"members":[],"pairs":[]}'])
def test_bytes_that_are_no_cast_are_refused(held: bytes) -> None:
    with pytest.raises(WireError):
        Cast.from_bytes(held)


def test_a_word_of_a_name_that_the_run_writes_small_as_well_does_not_spread() -> None:
    cast = Cast(
        members=(
            Member(class_="PERSON", spelling="Trenk", spreads=False),
            Member(class_="PERSON", spelling="Okafor", spreads=False),
        )
    )
    weighed = cast.weighed(["the trenk is high", "Okafor and /okafor/x"])
    assert [one.spreads for one in weighed.members] == [False, True]
    assert replace(cast) == cast


ELSEWHERE = (
    ("The winner was Maria Keller of the Keller team", "see maria_keller_77 and Keller", ("maria", "Keller"), ()),
    ("We met Lincoln Park and left", "see the lincoln-park trail", (), ("lincoln-park",)),
    ("They asked Paula Cole Harbinger", "Harbinger (1994)", (), ("Harbinger",)),
    ("My name is Lucas Brown", "user lucas_brown_77 of Brown", ("lucas",), ("Brown",)),
    ('{"first_name": "Mia", "last_name": "Kowalczyk"}', "MIA to LAX: mia_kowalczyk", ("mia_kowalczyk",), ("MIA",)),
)
"""What one span says, what another one says, and which words of that are replaced once the run is over, and which are not."""


@pytest.mark.parametrize(("said", "text", "gone", "kept"), ELSEWHERE)
def test_what_may_be_something_else_is_replaced_only_where_it_was_found(
    said: str, text: str, gone: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    told, cast = REDACTOR.redact_in_run(_span(said), Cast())
    early = REDACTOR.redact_span(_span(text, 2))
    cast = cast.weighed([str(told.attributes["app.text"]), text, "the park is big"])
    made = str(REDACTOR.rewrite(early, cast).attributes["app.text"])
    assert [word for word in (*gone, *kept) if word in made] == list(kept)


SAID = (
    TELLS,
    "user maria_keller_77 asked, MARIA again",
    "nothing of anybody in this one",
    "call Tomasz Wisniewski on +1 415 555 2671",
    "tomaszwisniewski wrote to keller about Keller",
    "my card is 4539 1488 0343 6467",
    "4539148803436467 and tomasz_wisniewski",
    "My name is J\u00fcrgen M\u00fcller",
    "ask j\u00fcrgen_m\u00fcller",
)


@pytest.mark.proof
@pytest.mark.long
@settings(max_examples=examples(40), deadline=None)
@given(
    turns=st.lists(st.tuples(st.sampled_from(SAID), st.sampled_from(SAID), st.integers(0, 9_999_999)), min_size=2, max_size=7)
)
def test_a_history_that_grows_becomes_with_its_cast_what_it_becomes_without_memory(turns: list[tuple[str, str, int]]) -> None:
    cast = Cast()
    history: list[dict[str, object]] = [{"role": "system", "content": "You help. " * 60}]
    for at, (content, note, number) in enumerate(turns):
        history.append({"role": "user", "content": content, "number": number})
        span = _span({"messages": history, "model": "m"}, at + 1)
        span = replace(span, attributes={**span.attributes, "app.note": note, "app.list": (note, content)})
        fresh = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))
        expected = fresh.redact_in_run(span, cast)
        assert REDACTOR.redact_in_run(span, cast) == expected
        assert REDACTOR.redact_in_run(span, cast) == expected
        cast = expected[1]


MAIL = "maria.keller@acme-corp.com"
DERIVED = (
    "keller.maria", "maria.keller", "mkeller", "mariakeller", "maria.keller%40acme-corp.com",
    hashlib.sha256(MAIL.encode()).hexdigest(), hashlib.md5(MAIL.encode()).hexdigest(),
    base64.b64encode(MAIL.encode()).decode(),
)  # fmt: skip


@pytest.mark.parametrize("form", DERIVED)
def test_what_programs_derive_of_a_value_is_replaced_in_a_span_stored_before(form: str) -> None:
    _, cast = REDACTOR.redact_in_run(_span(TELLS), Cast())
    early = REDACTOR.redact_span(_span({"made": f"it is {form} now"}, 2))
    made = REDACTOR.rewrite(early, cast)
    assert form not in str(made.attributes["app.text"])
    assert REDACTOR.rewrite(made, cast) is made


def test_a_form_at_the_end_of_a_text_ends_with_it() -> None:
    """Another form of the same beginning is longer: here the percent-encoded address."""
    made, _ = REDACTOR.redact_in_run(_span({"email": "maria.keller@acme-corp.com"}), Cast())
    assert json.loads(str(made.attributes["app.text"])).keys() == {"email"}


@pytest.mark.parametrize("form", ["mkeller", "mariakeller", "maria_keller", "maria"])
@pytest.mark.parametrize("wrap", ['{"u": "%s"}', '{"a": ["x", "%s"]}', '{"a": "{\\"u\\": \\"%s\\"}"}'])
def test_a_form_that_is_a_whole_value_of_small_letters_is_replaced(form: str, wrap: str) -> None:
    _, cast = REDACTOR.redact_in_run(_span(TELLS), Cast())
    early = REDACTOR.redact_span(_span(wrap % form))
    assert form in str(early.attributes["app.text"])
    later, _ = REDACTOR.redact_in_run(_span(wrap % form, 2), cast)
    same, _ = REDACTOR.redact_in_run(_span([wrap % form, TELLS], 3), Cast())
    for made in (REDACTOR.rewrite(early, cast), later, same):
        assert form not in str(made.attributes["app.text"])


def test_a_common_word_that_is_a_whole_value_stays_though_someone_is_called_so() -> None:
    _, cast = REDACTOR.redact_in_run(_span("Her name is Maria Mark"), Cast())
    made, _ = REDACTOR.redact_in_run(_span({"sort": "mark"}, 2), cast)
    assert made.attributes["app.text"] == '{"sort": "mark"}'


@given(
    edges=st.lists(st.integers(0, 30), unique=True, max_size=8),
    hit=st.tuples(st.integers(0, 30), st.integers(1, 12)),
)
def test_no_part_of_a_form_stays_in_clear_beside_what_a_detector_replaces(edges: list[int], hit: tuple[int, int]) -> None:
    ends = sorted(edges)
    edits = [(start, end, f"<{start}>") for start, end in zip(ends[::2], ends[1::2], strict=False)]
    form = Hit(hit[0], sum(hit), "form", "EMAIL")
    made = merged(edits, [form])
    gone = {at for start, end, _ in made for at in range(start, end)}
    assert gone == {at for start, end, _ in [*edits, form[:3]] for at in range(start, end)}
    assert all(one[1] <= other[0] for one, other in pairwise(made))


_WORDS = ("Keller", "4155", "acme", "\u00fc1", "K")
_JOINTS = ("-", ".", "_", " ", "--", "+", "(", "%40", "@", "\u3000")
_PIECES = st.lists(st.sampled_from((*_WORDS, *_JOINTS)), min_size=1, max_size=6).map("".join)


@given(values=st.sets(_PIECES, min_size=1, max_size=5), around=st.lists(_PIECES, max_size=8), order=st.randoms())
def test_forms_around_one_run_of_letters_are_found_wherever_each_of_them_begins(
    values: set[str], around: list[str], order: random.Random
) -> None:
    """What is found by one shared run of letters is what looking for each form at each place finds."""
    members = tuple(Member(class_="PLACE", spelling=value) for value in sorted(values))
    indexes = Indexes(Maker(Prf(b"k" * 32)))
    forms = {form for one in members for form in indexes.forms_of(one).held}
    told = [*around, *order.choices(sorted(forms), k=4)] if forms else around
    order.shuffle(told)
    text = "".join(told)
    found = [hit[:2] for _, hits in indexes.of(Cast(members=members)).find([text], lambda text: ()) for hit in hits]
    assert found == _alone(text, forms)


def _alone(text: str, forms: set[str]) -> list[tuple[int, int]]:
    """Return where forms stand alone, leftmost and longest, with those that run into each other as one."""
    places = ((start, start + len(form)) for form in forms for start in range(len(text)) if text.startswith(form, start))
    found: list[tuple[int, int]] = []
    for start, end in sorted(places, key=lambda place: (place[0], -place[1])):
        if text[start - 1 : start].isalnum() or text[end : end + 1].isalnum() or (found and end <= found[-1][1]):
            continue
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found


def test_a_form_into_which_another_one_runs_leaves_nothing_in_clear() -> None:
    told = Cast(
        members=tuple(Member(class_="EMAIL", spelling=one) for one in ("maria.keller@acme-corp.com", "acme-corp.com@relay.net"))
    )
    early = _span({"made": "see maria.keller@acme-corp.com@relay.net"})
    assert "relay" not in str(REDACTOR.rewrite(early, told).attributes["app.text"])


def test_what_a_detector_finds_by_itself_keeps_its_surrogate_though_it_is_a_form_of_another_value() -> None:
    """Else the store would depend on which of the two was found first."""
    local = Member(class_="PHONE", spelling="867-2671", kind="national")
    whole = Member(class_="PHONE", spelling="+1 415 867 2671", kind="international")
    span = _span({"made": "it is 867-2671 now"})
    alone = REDACTOR.rewrite(span, Cast(members=(local,)))
    assert alone is not span
    for members in ((local, whole), (whole, local)):
        assert REDACTOR.rewrite(span, Cast(members=members)).attributes["app.text"] == alone.attributes["app.text"]
    assert REDACTOR.rewrite(span, Cast(members=(whole,))).attributes["app.text"] != alone.attributes["app.text"]
