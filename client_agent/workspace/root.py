"""One workspace root: the only door to its files."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from client_agent.errors import CallError, MissingFile, SystemRefused, WrongKind
from client_agent.policy.decision import PathFacts, PathKind, Reason
from client_agent.policy.paths import Protection, spelling_problem
from client_agent.workspace import listing, reading, removing, writing
from client_agent.workspace.directory import Directory
from client_agent.workspace.failures import explain, leads_outside, os_error, refuse, show
from client_agent.workspace.listing import Depth, Listing
from client_agent.workspace.pattern import Pattern
from client_agent.workspace.place import Finder, Place, kind_of
from client_agent.workspace.reading import FileBytes
from client_agent.workspace.walk import Spot, walk
from client_agent.workspace.writing import Judge, Keeper, Parents, WriteMode, Written

INLINE_MAX_BYTES: Final = 2_097_152  # what is read without leaving the event loop: sooner done than handed over
_LOCKS = 64
# A call is carried out in the moment that it was decided in, or looked up again.
_KEPT_S = 0.01


class NotCached(Exception):
    """The answer may need a disk: ask again in a thread, with the method that waits."""


class _Kept(NamedTuple):
    path: str
    place: Place
    at: float


class Root:
    """An open workspace. Every method may be called from any thread, until `close`.

    Paths are relative to the root, or absolute inside it. What cannot be done raises a CallError.
    """

    def __init__(self, path: Path, protection: Protection) -> None:
        self._directory, self.real_path = Directory.open_root(path)
        self.protection = protection
        spellings = {str(path), self.real_path} if path.is_absolute() else {self.real_path}
        self._bases = [_parts(os.path.normcase(spelling)) for spelling in spellings]
        self._write_locks = [threading.Lock() for _ in range(_LOCKS)]
        self._kept: _Kept | None = None
        self._finder = _open_finder(self._directory, self.real_path)

    @property
    def fd(self) -> int:
        """The root's own descriptor."""
        return self._directory.fd

    def close(self) -> None:
        """Ends the use of this root. No call may be under way."""
        self._directory.close()
        self._keep(None)
        if self._finder is not None:
            self._finder.close()

    def inspect(self, path: str) -> PathFacts:
        """What is at this path, without opening it for its content. A path that may not be used is a fact too."""
        try:
            with self._find(self._enter_text(path)) as place:
                return self._facts(path, place)
        except CallError as error:
            return _refused_facts(path, error)
        except OSError as error:
            return _refused_facts(path, explain(error, path))

    def inspect_cached(self, path: str) -> PathFacts:
        """As `inspect`, but raises NotCached instead of ever waiting for a disk."""
        try:
            place = self._find_cached(self._enter_text(path))
        except CallError as error:
            return _refused_facts(path, error)
        self._keep(_Kept(path, place, time.monotonic()))
        return self._facts(path, place)

    def read(self, path: str, max_bytes: int) -> FileBytes:
        """The whole content of a regular file, as long as it was when opened."""
        try:
            with self._find(self._enter_text(path)) as place:
                self._check_file(place, path, max_bytes)
                fd = place.open()
                try:
                    data, status = reading.read_file(fd, max_bytes, path)
                finally:
                    os.close(fd)
        except OSError as error:
            raise explain(error, path) from None
        return FileBytes(relative=place.relative, data=data, modified_ns=status.st_mtime_ns)

    def read_cached(self, path: str, max_bytes: int) -> FileBytes:
        """As `read`, but raises NotCached instead of ever waiting for a disk, and for files that are not small."""
        with self._take_kept(path) or self._find_cached(self._enter_text(path)) as place:
            status = self._check_file(place, path, max_bytes)
            if status.st_size > INLINE_MAX_BYTES:
                raise NotCached
            try:
                fd = place.open()
                try:
                    if os.fstat(fd).st_mtime_ns != status.st_mtime_ns:
                        raise NotCached  # written since it was looked at
                    data = reading.read_cached(fd, status.st_size)
                finally:
                    os.close(fd)
            except OSError:
                raise NotCached from None
        return FileBytes(relative=place.relative, data=data, modified_ns=status.st_mtime_ns)

    def write(
        self,
        path: str,
        data: bytes,
        *,
        mode: WriteMode = WriteMode.REPLACE,
        parents: Parents = Parents.REQUIRED,
        expected_hash: str | None = None,
        max_bytes: int,
        permissions: int | None = None,
        judge: Judge | None = None,
        keeper: Keeper | None = None,
    ) -> Written:
        """Replaces or extends a file in one step: whoever looks, at whatever moment, sees all of the old or of the new.

        `expected_hash` is the SHA-256 of the content that may be replaced, "" when there must be none. `judge` has the
        last word on the real path, links followed. `keeper` is given what is replaced before it is.
        """
        change = writing.Change(
            data=data,
            mode=mode,
            parents=parents,
            expected_hash=expected_hash,
            max_bytes=max_bytes,
            permissions=permissions,
        )
        writing.check_size(len(data), max_bytes, path)
        with self._changing(path, judge) as spot:
            return writing.write(spot, change, path, keeper)

    def remove(
        self, path: str, *, expected_hash: str, judge: Judge | None = None, keeper: Keeper | None = None
    ) -> None:
        """Removes a file that holds this content, and no other."""
        with self._changing(path, judge) as spot:
            removing.remove(spot, expected_hash, path, keeper)

    def remove_directory(self, path: str) -> bool:
        """Removes a directory at this real path if it is empty; whether it did."""
        parent, _, name = path.rpartition("/")
        try:
            with self._changing(parent or ".", None) as spot:
                if spot.name is not None or spot.relative != (parent or "."):
                    return False
                self._enter_text(path)
                spot.directory.remove_directory(name)
                spot.directory.sync()
        except CallError:
            return False
        return True

    @contextmanager
    def _changing(self, path: str, judge: Judge | None) -> Iterator[Spot]:
        """Where something is about to change, judged, and nobody else of ours changing it meanwhile."""
        try:
            with self._walk(self._enter_text(path)) as spot:
                self._check(spot, path)
                if judge is not None and (reason := judge(spot.relative)) is not None:
                    raise refuse(reason, path)
                with self._write_locks[hash(spot.relative) % _LOCKS]:
                    yield spot
        except OSError as error:
            raise explain(error, path) from None

    def list(self, path: str, *, depth: Depth = Depth.ONE, pattern: str = "*", max_entries: int) -> Listing:
        """The entries of a directory that match, at most so many; see `listing`."""
        matcher = Pattern(pattern)
        try:
            with self._find(self._enter_text(path)) as place:
                self._check(place, path)
                if place.status is None:
                    raise _missing(path)
                if kind_of(place.status) is not PathKind.DIRECTORY:
                    raise WrongKind(f"{show(path)} is not a directory", code="not_a_directory", path=path)
            return listing.list_tree(self, place.relative, matcher, depth, max_entries)
        except OSError as error:
            raise explain(error, path) from None

    # What `listing` needs of its root.

    def enter(self, relative: str) -> Directory:
        """The directory at this real path, no part of which is a link. Raises OSError."""
        if self._finder is not None:
            return self._finder.enter(relative)
        spot = self._walk(relative)
        if spot.name is not None or spot.relative != relative:
            spot.close()
            raise os_error(errno.ENOTDIR)
        return spot.directory

    def follow(self, relative: str) -> os.stat_result | None:
        """What a link leads to; None when it leads out, nowhere, or to something protected."""
        try:
            with self._find(relative) as place:
                return None if self.is_protected(place.relative) else place.status
        except (CallError, OSError):
            return None

    def is_protected(self, relative: str) -> bool:
        return self.protection.find(relative) is not None

    # From text to an object, and what is said of it.

    def _enter_text(self, path: str) -> str:
        """The path relative to the root, judged by its text: the file system is not touched."""
        problem = spelling_problem(path) or Directory.spelling_problem(path)
        if problem is not None:
            raise refuse(problem, path)
        relative = self._below(path) if os.path.isabs(path) else path.replace(os.sep, "/")  # noqa: PTH117
        if relative is None:
            raise leads_outside(path)
        # A protected name stays so when it is a link to something else: `.env` often is.
        reason = self.protection.find(relative)
        if reason is not None:
            raise refuse(reason, path)
        return relative

    def _below(self, path: str) -> str | None:
        """The part of an absolute path below the root, by its text alone; None when it is not below."""
        parts = _parts(path)
        for base in self._bases:
            if [os.path.normcase(part) for part in parts[: len(base)]] == base:
                slash = "/" if path.endswith(("/", "/.")) else ""
                return "/".join(parts[len(base) :]) + slash if len(parts) > len(base) else "."
        return None

    def _find(self, relative: str) -> Place:
        if self._finder is not None:
            try:
                return self._finder.find(relative)
            except OSError:
                pass  # the walk finds what that cannot (an absolute link inside), or says what is wrong
        return self._walk(relative)

    def _find_cached(self, relative: str) -> Place:
        if self._finder is None:
            raise NotCached
        try:
            return self._finder.find_cached(relative)
        except OSError:
            raise NotCached from None

    def _keep(self, kept: _Kept | None) -> None:
        before, self._kept = self._kept, kept
        if before is not None:
            before.place.close()

    def _take_kept(self, path: str) -> Place | None:
        """The very object that was inspected for this path a moment ago."""
        kept, self._kept = self._kept, None
        if kept is None:
            return None
        if kept.path == path and time.monotonic() - kept.at < _KEPT_S:
            return kept.place
        kept.place.close()
        return None

    def _walk(self, relative: str) -> Spot:
        if not self._directory.is_still_at(self.real_path):
            raise SystemRefused(
                "the workspace root was moved, removed or replaced; restart client-agent", code="root_moved"
            )
        return walk(self._directory, relative, self._below)

    def _check(self, place: Place, path: str) -> None:
        reason = self.protection.find(place.relative)
        if reason is not None:
            raise refuse(reason, path)

    def _check_file(self, place: Place, path: str, max_bytes: int) -> os.stat_result:
        self._check(place, path)
        if place.status is None:
            raise _missing(path)
        reading.check_readable(place.status, max_bytes, path)
        return place.status

    def _facts(self, path: str, place: Place) -> PathFacts:
        kind = kind_of(place.status)
        return PathFacts(
            spelled=path,
            relative=place.relative,
            kind=kind,
            executable=kind is PathKind.FILE and place.status is not None and bool(place.status.st_mode & 0o111),
            refusal=self.protection.find(place.relative),
        )


def _open_finder(directory: Directory, real_path: str) -> Finder | None:
    """The fast way, where this system has it; without it the walk does everything."""
    if sys.platform == "linux":
        from client_agent.workspace.openat2 import Resolver

        with suppress(OSError):
            return Resolver(directory, real_path)
    return None


def _parts(path: str) -> list[str]:
    text = path.removeprefix("\\\\?\\").replace(os.sep, "/")  # how Windows spells some absolute links
    return [part for part in text.split("/") if part not in ("", ".")]


def _refused_facts(path: str, error: CallError) -> PathFacts:
    reason = Reason(error.code, error.message)
    return PathFacts(spelled=path, relative=None, kind=PathKind.MISSING, refusal=reason)


def _missing(path: str) -> MissingFile:
    return MissingFile(f"there is no {show(path)}", path=path)
