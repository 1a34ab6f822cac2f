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

from client_agent.errors import Unavailable

COMMON_DIRECTORY = "commondir"  # a file that tells git to take hooks and configuration from elsewhere
GUARDED_IN_GIT = ("hooks", "config", "config.worktree", COMMON_DIRECTORY)
MODULES = "modules"  # where a repository keeps those of its submodules, in directories named after them
WORKTREES = "worktrees"  # what a repository knows of its other worktrees: git follows it when it is called in one

_FROM, _TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED, _IS_DIRECTORY = 0x4000, 0x8000, 0x40000000
_ONLY_DIRECTORY, _NO_LINKS = 0x01000000, 0x02000000
_WATCHED = _FROM | _TO | _CREATE | _DELETE | _ONLY_DIRECTORY | _NO_LINKS
_EVENT = struct.Struct("iIII")
_QUEUE_BYTES = 1 << 16
_FIONREAD = 0x541B
_ANYWHERE = "anywhere"  # a directory that no pattern names

IsProtected: TypeAlias = Callable[[str], Any]  # a path relative to the root → something true when it is protected


class ProtectedPaths:
    """The protected paths of one workspace, relative to its root, and the `.git` in it, wherever they are."""

    def __init__(self, root: Path, is_protected: IsProtected) -> None:
        self.hidden: set[str] = set()
        self.git: set[str] = set()
        self._root = root
        self._is_protected = is_protected
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._links: set[str] = set()
        self._module_directories: set[str] = set()
        self._watches: dict[int, str] = {}
        self._fd = -1
        self._touched = False

    @property
    def tied(self) -> set[str]:
        """What of the hidden is protected for its place, or leads to a place: moved elsewhere it would be no more."""
        return {path for path in self.hidden if path in self._links or not self._is_protected_by_name(path)}

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
        try:
            if self._fd < 0 or not self._take_events():
                self._scan()
        except PermissionError as error:  # a command may have done that, and undo it when nobody looks
            self.close()
            raise Unavailable(f"{error.filename!r} cannot be read, so that what is in it could not be kept") from None
        return self._touched or before != (self.hidden, self.git)

    def has_changed(self) -> bool:
        """Whether what was taken in at the last look no longer holds: takes in what does."""
        before = (set(self.hidden), set(self.git))
        is_watched = self._fd >= 0
        return self.has_news and self.refresh() and (is_watched or before != (self.hidden, self.git))

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
        self._links, self._module_directories = set(), set()
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
            except PermissionError:
                self._hide_unreadable(directory)
                continue
            except OSError:
                continue  # gone
            for name, is_directory in entries:
                relative = f"{directory}/{name}" if directory else name
                if self._note(relative) and is_directory:
                    stack.append(relative)

    def _hide_unreadable(self, directory: str) -> None:
        """What is in it is not known, and a command could make it readable again: hidden until it is known.

        There is no telling when that is, so that from now on the workspace is walked each time.
        """
        if not directory:
            raise PermissionError(errno.EACCES, "not readable", str(self._root))
        self.hidden.add(directory)
        self.close()

    def _is_protected_by_name(self, relative: str) -> bool:
        return bool(self._is_protected(f"{_ANYWHERE}/{Path(relative).name}"))

    def _note(self, relative: str) -> bool:
        """Takes down one name. True when what is beneath it is of interest too."""
        if self._is_protected(relative):
            self._touched = True
            self.hidden |= {relative, self._real(relative)} - {""}
            return False
        if relative == ".git" or relative.endswith("/.git"):
            self._touched = True
            self._note_git(relative)
            return False
        return True

    def _note_git(self, relative: str) -> None:
        """Takes down a repository, with those of its submodules and worktrees, which git keeps inside it."""
        self._note_repository(relative)
        stack = [f"{relative}/{MODULES}"]
        while stack:
            directory = stack.pop()
            self._watch(directory)
            self._module_directories.add(directory)
            try:
                with os.scandir(self._root / directory) as found:
                    inner = {entry.name: entry.is_dir(follow_symlinks=False) for entry in found}
            except (FileNotFoundError, NotADirectoryError):
                continue
            if "HEAD" in inner and inner.get("objects"):
                self._module_directories.discard(directory)
                self._note_repository(directory)
                stack.append(f"{directory}/{MODULES}")
            else:
                stack += [f"{directory}/{name}" for name, is_directory in inner.items() if is_directory]

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
        self._links.add(relative)
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
            self._touched |= name in GUARDED_IN_GIT
            return name not in (MODULES, WORKTREES)
        if directory in self._module_directories:
            return False
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
