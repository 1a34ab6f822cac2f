"""Server-sent events from bytes, by the WHATWG rules, whatever the chunking. No I/O.

Lines end at CR, LF or CRLF and nowhere else (U+2028 and friends are data); the text is UTF-8 whatever the header says;
one leading BOM is dropped; a block cut off by the end of the stream is dropped, its id with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")
_MAX_RETRY_DIGITS = 9
_START_BYTES = 4_096  # of an event that is too large


class SseEvent(msgspec.Struct, frozen=True):
    """One dispatched event."""

    event: str
    data: str
    id: str


class EventTooLarge(Exception):
    """The stream holds an event over the limit: the connection cannot be used further.

    `event_id` is the event's own id where it was read before the limit, so that a reconnect can pass the event by.
    `start` is the beginning of its data.
    """

    def __init__(self, event: str, event_id: str | None, start: str) -> None:
        super().__init__(event, event_id)
        self.event = event
        self.event_id = event_id
        self.start = start


class SseDecoder:
    """Feed it bytes, get events. `last_event_id` and `retry_ms` are what a reconnect must use."""

    def __init__(self, max_event_bytes: int, last_event_id: str = "") -> None:
        self.last_event_id = last_event_id
        self.retry_ms: int | None = None
        self._max_event_bytes = max_event_bytes
        self._pending = bytearray()  # the unfinished line; not a list of its pieces, which may be a byte each
        self._block_bytes = 0
        self._at_start = True
        self._after_cr = False
        self._reset_block()
        self._id = last_event_id

    def _reset_block(self) -> None:
        self._event = ""
        self._data: list[str] = []
        self._own_id: str | None = None  # given in this very block
        self._block_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        """The events completed by this chunk. Raises EventTooLarge."""
        for line in self._lines(chunk):
            event = self._take_line(line)
            if event is not None:
                yield event

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):  # the second half of a CRLF cut in two
                chunk = chunk[1:]
        if not chunk:
            return
        if chunk.endswith(b"\r"):
            self._after_cr = True
        parts = chunk.split(b"\n") if b"\r" not in chunk else _LINE_END.split(chunk)
        last = parts.pop()
        if parts and self._pending:
            self._pending += parts[0]
            parts[0] = bytes(self._pending)
            self._pending = bytearray()
        for line in parts:
            yield self._without_bom(line)
        if last:
            self._pending += last
            if self._block_bytes + len(self._pending) > self._max_event_bytes:
                raise self._too_large(self._pending)

    def _without_bom(self, line: bytes) -> bytes:
        if self._at_start:
            self._at_start = False
            return line.removeprefix(_BOM)
        return line

    def _take_line(self, line: bytes) -> SseEvent | None:
        if not line:
            return self._dispatch()
        if line.startswith(b":"):
            return None
        self._block_bytes += len(line)
        if self._block_bytes > self._max_event_bytes:
            raise self._too_large(line)
        field, _, value = line.partition(b":")
        self._take_field(field, value.removeprefix(b" ").decode("utf-8", "replace"))
        return None

    def _take_field(self, field: bytes, value: str) -> None:
        match field:
            case b"data":
                self._data.append(value)
            case b"event":
                self._event = value
            case b"id":
                if "\0" not in value:
                    self._id = self._own_id = value
            case b"retry":
                digits = value.lstrip("0") or "0"  # `int` refuses thousands of digits, even of zeros
                if value.isascii() and value.isdigit() and len(digits) <= _MAX_RETRY_DIGITS:
                    self.retry_ms = int(digits)

    def _dispatch(self) -> SseEvent | None:
        self.last_event_id = self._id
        event = SseEvent(self._event or "message", "\n".join(self._data), self._id) if self._data else None
        self._reset_block()
        return event

    def _too_large(self, line: bytes | bytearray) -> EventTooLarge:
        """`line` is the one that went over the limit, with its end or without."""
        field, _, value = bytes(line[:_START_BYTES]).partition(b":")
        start = value.removeprefix(b" ").decode("utf-8", "replace") if field == b"data" else ""
        return EventTooLarge(
            self._event or "message", self._own_id, self._data[0][:_START_BYTES] if self._data else start
        )
