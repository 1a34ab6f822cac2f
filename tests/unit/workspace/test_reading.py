"""Reading, within bounds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from client_agent.errors import CallError, TooLarge
from client_agent.policy.paths import Protection
from client_agent.workspace import reading
from client_agent.workspace.root import INLINE_MAX_BYTES, NotCached, Root


def test_the_limit_is_kept_to_the_byte(root: Root, ws: Path) -> None:
    (ws / "f").write_bytes(b"x" * 100)
    assert len(root.read("f", 100).data) == 100
    with pytest.raises(TooLarge) as caught:
        root.read("f", 99)
    assert caught.value.details == {"path": "f", "size": 100, "limit": 99}


def test_a_huge_file_is_refused_without_being_read(root: Root, ws: Path) -> None:
    with open(ws / "sparse", "wb") as file:
        file.truncate(10**12)
    with pytest.raises(TooLarge):
        root.read("sparse", 100_000_000)


def test_an_empty_file_is_read(root: Root, ws: Path) -> None:
    (ws / "empty").touch()
    assert root.read("empty", 10).data == b""


def test_a_file_that_grows_while_read_gives_what_it_was(root: Root, ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ws / "log").write_bytes(b"a" * 10)
    read_piece = os.read

    def grow_then_read(fd: int, count: int) -> bytes:
        with open(ws / "log", "ab") as file:
            file.write(b"b" * 1000)
        return read_piece(fd, min(count, 4))

    monkeypatch.setattr(reading.os, "read", grow_then_read)
    assert root.read("log", 20).data == b"a" * 10


def test_a_file_that_shrinks_while_read_ends_early(root: Root, ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ws / "log").write_bytes(b"a" * 10)
    read_piece = os.read

    def shrink_then_read(fd: int, count: int) -> bytes:
        piece = read_piece(fd, min(count, 4))
        os.truncate(ws / "log", 4)
        return piece

    monkeypatch.setattr(reading.os, "read", shrink_then_read)
    assert root.read("log", 20).data == b"a" * 4


def test_a_small_file_in_memory_is_read_at_once(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ws / "f").write_bytes(b"here")
    root = Root(ws, Protection())
    monkeypatch.setattr(reading.os, "preadv", lambda fd, buffers, offset, flags: os.readv(fd, buffers))
    file = root.read_cached("f", 10)
    assert (file.data, file.relative, file.modified_ns) == (b"here", "f", (ws / "f").stat().st_mtime_ns)
    (ws / "empty").touch()
    assert root.read_cached("empty", 10).data == b""
    root.close()


def test_what_is_only_partly_in_memory_is_not_waited_for(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ws / "f").write_bytes(b"here and on the disk")
    root = Root(ws, Protection())
    flags_seen: list[int] = []

    def read_half(_fd: int, _buffers: list[bytearray], _offset: int, flags: int) -> int:
        flags_seen.append(flags)
        return 4

    monkeypatch.setattr(reading.os, "preadv", read_half)
    with pytest.raises(NotCached):
        root.read_cached("f", 100)
    assert flags_seen == [os.RWF_NOWAIT]
    root.close()


def test_a_large_file_is_left_to_a_thread(ws: Path) -> None:
    (ws / "f").write_bytes(b"x" * (INLINE_MAX_BYTES + 1))
    root = Root(ws, Protection())
    with pytest.raises(NotCached):
        root.read_cached("f", 10_000_000)
    root.close()


def test_reading_at_once_refuses_what_reading_refuses(ws: Path) -> None:
    (ws / "d").mkdir()
    (ws / "f").write_bytes(b"x" * 100)
    root = Root(ws, Protection())
    for path in (".env", "d", "f", "/etc/passwd"):
        with pytest.raises(CallError):
            root.read_cached(path, 10)
    root.close()


def test_what_was_inspected_a_moment_ago_is_what_is_read_at_once(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ws / "f").write_bytes(b"judged")
    (ws / "g").write_bytes(b"swapped")
    root = Root(ws, Protection())
    monkeypatch.setattr(reading.os, "preadv", lambda fd, buffers, offset, flags: os.readv(fd, buffers))
    now = [0.0]
    monkeypatch.setattr("client_agent.workspace.root.time.monotonic", lambda: now[0])
    root.inspect_cached("f")
    (ws / "g").replace(ws / "f")
    assert root.read_cached("f", 10).data == b"judged"
    assert root.read_cached("f", 10).data == b"swapped"  # once, and looked up again from then on
    (ws / "g").write_bytes(b"later")
    root.inspect_cached("f")
    (ws / "g").replace(ws / "f")
    now[0] = 1.0
    assert root.read_cached("f", 10).data == b"later"
    root.inspect_cached("f")
    (ws / "f").write_bytes(b"longer than before")
    os.utime(ws / "f", ns=(1, 1))
    with pytest.raises(NotCached):
        root.read_cached("f", 100)
    root.inspect_cached("f")
    (ws / "other").write_bytes(b"other")
    assert root.read_cached("other", 10).data == b"other"
    root.close()
