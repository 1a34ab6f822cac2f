"""Is the audit log what was written? Follows the chain through all files and names the first entry that breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from client_agent.journal.audit import KEPT_FILES, NO_HASH, Head, unchain
from client_agent.journal.database import translating


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome. `problem` is None when nothing was changed, removed or put in; then `torn` may still be said."""

    entries: int
    first_sequence: int | None  # greater than 1 when older files were rotated away
    last: Head | None
    problem: str | None = None
    file: str | None = None  # where the problem is
    line: int | None = None
    torn: str | None = None  # a crash cut the last line off: nothing that was promised is lost with it


class _Broken(Exception):
    def __init__(self, problem: str, file: Path | None = None, line: int | None = None) -> None:
        super().__init__(problem)
        self.problem, self.file, self.line = problem, file, line


def verify(directory: Path, recorded: Head | None = None) -> Verification:
    """Check the log in this directory, against where the journal says that it stood. Raises JournalError."""
    walk = _Walk(recorded)
    broken: _Broken | None = None
    with translating(directory):
        try:
            walk.follow(directory)
        except _Broken as error:
            broken = error
    return Verification(
        entries=walk.entries,
        first_sequence=walk.first_sequence,
        last=walk.last,
        problem=broken.problem if broken else None,
        file=broken.file.name if broken and broken.file else None,
        line=broken.line if broken else None,
        torn=walk.torn,
    )


class _Walk:
    def __init__(self, recorded: Head | None) -> None:
        self.entries = 0
        self.first_sequence: int | None = None
        self.last: Head | None = None
        self.torn: str | None = None
        self._recorded = recorded

    def follow(self, directory: Path) -> None:
        files = [*sorted(directory.glob("audit-*.jsonl")), directory / "audit.jsonl"]
        for path in files:
            if path.exists():
                self._follow_file(path, may_be_torn=path is files[-1])
        self._check_ends(rotated=len(files) - 1)

    def _check_ends(self, rotated: int) -> None:
        """Nothing is missing before the first entry, unless whole files were dropped, and nothing after the last."""
        if self.first_sequence is not None and self.first_sequence > 1 and rotated < KEPT_FILES:
            raise _Broken(f"the log begins with entry {self.first_sequence}: the entries before it are gone")
        recorded = self._recorded
        if recorded is not None and (self.last is None or self.last.sequence < recorded.sequence):
            end = self.last.sequence if self.last else 0
            raise _Broken(
                f"the log ends with entry {end}, but the journal knows of {recorded.sequence}: the end is gone"
            )

    def _follow_file(self, path: Path, *, may_be_torn: bool) -> None:
        for number, line in enumerate(_lines(path), start=1):
            if not line.endswith(b"\n"):
                if not may_be_torn:
                    raise _Broken("the file ends in the middle of an entry", path, number)
                self.torn = f"{path.name} ends in the middle of an entry, as after a crash"
                return
            problem = self._take(line[:-1])
            if problem is not None:
                raise _Broken(problem, path, number)

    def _take(self, line: bytes) -> str | None:
        place = unchain(line)
        expected = self.last.sequence + 1 if self.last else None
        if place is None:
            return f"entry {expected or 'at the start'} was changed"
        head, follows = place
        if expected is not None and head.sequence != expected:
            return f"entry {head.sequence} stands where entry {expected} belongs"
        before = self.last.hash if self.last else NO_HASH if head.sequence == 1 else follows
        if follows != before:
            return f"entry {head.sequence} does not follow the entry before it"
        if self._recorded is not None and head.sequence == self._recorded.sequence and head != self._recorded:
            return f"entry {head.sequence} is not the one that the journal knows"
        self.last = head
        self.entries += 1
        if self.first_sequence is None:
            self.first_sequence = head.sequence
        return None


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file
