"""Server-sent events, AWS event streams and content encodings: bytes to values and back."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_exchanges import Recorded

from freezeframe_schemas.decompression import UnpacksTooFarError
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.wire import decode_body, eventstream, sse

JSON_LINES = st.lists(st.text(max_size=20).map(lambda text: json.dumps(text).encode()), min_size=1, max_size=3)


def named_event(name: str | None, lines: list[bytes]) -> sse.SseEvent:
    """Return an event with as many data lines."""
    return sse.SseEvent(event=name, data=b"\n".join(lines))


def message(headers: dict[str, bool | int | bytes | str], payload: bytes) -> eventstream.EventMessage:
    """Return a message of an event stream."""
    return eventstream.EventMessage(headers=headers, payload=payload)


# -- server-sent events -------------------------------------------------------------------------------------------------
@given(
    events=st.lists(
        st.builds(named_event, st.none() | st.from_regex(r"[a-z.]{1,12}", fullmatch=True), JSON_LINES),
        max_size=5,
    )
)
def test_encoded_events_are_parsed_back(events: list[sse.SseEvent]) -> None:
    """Names and data survive; the ranges are end to end."""
    body = sse.encode(events)
    parsed = sse.parse_events(body)
    assert [(event.event, event.data) for event in parsed] == [(event.event, event.data) for event in events]
    assert [event.start for event in parsed] == [0, *[event.end for event in parsed]][: len(parsed)]
    assert not parsed or parsed[-1].end == len(body)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_ending_of_the_standard_is_read(end: bytes) -> None:
    """Event, comment, two data lines, a field without a space."""
    body = end.join([b": hello", b"event:a", b"data: 1", b"data:2", b"id: 7", b"", b"data: 3", b"", b""])
    events = sse.parse_events(body)
    assert [(event.event, event.data) for event in events] == [("a", b"1\n2"), (None, b"3")]
    first, last = events
    assert (first.start, first.end, last.end) == (0, last.start, len(body))
    assert body[last.start : last.end] == b"data: 3" + end + end


def test_a_cut_event_is_kept_and_marked() -> None:
    """Its bytes are in no complete event, and belong to it."""
    body = b'data: {"a":1}\n\ndata: {"b":'
    whole, cut = sse.parse_events(body)
    assert (whole.complete, cut.complete) == (True, False)
    assert body[cut.start : cut.end] == b'data: {"b":'


def test_comments_and_keep_alives_belong_to_the_event_after_them() -> None:
    """OpenRouter sends them while it waits."""
    body = b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\ndata: 1\n\n"
    (event,) = sse.parse_events(body)
    assert (event.data, event.start, event.end) == (b"1", 0, len(body))


@given(body=st.binary(max_size=120))
def test_any_bytes_are_events_in_order(body: bytes) -> None:
    """No bytes raise, and ranges never overlap."""
    position = 0
    for event in sse.parse_events(body):
        assert position == event.start < event.end <= len(body)
        position = event.end


@pytest.mark.proof
@pytest.mark.long
def test_recorded_streams_are_cut_into_ranges_that_cover_them(exchanges: Sequence[Recorded]) -> None:
    """Joined, the ranges are the body, except for blank lines and comments at its end."""
    streams = [row for row in exchanges if row.content_type.startswith("text/event-stream")]
    assert len(streams) > 600
    for row in streams:
        events = sse.parse_events(row.response)
        covered = b"".join(row.response[event.start : event.end] for event in events)
        assert row.response.startswith(covered), row.id
        assert not row.response[len(covered) :].strip() or row.response[len(covered) :].startswith(b":"), row.id


# -- AWS event streams --------------------------------------------------------------------------------------------------
header_names = st.text(st.characters(codec="ascii"), min_size=1, max_size=20)
header_values = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=20), st.text(max_size=20))
messages = st.lists(
    st.builds(
        message,
        st.dictionaries(header_names, header_values, max_size=4),
        st.binary(max_size=40),
    ),
    max_size=4,
)


@given(written=messages)
def test_encoded_messages_are_parsed_back(written: list[eventstream.EventMessage]) -> None:
    """Headers of every kind, any payload."""
    parsed = eventstream.parse(eventstream.encode(written))
    assert [(m.headers, m.payload) for m in parsed] == [(m.headers, m.payload) for m in written]


@given(written=messages, cut=st.integers(0, 400))
def test_a_cut_stream_gives_its_whole_messages(written: list[eventstream.EventMessage], cut: int) -> None:
    """What came before the cut is kept."""
    body = eventstream.encode(written)
    parsed = eventstream.parse(body[:cut])
    assert [m.payload for m in parsed] == [m.payload for m in eventstream.parse(body) if m.end <= cut]


def test_a_damaged_message_ends_the_stream() -> None:
    """A flipped bit fails the CRC; nothing after it can be trusted to be where it seems."""
    first, second = (eventstream.encode([eventstream.EventMessage(payload=text)]) for text in (b"one", b"two"))
    damaged = bytearray(first + second)
    damaged[-6] ^= 1
    assert [m.payload for m in eventstream.parse(bytes(damaged))] == [b"one"]


@given(body=st.binary(max_size=120))
def test_any_bytes_are_no_event_stream(body: bytes) -> None:
    """Noise does not have two right CRCs."""
    assert eventstream.parse(body) == []


def test_recorded_event_streams_are_written_again_byte_for_byte(exchanges: Sequence[Recorded]) -> None:
    """Every Bedrock stream of the recordings."""
    streams = [row for row in exchanges if row.content_type == "application/vnd.amazon.eventstream"]
    assert len(streams) == 64
    for row in streams:
        assert eventstream.encode(eventstream.parse(row.response)) == row.response, row.id


# -- content encodings --------------------------------------------------------------------------------------------------
@given(body=st.binary(max_size=300))
def test_gzip_and_deflate_are_undone(body: bytes) -> None:
    """Also raw deflate, which servers send under the same name, and one coding on top of another."""
    raw = zlib.compressobj(wbits=-15)
    twice = gzip.compress(zlib.compress(body))
    assert decode_body(gzip.compress(body), [("Content-Encoding", "gzip")]) == body
    assert decode_body(zlib.compress(body), [("content-encoding", "deflate")]) == body
    assert decode_body(raw.compress(body) + raw.flush(), [("content-encoding", "deflate")]) == body
    assert decode_body(twice, [("content-encoding", "deflate, gzip")]) == body
    assert decode_body(body, [("content-encoding", "identity"), ("content-type", "gzip")]) == body


def test_a_cut_gzip_body_gives_what_came() -> None:
    """A stream that was dropped midway."""
    text = bytes(range(256)) * 200
    packed = gzip.compress(text)
    part = decode_body(packed[: len(packed) // 2], [("content-encoding", "gzip")])
    assert part
    assert text.startswith(part)


def _packed(coding: str, body: bytes) -> bytes:
    if coding == "zstd":
        return bytes(pytest.importorskip("zstandard").compress(body))
    return gzip.compress(body) if coding == "gzip" else zlib.compress(body)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_a_body_that_unpacks_beyond_the_limit_is_refused(coding: str) -> None:
    """Before it is all in memory: some kilobytes unpack to gigabytes."""
    headers = [("content-encoding", coding)]
    body = bytes(64 << 20)
    packed = _packed(coding, body)
    tracemalloc.start()
    try:
        with pytest.raises(UnpacksTooFarError, match="more than 1,048,576 bytes"):
            decode_body(packed, headers, limit=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < len(body) / 4
    finally:
        tracemalloc.stop()
    assert decode_body(_packed(coding, body[: 1 << 20]), headers, limit=1 << 20) == body[: 1 << 20]


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd", "compress"])
def test_what_is_not_of_its_coding_is_named(coding: str) -> None:
    """The message names the coding and does not show the body."""
    with pytest.raises(WireError, match=coding) as raised:
        decode_body(b"plainly secret text", [("content-encoding", coding)])
    assert "secret" not in str(raised.value)


def test_zstd_is_undone_where_the_module_is_installed() -> None:
    """The collector's extra brings it."""
    zstandard = pytest.importorskip("zstandard")
    packed = zstandard.ZstdCompressor().compress(b"hello " * 50)
    assert decode_body(packed, [("content-encoding", "zstd")]) == b"hello " * 50
    assert decode_body(packed * 2, [("content-encoding", "zstd")]) == b"hello " * 100
    text = b"".join(b"%d," % number for number in range(100_000))
    cut = decode_body(zstandard.compress(text)[:-9_000], [("content-encoding", "zstd")])
    assert cut
    assert text.startswith(cut)
