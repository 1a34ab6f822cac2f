"""Names that must not come to be: taken by something empty while a command could make them.

A mount needs something to be mounted on. Where `.git` or the workspace's own configuration is absent, an empty one is
put there as long as commands may write, and removed after. Locks keep two programs from removing what the other needs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

DIRECTORIES = (".git",)


class Placeholders:
    """Empty files and directories in the root of one workspace."""

    def __init__(self, root: Path, names: tuple[str, ...]) -> None:
        self._root = root
        self._names = names
        self._held: dict[str, int] = {}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._held)

    def make(self) -> None:
        """Takes every name that is free, and those that somebody else's empty placeholder has."""
        for name in self._names:
            if not self._holds(name):
                self._drop(name)
                self._take(name)

    def remove(self) -> None:
        """Frees the names, unless another program holds one or it has been put to use."""
        for name, fd in list(self._held.items()):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._holds(name) and _is_empty(self._root / name):
                    (os.rmdir if name in DIRECTORIES else os.unlink)(self._root / name)
            except OSError:
                pass  # held, filled or gone: not ours any longer
            self._drop(name)

    def _take(self, name: str) -> None:
        path = self._root / name
        with contextlib.suppress(FileExistsError):
            if name in DIRECTORIES:
                path.mkdir()
            else:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return  # a link, or nothing that can be opened: what it is is judged elsewhere
        if path.is_dir() is (name in DIRECTORIES) and _is_empty(path):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            self._held[name] = fd
        else:
            os.close(fd)

    def _holds(self, name: str) -> bool:
        """Whether what we opened is still what bears the name, and still empty."""
        fd = self._held.get(name)
        if fd is None:
            return False
        try:
            return os.path.samestat(os.fstat(fd), os.lstat(self._root / name)) and _is_empty(self._root / name)
        except OSError:
            return False

    def _drop(self, name: str) -> None:
        fd = self._held.pop(name, None)
        if fd is not None:
            os.close(fd)


def _is_empty(path: Path) -> bool:
    return not any(path.iterdir()) if path.is_dir() else path.stat().st_size == 0
