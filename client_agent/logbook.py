"""The daemon's own log: one JSON object a line in the state directory, for this user alone, and a few files at most.

Nothing is written as it came: what looks like a secret is masked, and what could trick a terminal is spelled out.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
import traceback
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO

import msgspec

from client_agent.approvals.honest import reveal
from client_agent.protocol.masking import MAX_TEXT_CHARS, mask_text

LOG_FILE = "daemon.jsonl"
MAX_FILE_BYTES = 2_000_000
KEPT_FILES = 4  # beside the one that is written
MAX_TRACE_LINES = 100
LEVELS = ("debug", "info", "warning", "error")
_FOLLOW_S = 0.2

# Whose work is being done: set by each workspace for everything it starts.
workspace: ContextVar[str] = ContextVar("workspace", default="")


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happened. `trace` is where in the program a fault showed itself."""

    time: datetime
    level: str
    message: str
    workspace: str = ""
    logger: str = ""
    trace: tuple[str, ...] = ()


def make_line(record: logging.LogRecord) -> Line:
    """The record, fit to be kept and shown."""
    trace: list[str] = []
    if record.exc_info and record.exc_info[1] is not None:
        trace = "".join(traceback.format_exception(record.exc_info[1])).rstrip().split("\n")[-MAX_TRACE_LINES:]
    return Line(
        time=datetime.fromtimestamp(record.created, UTC),
        level=record.levelname.lower(),
        message=_fit(record.getMessage()),
        workspace=workspace.get(),
        logger=record.name,
        trace=tuple(map(_fit, trace)),
    )


def _fit(text: str) -> str:
    cut = text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 1]}…"
    return reveal(mask_text(cut))


class _File(RotatingFileHandler):
    """Readable by this user alone. A full disk costs lines, and nothing else."""

    def _open(self) -> IO[str]:  # type: ignore[override]
        return open(self.baseFilename, self.mode, encoding="utf-8", opener=_open_private)

    def format(self, record: logging.LogRecord) -> str:
        return msgspec.json.encode(make_line(record)).decode()

    def shouldRollover(self, _record: logging.LogRecord) -> bool:  # noqa: N802 - logging's name
        """By what the file holds: to count this line as well it would have to be made twice."""
        try:
            return os.stat(self.baseFilename).st_size >= self.maxBytes  # noqa: PTH116 - it is a plain string
        except OSError:
            return False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        pass


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


@contextlib.contextmanager
def writing(state_dir: Path, level: str) -> Iterator[None]:
    """While this is open, what the program says from this level on is kept. The directory must be there."""
    handler = _File(state_dir / LOG_FILE, maxBytes=MAX_FILE_BYTES, backupCount=KEPT_FILES, delay=True)
    ours = logging.getLogger("client_agent")
    before = ours.level
    ours.addHandler(handler)
    try:
        listen_from(level)
        yield
    finally:
        ours.removeHandler(handler)
        ours.setLevel(before)
        handler.close()


def listen_from(level: str) -> None:
    """The least level that is kept from now on."""
    ours = logging.getLogger("client_agent")
    number = logging.getLevelNamesMapping()[level.upper()]
    for handler in ours.handlers:
        if isinstance(handler, _File):
            handler.setLevel(number)
    ours.setLevel(min(number, logging.getLogger().getEffectiveLevel()))


class Reader:
    """What is kept, and then what comes, with nothing lost or doubled in between."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / LOG_FILE
        self._file = _try_open(self._path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def past(self) -> Iterator[Line]:
        """All that is kept, oldest first. What cannot be read as a line is passed by."""
        for number in range(KEPT_FILES, 0, -1):
            if (file := _try_open(self._path.with_name(f"{LOG_FILE}.{number}"))) is not None:
                with file:
                    yield from filter(None, map(_parse, file))
        while (line := self._next()) is not None:
            yield from filter(None, [_parse(line)])

    def coming(self) -> Iterator[Line]:
        """What is written from there on, for ever, across rotations."""
        while True:
            if (line := self._next()) is not None:
                yield from filter(None, [_parse(line)])
            elif not self._turn_over():
                time.sleep(_FOLLOW_S)

    def _next(self) -> bytes | None:
        """The next whole line; None when there is none yet."""
        if self._file is None:
            return None
        line = self._file.readline()
        if line.endswith(b"\n"):
            return line
        self._file.seek(-len(line), os.SEEK_CUR)
        return None

    def _turn_over(self) -> bool:
        """Whether another file is written by now, and read from its beginning."""
        try:
            now = self._path.stat()
        except FileNotFoundError:
            return False
        if self._file is not None and os.path.samestat(os.fstat(self._file.fileno()), now):
            return False
        self.close()
        self._file = _try_open(self._path)
        return True


def _try_open(path: Path) -> IO[bytes] | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _parse(raw: bytes) -> Line | None:
    try:
        return msgspec.json.decode(raw, type=Line)
    except msgspec.MsgspecError:
        return None
