from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_agent.protocol.sse import EventTooLarge, SseDecoder, SseEvent

LIMIT = 1 << 20


def decode(wire: bytes, decoder: SseDecoder | None = None) -> list[SseEvent]:
    return list((decoder or SseDecoder(LIMIT)).feed(wire))


def data_of(wire: bytes) -> list[str]:
    return [event.data for event in decode(wire)]


# Lines


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_ends_at_cr_lf_or_both(end: bytes) -> None:
    assert data_of(end.join([b"data: a", b"data: b", b"", b"data: c", b"", b""])) == ["a\nb", "c"]


def test_the_ends_may_be_mixed() -> None:
    assert data_of(b"data: a\rdata: b\ndata: c\r\n\ndata: d\r\r\n") == ["a\nb\nc", "d"]


def test_what_else_python_calls_a_line_break_is_data() -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei"
    assert data_of(f"data: {text}\n\n".encode()) == [text]


def test_a_crlf_cut_in_two_is_one_end() -> None:
    decoder = SseDecoder(LIMIT)
    assert decode(b"data: a\r", decoder) == []
    assert decode(b"\ndata: b\r", decoder) == []
    assert decode(b"\n\r", decoder) == [SseEvent("message", "a\nb", "")]
    assert decode(b"", decoder) == []
    assert decode(b"\n", decoder) == []
    assert decode(b"\n", decoder) == []


def test_an_event_ended_by_a_bare_cr_does_not_wait_for_the_next_byte() -> None:
    assert data_of(b"data: a\r\r") == ["a"]


# Text


def test_one_bom_at_the_very_start_is_dropped() -> None:
    bom = b"\xef\xbb\xbf"
    assert data_of(bom + b"data: a\n\n") == ["a"]
    assert data_of(bom + bom + b"data: a\n\ndata: b\n\n") == ["b"]
    assert data_of(b"data: a\n\n" + bom + b"data: b\n\n") == ["a"]
    assert data_of(b"\n" + bom + b"data: a\n\n") == []


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    assert data_of(b"data: a\xffb\xe2\x82\n\n") == ["a\ufffdb\ufffd"]


# Fields


def test_a_block_without_data_is_no_event() -> None:
    assert decode(b"event: a\nid: 1\n\n: comment\n\n\n\n") == []


def test_an_empty_data_field_is_an_event() -> None:
    assert data_of(b"data\n\ndata:\n\ndata\ndata:\n\n") == ["", "", "\n"]


def test_one_leading_space_belongs_to_the_syntax_and_no_other() -> None:
    assert data_of(b"data:a\ndata: b\ndata:  c\ndata:\td\ndata: e \n\n") == ["a\nb\n c\n\td\ne "]


def test_colons_in_the_value_are_data() -> None:
    assert data_of(b"data: a:b: c\n\n") == ["a:b: c"]


def test_comments_unknown_fields_and_near_misses_are_ignored() -> None:
    assert data_of(b":data: x\nData: x\n data: x\ndata : x\ndat: x\ndatax\n:\ndata: a\n\n") == ["a"]


def test_the_name_is_for_one_event_and_the_last_given_counts() -> None:
    events = decode(b"event: a\nevent: b\ndata: 1\n\ndata: 2\n\nevent:\ndata: 3\n\nevent: c\n\ndata: 4\n\n")
    assert [event.event for event in events] == ["b", "message", "message", "message"]


def test_the_id_stays_until_another_is_given() -> None:
    decoder = SseDecoder(LIMIT, last_event_id="0")
    events = decode(b"data: a\n\nid: 1\ndata: b\n\ndata: c\n\nid: \xe2\x80\xa6\n\ndata: d\n\nid\ndata: e\n\n", decoder)
    assert [event.id for event in events] == ["0", "1", "1", "…", ""]
    assert decoder.last_event_id == ""


def test_an_id_with_nul_is_ignored() -> None:
    assert [event.id for event in decode(b"id: 1\nid: 2\x00\ndata: a\n\n")] == ["1"]


def test_the_id_counts_only_once_its_block_is_whole() -> None:
    decoder = SseDecoder(LIMIT)
    decode(b"id: 1\ndata: a\n\nid: 2\ndata: b\n", decoder)
    assert decoder.last_event_id == "1"
    decode(b"\n", decoder)
    assert decoder.last_event_id == "2"


