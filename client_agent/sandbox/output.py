"""What a command writes: read as it comes, kept in bounded memory, shown as valid text."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

OnOutput: TypeAlias = Callable[[str, str], None]  # stream name, text

LIVE_BYTES_PER_S = 256 * 1024
_CONTINUATION = range(0x80, 0xC0)
_LONGEST_CHARACTER = 4
_SIZE_BY_FIRST = ((0xF0, 4), (0xE0, 3), (0xC0, 2))  # how many bytes a character has, by its first


class Capture:
    """One stream: its beginning and its end in memory, all of it (up to a bound) in a file once that is not enough."""

    def __init__(self, keep_bytes: int, spool: Path | None, spool_bytes: int) -> None:
        self.total_bytes = 0
        self.spool_path: Path | None = None
        self._head_max = keep_bytes // 2
        self._tail_max = keep_bytes - self._head_max
        self._head = bytearray()
        self._tail = bytearray()  # a ring once it is full
        self._tail_start = 0
        self._spool = spool
        self._spool_left = spool_bytes
        self._spool_fd = -1

    def feed(self, data: memoryview) -> None:
        if self._spool is not None and self.total_bytes + len(data) > self._head_max + self._tail_max:
            self._write_spool(self._spool, data)
        self.total_bytes += len(data)
        room = self._head_max - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) > 0:
            self._feed_tail(data)

    def _feed_tail(self, data: memoryview) -> None:
        if len(data) >= self._tail_max:
            self._tail[:] = data[len(data) - self._tail_max :]
            self._tail_start = 0
            return
        room = self._tail_max - len(self._tail)
        if room > 0:
            self._tail += data[:room]
            data = data[room:]
        first = min(len(data), self._tail_max - self._tail_start)
        self._tail[self._tail_start : self._tail_start + first] = data[:first]
        self._tail[: len(data) - first] = data[first:]
        if len(data) > 0:
            self._tail_start = (self._tail_start + len(data)) % self._tail_max

    def _write_spool(self, path: Path, data: memoryview) -> None:
        """Whatever is wrong with the disk ends the spool, not the command."""
        try:
            if self._spool_fd < 0 and self.spool_path is None:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
                self._spool_fd = os.open(path, flags, 0o600)
                self.spool_path = path
                self._append_spool(memoryview(bytes(self._head) + self._ordered_tail()))
            self._append_spool(data)
        except OSError:
            self._spool = None
            self.close()

    def _append_spool(self, data: memoryview) -> None:
        if self._spool_fd >= 0:
            self._spool_left -= os.write(self._spool_fd, data[: self._spool_left])
            if self._spool_left <= 0:
                self.close()

    def _ordered_tail(self) -> bytes:
        ring = memoryview(self._tail)
        return b"".join((ring[self._tail_start :], ring[: self._tail_start]))

    def copy(self) -> Capture:
        """What is kept by now, without the spool."""
        other = Capture(self._head_max + self._tail_max, None, 0)
        other.total_bytes, other._tail_start = self.total_bytes, self._tail_start
        other._head, other._tail = bytearray(self._head), bytearray(self._tail)
        return other

    def close(self) -> None:
        if self._spool_fd >= 0:
            os.close(self._spool_fd)
            self._spool_fd = -1

    def text(self, max_bytes: int) -> str:
        """What was written, as at most so many bytes of UTF-8: whole, or beginning and end with a note between.

        Gives up what is kept, piece by piece, so that hardly more memory is needed than the text takes.
        """
        if len(self._head) + len(self._tail) == self.total_bytes:
            return self._contiguous_text(max_bytes)
        room = max(0, max_bytes - len(_marker(self.total_bytes)))
        beginning, head_bytes = _fit_head(self._head, room // 2)
        self._head = bytearray()
        tail = self._ordered_tail()
        self._tail = bytearray()
        end, tail_bytes = _fit_tail(tail, room - room // 2)
        del tail
        return f"{beginning}{_marker(self.total_bytes - head_bytes - tail_bytes)}{end}"

    def _contiguous_text(self, max_bytes: int) -> str:
        """The same where nothing has been dropped: only the text itself may be too long."""
        data = bytes(self._head) + self._ordered_tail()
        if len(data) <= max_bytes:
            text = data.decode("utf-8", "replace")
            if _size(text) <= max_bytes:
                return text
        room = max(0, max_bytes - len(_marker(len(data))))
        beginning, head_bytes = _fit_head(data, room // 2)
        end, tail_bytes = _fit_tail(data[head_bytes:], room - room // 2)
        return f"{beginning}{_marker(len(data) - head_bytes - tail_bytes)}{end}"


def texts(stdout: Capture, stderr: Capture, max_bytes: int) -> tuple[str, str]:
    """Both streams within one limit: what a short one leaves goes to the other."""
    first = stdout.text(max_bytes - min(stderr.total_bytes, max_bytes // 2))
    return first, stderr.text(max_bytes - _size(first))


def _marker(missing_bytes: int) -> str:
    return f"\n[... {missing_bytes} bytes left out ...]\n"


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _fit_head(data: bytes | bytearray, room: int) -> tuple[str, int]:
    """The longest beginning that fits when decoded, and how many bytes of the data it stands for."""
    take = min(len(data), room)
    while True:
        end = _whole_characters(data, take)
        text = str(memoryview(data)[:end], "utf-8", "replace")
        size = _size(text)
        if size <= room:
            return text, end
        take = min(end - 1, end * room // size)  # bytes that are not UTF-8 grow when they are replaced


def _fit_tail(data: bytes, room: int) -> tuple[str, int]:
    """The same from the end."""
    take = min(len(data), room)
    while True:
        start = len(data) - take
        for _ in range(_LONGEST_CHARACTER - 1):
            if 0 < start < len(data) and data[start] in _CONTINUATION:
                start += 1
        text = str(memoryview(data)[start:], "utf-8", "replace")
        size = _size(text)
        if size <= room:
            return text, len(data) - start
        take = min(take - 1, take * room // size)


def _whole_characters(data: bytes | bytearray, end: int) -> int:
    """The given end, or a little before it when it would fall inside a character."""
    if end >= len(data) or data[end] not in _CONTINUATION:
        return end
    for back in range(1, _LONGEST_CHARACTER):
        if end - back >= 0 and data[end - back] not in _CONTINUATION:
            return end - back
    return end  # not UTF-8 at all


class Live:
    """Passes output on as it comes. A flood is cut, and said to be: a listener never holds a command up."""

    def __init__(self, listener: OnOutput, clock: Callable[[], float]) -> None:
        self._listener: OnOutput | None = listener
        self._clock = clock
        self._pending = {"stdout": b"", "stderr": b""}
        self._allowance = float(LIVE_BYTES_PER_S)
        self._refilled = clock()
        self._dropped = 0

    def feed(self, stream: str, data: memoryview) -> None:
        now = self._clock()
        self._allowance = min(LIVE_BYTES_PER_S, self._allowance + (now - self._refilled) * LIVE_BYTES_PER_S)
        self._refilled = now
        if len(data) > self._allowance:
            self._dropped += len(data)
            return
        self._allowance -= len(data)
        joined = self._pending[stream] + bytes(data)
        end = len(joined)
        while end > 0 and len(joined) - end < _LONGEST_CHARACTER and _is_unfinished(joined, end):
            end -= 1
        self._pending[stream] = joined[end:]
        self._say(stream, joined[:end].decode("utf-8", "replace"))

    def _say(self, stream: str, text: str) -> None:
        if self._listener is None:
            return
        if self._dropped:
            text = _marker(self._dropped) + text
            self._dropped = 0
        try:
            self._listener(stream, text)
        except Exception:  # noqa: BLE001 - whatever is wrong with a listener, the command goes on without it
            self._listener = None


def _is_unfinished(data: bytes, end: int) -> bool:
    """Whether the data up to `end` ends inside a character that more data may complete."""
    for back in range(1, min(_LONGEST_CHARACTER, end) + 1):
        byte = data[end - back]
        if byte not in _CONTINUATION:
            return back < next((size for first, size in _SIZE_BY_FIRST if byte >= first), 1)
    return False
