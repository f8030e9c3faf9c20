"""The bytes of a log segment, broken piece by piece: what is read, what is lost, and what the reader says of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from log_batches import span

from freezeframe_collector.batch import EncodedSpan, encode_spans
from freezeframe_collector.casts.found import Found
from freezeframe_collector.wal.format import (
    HEADER_BYTES,
    MAGIC,
    Counts,
    Damage,
    Extent,
    file_header,
    frame,
    parse_segment,
    segment_mark,
)
from freezeframe_schemas.errors import WireError

MARK = segment_mark("log", 1)
groups = st.lists(st.integers(1, 3), min_size=1, max_size=4)
"""How many records each sync wrote; the n-th record has n spans."""


@cache
def encoded(number: int) -> EncodedSpan:
    (only,) = encode_spans([span(number)])
    return only


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A file: its start, and its records."""

    pieces: list[bytes]
    before: list[int]
    """Record -> how many records were synced when it was written."""

    def start(self, piece: int) -> int:
        return sum(map(len, self.pieces[:piece]))

    def broken(self, hit: set[int], at: int) -> bytes:
        """Return the file with one byte changed in each of these pieces."""
        changed = [bytearray(piece) for piece in self.pieces]
        for number in hit:
            changed[number][at % len(changed[number])] ^= 4
        return b"".join(changed)


def make_segment(sizes: list[int], *, synced_groups: int) -> Segment:
    records: list[bytes] = []
    before: list[int] = []
    known = [Extent()]
    for size in sizes:
        written = known[-1]
        for _ in range(size):
            number = len(records) + 1
            counts = Counts(received=number)
            record = b"".join(frame(MARK, known[-1], counts, (), [encoded(place) for place in range(number)]))
            records.append(record)
            before.append(known[-1].records)
            written += Extent(size_bytes=len(record), records=1, spans=number, counts=counts)
        known.append(written)
    return Segment(pieces=[file_header(MARK, known[synced_groups]), *records], before=before)


def spans_of(pieces: set[int]) -> int:
    return sum(pieces)  # piece 0 is the start of the file


@settings(max_examples=examples(60))
@given(sizes=groups, data=st.data(), at=st.integers(HEADER_BYTES, 5000))
def test_of_a_sealed_segment_each_broken_record_is_lost_and_counted(sizes: list[int], data: st.DataObject, at: int) -> None:
    segment = make_segment(sizes, synced_groups=len(sizes))
    records = range(1, len(segment.pieces))
    hit = data.draw(st.sets(st.sampled_from(records)))
    content = parse_segment(segment.broken(hit, at), b"", is_sealed=True)
    whole = {*records} - hit
    assert [len(record.keys) for record in content.records] == sorted(whole)
    assert (content.torn_bytes, content.extent.size_bytes) == (0, segment.start(len(segment.pieces)))
    assert (content.extent.records, content.extent.spans) == (len(whole), spans_of(whole))
    assert content.extent.counts == Counts(received=spans_of({*records}), lost=spans_of(hit), damaged=int(bool(hit)))
    lost = sum(len(segment.pieces[piece]) for piece in hit)
    start = segment.start(min(hit, default=0))
    expected = Damage(at=start, size_bytes=lost, records=len(hit), spans=spans_of(hit), is_counted=True)
    assert content.damage == (expected if hit else None)


@settings(max_examples=examples(60))
@given(sizes=groups, data=st.data(), at=st.integers(0, 5000))
def test_without_its_start_a_segment_still_says_what_is_lost_or_that_it_cannot_know(
    sizes: list[int], data: st.DataObject, at: int
) -> None:
    segment = make_segment(sizes, synced_groups=len(sizes))
    records = range(1, len(segment.pieces))
    hit = data.draw(st.sets(st.sampled_from(records)))
    whole = sorted({*records} - hit)
    data_of_file = bytearray(segment.broken(hit, at))
    data_of_file[:HEADER_BYTES] = bytes(HEADER_BYTES)
    content = parse_segment(bytes(data_of_file), MARK, is_sealed=True)
    assert [len(record.keys) for record in content.records] == whole
    damage = content.damage
    assert damage is not None
    assert (damage.at, damage.size_bytes) == (0, HEADER_BYTES + sum(len(segment.pieces[piece]) for piece in hit))
    said = max((segment.before[piece - 1] for piece in whole), default=0)  # what the last whole record knows of
    assert damage.is_counted == (bool(whole) and max(hit, default=0) <= said)
    if damage.is_counted:
        assert (damage.records, damage.spans) == (len(hit), spans_of(hit))
    assert content.extent.counts.damaged == int(bool(hit) or not damage.is_counted)