@pytest.mark.parametrize(
    ("value", "retry_ms"),
    [
        (b"3000", 3000),
        (b"0", 0),
        (b"003000", 3000),
        (b"0" * 5000 + b"7", 7),
        (b"0" * 5000, 0),
        (b"", None),
        (b"-1", None),
        (b"+1", None),
        (b"1.5", None),
        (b"1e3", None),
        (b"1_000", None),
        (b" 5", None),
        (b"5 ", None),
        ("٣".encode(), None),
        ("²".encode(), None),
        (b"9" * 5000, None),
    ],
)
def test_retry_is_taken_only_from_ascii_digits(value: bytes, retry_ms: int | None) -> None:
    decoder = SseDecoder(LIMIT)
    decode(b"retry: " + value + b"\n", decoder)
    assert decoder.retry_ms == retry_ms


def test_a_bad_retry_leaves_the_good_one() -> None:
    decoder = SseDecoder(LIMIT)
    decode(b"retry: 10\nretry: 20x\n", decoder)
    assert decoder.retry_ms == 10


# Limits


@pytest.mark.parametrize(
    "wire",
    [
        b"data: " + b"x" * 200,
        b"data: " + b"x" * 200 + b"\n\n",
        b"data: x\n" * 30,
        b":" + b"x" * 200,
        b"unknown: x\n" * 30,
        b"data: " + b"x" * 60 + b"\ndata: " + b"x" * 60,
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_block_over_the_limit_ends_it(wire: bytes, size: int) -> None:
    decoder = SseDecoder(100)
    chunks = (wire[at : at + size] for at in range(0, len(wire), size))
    with pytest.raises(EventTooLarge):
        list(chain.from_iterable(map(decoder.feed, chunks)))


def test_many_small_blocks_and_comments_are_no_large_one() -> None:
    decoder = SseDecoder(100)
    for _ in range(50):
        decode(b"data: " + b"x" * 50 + b"\n\n" + b": " + b"y" * 50 + b"\n", decoder)


def test_the_limit_tells_which_event_it_was_where_that_is_known() -> None:
    with pytest.raises(EventTooLarge) as known:
        decode(b"id: 7\nevent: big\ndata: " + b"x" * 100, SseDecoder(100, "6"))
    assert (known.value.event, known.value.event_id) == ("big", "7")
    with pytest.raises(EventTooLarge) as unknown:
        decode(b"id: 7\ndata: a\n\ndata: " + b"x" * 100, SseDecoder(100, "6"))
    assert (unknown.value.event, unknown.value.event_id) == ("message", None)


@pytest.mark.parametrize("more", [b"x" * 5000, b"x" * 5000 + b"\n\n", b"\ndata: " + b"x" * 5000])
def test_the_limit_gives_the_beginning_of_the_data(more: bytes) -> None:
    with pytest.raises(EventTooLarge) as error:
        decode(b'id: 7\ndata: {"tool_id": "t1",' + more, SseDecoder(5000))
    assert error.value.start.startswith('{"tool_id": "t1",')
    assert len(error.value.start) <= 4096
    with pytest.raises(EventTooLarge) as other:
        decode(b"unknown: " + b"x" * 5000, SseDecoder(5000))
    assert other.value.start == ""


# Chunking

_piece = st.sampled_from(
    [b"\r", b"\n", b"\r\n", b"\n\n", b"data", b"data:", b"data: x", b":", b" ", b"id: 1", b"id", b"event: e",
     b"retry: 5", b"\x00", b"\xef\xbb\xbf", "…".encode(), b"\xff", b"\xe2", b"{}"]
)  # fmt: skip


@given(st.lists(_piece, max_size=40), st.data())
def test_the_same_bytes_give_the_same_events_whatever_the_chunking(pieces: list[bytes], data: st.DataObject) -> None:
    wire = b"".join(pieces)
    whole = SseDecoder(LIMIT)
    expected = decode(wire, whole)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=12)))
    cut = SseDecoder(LIMIT)
    events = [
        event for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True) for event in cut.feed(wire[start:end])
    ]
    assert events == expected
    assert (cut.last_event_id, cut.retry_ms) == (whole.last_event_id, whole.retry_ms)
    by_byte = SseDecoder(LIMIT)
    assert [event for byte in wire for event in by_byte.feed(bytes([byte]))] == expected


@given(st.binary(max_size=400))
def test_no_bytes_break_it(wire: bytes) -> None:
    decode(wire)
