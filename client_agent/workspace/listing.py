"""Listing directories, nearest first, no further than asked.

The walk goes level by level and stops as soon as it has one entry more than may be returned, so that the first thousand
of a million cost a thousand. What is returned is in order of path; which entries those are, when there are more, is up
to the order in which the file system gives them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from enum import Enum, StrEnum
from typing import Protocol

import msgspec

from client_agent.policy.decision import PathKind
from client_agent.workspace.directory import Directory
from client_agent.workspace.pattern import Pattern, States
from client_agent.workspace.place import kind_of

MAX_LEVELS = 256  # below the root; whatever lies deeper counts as unreadable
_VANISHED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Depth(Enum):
    ONE = "one"
    ALL = "all"


class EntryType(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"  # leads out of the workspace, to nothing, or to something protected: not followed
    OTHER = "other"  # device, FIFO, socket


_TYPES = {
    PathKind.FILE: EntryType.FILE,
    PathKind.DIRECTORY: EntryType.DIRECTORY,
    PathKind.SPECIAL: EntryType.OTHER,
}


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One name in a directory. A link that stays inside is shown as what it leads to."""

    path: str
    name: str
    type: EntryType
    size: int
    modified_ns: int


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    relative: str
    entries: list[Entry]
    truncated: bool
    unreadable: int  # entries and directories that could not be looked at


class Ground(Protocol):
    """What a listing needs of the root."""

    def enter(self, relative: str) -> Directory: ...
    def follow(self, relative: str) -> os.stat_result | None: ...
    def is_protected(self, relative: str) -> bool: ...


def list_tree(ground: Ground, relative: str, pattern: Pattern, depth: Depth, max_entries: int) -> Listing:
    """The matching entries below this directory. Raises OSError when the directory itself cannot be read."""
    survey = _Survey(ground, pattern, depth, max_entries + 1)
    prefix = "" if relative == "." else relative + "/"
    survey.scan(relative, prefix, pattern.start)
    while survey.waiting and len(survey.found) <= max_entries:
        survey.scan_next()
    entries = survey.found[:max_entries]
    entries.sort(key=lambda entry: entry.path)
    return Listing(
        relative=relative,
        entries=entries,
        truncated=len(survey.found) > max_entries,
        unreadable=survey.unreadable,
    )


class _Survey:
    def __init__(self, ground: Ground, pattern: Pattern, depth: Depth, enough: int) -> None:
        self._ground = ground
        self._pattern = pattern
        self._depth = depth
        self._enough = enough
        self.found: list[Entry] = []
        self.waiting: deque[tuple[str, str, States]] = deque()  # directories: path, name, what led there
        self.unreadable = 0

    def scan_next(self) -> None:
        """Scans one directory that was met on the way; one that is gone meanwhile is no longer part of the tree.

        Only now is it judged: most of those met in a large tree never have their turn.
        """
        relative, name, states = self.waiting.popleft()
        below = self._pattern.descend(states, name)
        if not below or self._ground.is_protected(relative):
            return
        if relative.count("/") >= MAX_LEVELS:
            self.unreadable += 1
            return
        try:
            self.scan(relative, relative + "/", below)
        except OSError as error:
            if error.errno in _EXHAUSTED:
                raise
            if error.errno not in _VANISHED:
                self.unreadable += 1

    def scan(self, relative: str, prefix: str, states: States) -> None:
        directory = self._ground.enter(relative)
        try:
            with directory.scan() as entries:
                self._take(entries, prefix, states)
        finally:
            directory.close()

    def _take(self, entries: Iterator[os.DirEntry[str]], prefix: str, states: States) -> None:
        accepts = self._pattern.accepts(states)
        deep = self._depth is Depth.ALL
        found, enough = self.found, self._enough
        for entry in entries:
            name = entry.name
            if deep and entry.is_dir(follow_symlinks=False):
                self.waiting.append((prefix + name, name, states))
            if accepts(name):
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError as error:
                    self.unreadable += error.errno not in _VANISHED
                    continue
                found.append(self._describe(prefix + name, name, status))
                if len(found) >= enough:
                    return

    def _describe(self, path: str, name: str, status: os.stat_result) -> Entry:
        if stat.S_ISREG(status.st_mode):
            kind = EntryType.FILE
        elif stat.S_ISDIR(status.st_mode):
            kind = EntryType.DIRECTORY
        elif stat.S_ISLNK(status.st_mode):
            target = self._ground.follow(path)
            kind = EntryType.SYMLINK if target is None else _TYPES[kind_of(target)]
            status = target or status
        else:
            kind = _TYPES[kind_of(status)]
        if not path.isascii():
            path, name = _make_visible(path), _make_visible(name)
        return Entry(path, name, kind, status.st_size, status.st_mtime_ns)


def _make_visible(name: str) -> str:
    r"""The name as valid text: bytes that are none, which Python keeps as lone surrogates, become `\xNN`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