@settings(max_examples=examples(60))
@given(sizes=groups, data=st.data(), at=st.integers(0, 5000))
def test_of_an_open_segment_nothing_behind_the_first_fault_after_the_last_sync_is_taken(
    sizes: list[int], data: st.DataObject, at: int
) -> None:
    """No one was told that it is stored, and a power loss keeps any pages of the last write."""
    segment = make_segment(sizes, synced_groups=len(sizes) - 1)
    acked = sum(sizes[:-1])
    torn = data.draw(st.integers(acked + 1, len(segment.pieces) - 1))
    hit = data.draw(st.sets(st.integers(1, acked))) if acked else set[int]()
    content = parse_segment(segment.broken({torn, *hit}, at), b"", is_sealed=False)
    assert [len(record.keys) for record in content.records] == sorted({*range(1, torn)} - hit)
    assert content.extent.size_bytes == segment.start(torn)
    assert content.torn_bytes == segment.start(len(segment.pieces)) - segment.start(torn)
    lost = 0 if content.damage is None else content.damage.records
    assert lost == len(hit)


def test_bytes_between_two_records_cost_only_themselves() -> None:
    start, one, two, three = make_segment([1, 1, 1], synced_groups=3).pieces
    content = parse_segment(start + one + b"x" + two + MARK + three, b"", is_sealed=True)
    assert [len(record.keys) for record in content.records] == [1, 2, 3]
    damage = content.damage
    assert damage is not None
    assert (damage.at, damage.size_bytes) == (len(start + one), 1 + len(MARK))


def test_an_open_file_without_a_start_and_without_a_record_holds_nothing() -> None:
    """The machine ended before the first sync."""
    for data in (b"", bytes(200), MAGIC + bytes(200), MARK + b"x" * 200):
        content = parse_segment(data, MARK, is_sealed=False)
        assert (content.records, content.damage, content.torn_bytes) == ([], None, len(data))
        assert content.extent.size_bytes == 0
    with pytest.raises(WireError, match="log version 9, this collector knows version 1"):
        parse_segment(MAGIC + b"\x09\x00" + bytes(200), MARK, is_sealed=False)


def test_a_lost_start_of_an_open_file_is_damage_if_a_record_is_left() -> None:
    segment = make_segment([1, 1], synced_groups=2)
    content = parse_segment(segment.broken({0}, 20), MARK, is_sealed=False)
    assert len(content.records) == 2
    assert content.damage == Damage(at=0, size_bytes=HEADER_BYTES, records=0, spans=0, is_counted=True)
    assert content.extent.size_bytes == segment.start(3)


def test_damage_says_what_it_cost() -> None:
    for records, is_counted, said in ((0, True, 0), (1, True, 1), (0, False, 1), (2, False, 1)):
        damage = Damage(at=7, size_bytes=3, records=records, spans=5, is_counted=is_counted)
        assert damage.to_counts() == Counts(lost=5, damaged=said)
        cost = f"5 spans in {records} records are lost"
        assert str(damage) == f"3 bytes from offset 7 on are damaged: {'' if is_counted else 'at least '}{cost}"


def test_an_extent_is_read_as_it_was_written() -> None:
    numbers = [*accumulate(range(1, 7))]
    counts = Counts(received=numbers[3], duplicate=numbers[4], rejected=numbers[5])
    extent = Extent(size_bytes=numbers[0], records=numbers[1], spans=numbers[2], counts=counts)
    assert Extent.from_bytes(extent.to_bytes()) == extent
    assert (extent + extent).to_bytes() == Extent(
        size_bytes=2 * numbers[0], records=2 * numbers[1], spans=2 * numbers[2], counts=counts + counts
    ).to_bytes()


@pytest.mark.parametrize("found", [(), (Found(tenant="t", trace_id="ab", based_on=2, sealed=b"\x00sealed", ended=True),)])
def test_a_record_holds_what_was_found_in_its_runs_and_nothing_if_that_is_nothing(found: tuple[Found, ...]) -> None:
    data = file_header(MARK, Extent()) + b"".join(frame(MARK, Extent(), Counts(received=1), (), [encoded(1)], found))
    (record,) = parse_segment(data, MARK, is_sealed=False).records
    assert record.found == found
    assert (b'"found"' in data) is bool(found)
