"""Which files of a workspace no command may see or change, known exactly at the moment a command starts.

The workspace is walked once. From then on inotify tells of every name that comes or goes: the kernel queues an event
before the call that caused it returns, so that an empty queue means that nothing has changed. A change of a protected
name counts even when the name stays, since a file put in another's place is not covered by what covered that one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

COMMON_DIRECTORY = "commondir"  # a file that tells git to take hooks and configuration from elsewhere
GUARDED_IN_GIT = ("hooks", "config", "config.worktree", COMMON_DIRECTORY)
WORKTREES = "worktrees"  # what a repository knows of its other worktrees: git follows it when it is called in one

_FROM, _TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED, _IS_DIRECTORY = 0x4000, 0x8000, 0x40000000
_ONLY_DIRECTORY, _NO_LINKS = 0x01000000, 0x02000000
_WATCHED = _FROM | _TO | _CREATE | _DELETE | _ONLY_DIRECTORY | _NO_LINKS
_EVENT = struct.Struct("iIII")
_QUEUE_BYTES = 1 << 16
_FIONREAD = 0x541B

IsProtected: TypeAlias = Callable[[str], Any]  # a path relative to the root → something true when it is protected


class ProtectedPaths:
    """The protected paths of one workspace, relative to its root, and the `.git` in it, wherever they are."""

    def __init__(self, root: Path, is_protected: IsProtected) -> None:
        self.hidden: set[str] = set()
        self.git: set[str] = set()
        self._root = root
        self._is_protected = is_protected
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._watches: dict[int, str] = {}
        self._fd = -1
        self._touched = False

    @property
    def has_news(self) -> bool:
        """Whether there is anything for `refresh` to do. One system call."""
        if self._fd < 0:
            return True
        waiting = ctypes.c_int(0)
        self._libc.ioctl(self._fd, ctypes.c_ulong(_FIONREAD), ctypes.byref(waiting))
        return waiting.value > 0

    def refresh(self) -> bool:
        """Takes in what has changed since the last look. True when what is protected is no longer the same."""
        before = (set(self.hidden), set(self.git))
        self._touched = False
        if self._fd < 0 or not self._take_events():
            self._scan()
        return self._touched or before != (self.hidden, self.git)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._watches = {}

    def _scan(self) -> None:
        """Walks the whole workspace and watches it. Where it cannot be watched, it is walked again each time."""
        self.close()
        self._touched = True
        self.hidden, self.git = set(), set()
        if hasattr(self._libc, "inotify_init1"):
            self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._walk("")

    def _walk(self, start: str) -> None:
        stack = [start]
        while stack:
            directory = stack.pop()
            self._watch(directory)
            try:
                with os.scandir(self._root / directory) as found:
                    entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
            except OSError:
                continue  # gone, or not even readable to us
            for name, is_directory in entries:
                relative = f"{directory}/{name}" if directory else name
                if self._note(relative) and is_directory:
                    stack.append(relative)

    def _note(self, relative: str) -> bool:
        """Takes down one name. True when what is beneath it is of interest too."""
        if self._is_protected(relative):
            self._touched = True
            self.hidden.add(self._real(relative))
            self.hidden.discard("")
            return False
        if relative == ".git" or relative.endswith("/.git"):
            self._touched = True
            self._note_git(relative)
            return False
        return True

    def _note_git(self, relative: str) -> None:
        """Takes down a repository, with those of its submodules and worktrees, which git keeps inside it."""
        self._note_repository(relative)
        for head in sorted((self._root / relative / "modules").rglob("HEAD")):
            if (head.parent / "objects").is_dir():
                self._note_repository(str(head.parent.relative_to(self._root)))

    def _note_repository(self, relative: str) -> None:
        self.git.add(relative)
        self._watch(relative)
        worktrees = self._root / relative / WORKTREES
        if worktrees.is_dir():
            self._watch(f"{relative}/{WORKTREES}")
            for path in worktrees.iterdir():
                if path.is_dir() and not path.is_symlink():
                    self.git.add(f"{relative}/{WORKTREES}/{path.name}")
                    self._watch(f"{relative}/{WORKTREES}/{path.name}")

    def _real(self, relative: str) -> str:
        """Where a link with a protected name leads, if into the workspace: the secret is what it points to."""
        path = self._root / relative
        if not path.is_symlink():
            return relative
        real = Path(os.path.realpath(path))
        return str(real.relative_to(self._root)) if real.is_relative_to(self._root) and real.exists() else ""

    def _watch(self, directory: str) -> None:
        if self._fd < 0:
            return
        path = os.fsencode(self._root / directory)
        watch = self._libc.inotify_add_watch(self._fd, path, ctypes.c_uint32(_WATCHED))
        if watch >= 0:
            self._watches[watch] = directory
        elif ctypes.get_errno() in (errno.ENOSPC, errno.ENOMEM):
            self.close()  # more directories than this machine lets us watch

    def _take_events(self) -> bool:
        """False when the events do not tell enough and the workspace must be walked again."""
        while self._fd >= 0:
            try:
                data = os.read(self._fd, _QUEUE_BYTES)
            except BlockingIOError:
                return True
            offset = 0
            while offset < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, offset)
                offset += _EVENT.size + length
                name = os.fsdecode(data[offset - length : offset].rstrip(b"\0"))
                if not self._take_event(watch, mask, name):
                    return False
        return False

    def _take_event(self, watch: int, mask: int, name: str) -> bool:
        if mask & _IGNORED:
            self._watches.pop(watch, None)
            return True
        directory = self._watches.get(watch)
        if mask & _OVERFLOW or directory is None or (mask & _IS_DIRECTORY and mask & (_FROM | _TO)):
            return False
        if directory in self.git:
            self._touched |= name in (*GUARDED_IN_GIT, "modules")
            return name != WORKTREES
        if directory.endswith(f"/{WORKTREES}") and directory.removesuffix(f"/{WORKTREES}") in self.git:
            return False
        relative = f"{directory}/{name}" if directory else name
        if mask & (_DELETE | _FROM):
            self._touched |= relative in self.hidden or relative in self.git
            self.hidden.discard(relative)
            self.git.discard(relative)
        elif self._note(relative) and mask & _IS_DIRECTORY:
            self._walk(relative)
        return True
