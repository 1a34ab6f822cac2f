"""Names that must not come to be: taken by something empty while a command could make them.

A mount needs something to be mounted on. Where `.git` or the workspace's own configuration is absent, an empty one is
put there as long as commands may write, and removed after; in a repository likewise a `commondir` that leads to the
repository itself, since one made by a command would lead git past its configuration. Locks keep two programs from
removing what the other needs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from client_agent.sandbox.protected import COMMON_DIRECTORY

DIRECTORIES = (".git",)
_ITSELF = b"./\n"  # git does not bear an empty one, nor libgit2 a bare dot


class Placeholders:
    """Empty files and directories in the root of one workspace, and what leads nowhere else in its repositories."""

    def __init__(self, root: Path, names: tuple[str, ...]) -> None:
        self._root = root
        self._names = names
        self._held: dict[str, int] = {}

    @property
    def names(self) -> frozenset[str]:
        """Those in the root."""
        return frozenset(self._held).intersection(self._names)

    def make(self, repositories: Iterable[str] = ()) -> None:
        """Takes every name that is free, and those that somebody else's untouched placeholder has."""
        for name in (*self._names, *(f"{path}/{COMMON_DIRECTORY}" for path in repositories)):
            if not self._holds(name):
                self._drop(name)
                self._take(name)

    def remove(self) -> None:
        """Frees the names, unless another program holds one or it has been put to use."""
        for name, fd in list(self._held.items()):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._holds(name):
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
                _make_file(path)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return  # a link, or nothing that can be opened: what it is is judged elsewhere
        if path.is_dir() is (name in DIRECTORIES) and _is_untouched(path):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            self._held[name] = fd
        else:
            os.close(fd)

    def _holds(self, name: str) -> bool:
        """Whether what we opened is still what bears the name, and as it was."""
        fd = self._held.get(name)
        if fd is None:
            return False
        try:
            return os.path.samestat(os.fstat(fd), os.lstat(self._root / name)) and _is_untouched(self._root / name)
        except OSError:
            return False

    def _drop(self, name: str) -> None:
        fd = self._held.pop(name, None)
        if fd is not None:
            os.close(fd)


def _make_file(path: Path) -> None:
    """Whole at once: whoever reads it must not find it half made."""
    if os.path.lexists(path):
        raise FileExistsError
    fd, spare = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    os.write(fd, _content(path))
    os.close(fd)
    Path(spare).rename(path)


def _is_untouched(path: Path) -> bool:
    return not any(path.iterdir()) if path.is_dir() else path.read_bytes() == _content(path)


def _content(path: Path) -> bytes:
    return _ITSELF if path.name == COMMON_DIRECTORY else b""
