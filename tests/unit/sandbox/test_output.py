"""Bounded output: beginning, end, and an honest count between."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from client_agent.sandbox.output import LIVE_BYTES_PER_S, Capture, Live, texts

MARKER = re.compile(r"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n")


def captured(data: bytes, keep: int = 100, chunk: int = 7) -> Capture:
    capture = Capture(keep, None, 0)
    for start in range(0, len(data), chunk):
        capture.feed(memoryview(data)[start : start + chunk])
    return capture


def test_what_fits_is_kept_whole() -> None:
    assert captured(b"x" * 100).text(100) == "x" * 100


def test_what_does_not_fit_keeps_beginning_and_end_and_says_how_much_is_missing() -> None:
    data = b"begin" + b"-" * 1000 + b"end"
    text = captured(data).text(100)
    found = MARKER.search(text)
    assert found is not None
    assert text.startswith("begin")
    assert text.endswith("end")
    assert len(MARKER.sub("", text)) + int(found.group(1)) == len(data)


def test_a_cut_never_falls_inside_a_character() -> None:
    for shift in range(4):
        text = captured(b"a" * shift + "€".encode() * 500).text(100)
        assert "\N{REPLACEMENT CHARACTER}" not in text


def test_bytes_that_are_not_text_are_replaced() -> None:
    assert captured(b"a\xff\xfeb").text(100) == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b"


@given(st.binary(max_size=600), st.integers(1, 50), st.integers(60, 400))
def test_the_limit_holds_whatever_is_written_and_however_it_arrives(data: bytes, chunk: int, limit: int) -> None:
    text = captured(data, keep=limit, chunk=chunk).text(limit)
    assert len(text.encode()) <= limit
    if len(data) <= limit and len(data.decode("utf-8", "replace").encode()) <= limit:
        assert text == data.decode("utf-8", "replace")


@given(st.text(max_size=300), st.integers(1, 20))
def test_text_in_any_chunks_keeps_its_beginning_and_its_end(text: str, chunk: int) -> None:
    shown = captured(text.encode(), keep=200, chunk=chunk).text(200)
    found = MARKER.search(shown)
    if found is None:
        assert shown == text
    else:
        beginning, end = shown[: found.start()], shown[found.end() :]
        assert text.startswith(beginning)
        assert text.endswith(end)
        assert len(beginning.encode()) + len(end.encode()) + int(found.group(1)) == len(text.encode())


@given(st.binary(max_size=400), st.binary(max_size=400))
def test_two_streams_share_one_limit(first: bytes, second: bytes) -> None:
    shown = texts(captured(first, keep=200), captured(second, keep=200), 200)
    assert sum(len(text.encode()) for text in shown) <= 200


def test_a_short_stream_leaves_its_room_to_the_other() -> None:
    first, second = texts(captured(b"x" * 150, keep=200), captured(b"y" * 40, keep=200), 200)
    assert (first, second) == ("x" * 150, "y" * 40)


def test_a_spool_is_written_only_when_it_is_needed_and_then_whole(tmp_path: Path) -> None:
    data = bytes(range(256)) * 2
    capture = Capture(100, tmp_path / "made" / "spool", 10_000)
    capture.feed(memoryview(data[:100]))
    assert (capture.spool_path, list(tmp_path.iterdir())) == (None, [])
    for start in range(100, len(data), 30):
        capture.feed(memoryview(data)[start : start + 30])
    capture.close()
    assert (tmp_path / "made" / "spool").read_bytes() == data


def test_a_spool_never_writes_over_a_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("mine")
    capture = Capture(10, tmp_path / "spool", 10_000)
    capture.feed(memoryview(b"x" * 50))
    assert (tmp_path / "spool").read_text() == "mine"
    assert capture.spool_path is None
    assert "bytes left out" in captured(b"x" * 500).text(100)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_live_output_comes_in_whole_characters() -> None:
    said: list[tuple[str, str]] = []
    live = Live(lambda stream, text: said.append((stream, text)), Clock())
    for byte in "a€🦀".encode():
        live.feed("stdout", memoryview(bytes([byte])))
    assert [text for _, text in said if text] == ["a", "€", "🦀"]


def test_a_flood_is_cut_and_said_to_be() -> None:
    said: list[str] = []
    clock = Clock()
    live = Live(lambda _, text: said.append(text), clock)
    flood = memoryview(b"x" * LIVE_BYTES_PER_S)
    live.feed("stdout", flood)
    live.feed("stdout", flood)
    clock.now = 10.0
    live.feed("stdout", memoryview(b"after"))
    assert said[1:] == [f"\n[... {LIVE_BYTES_PER_S} bytes left out ...]\nafter"]
