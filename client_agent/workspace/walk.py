"""Finding a path by walking from directory to directory, following links by hand. Works on every platform.

Each directory is entered from the one before, held open, and never through a link; so wherever the walk stands, it got
there from the root. A link's target is walked in turn, an absolute one from the root if it names a place below it.
Where a path leads to nothing, the walk knows how far it got, which is what making a new file needs.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from client_agent.policy.paths import climbs_out
from client_agent.workspace.directory import Directory
from client_agent.workspace.failures import leads_outside, os_error
from client_agent.workspace.place import Place

MAX_LINKS = 40  # as the Linux kernel
_MAX_STEPS = 20_000  # more than any path needs; bounds a walk that is led in circles by renames

# The part of an absolute path below the root, without touching the file system; None when it is not below.
Below = Callable[[str], str | None]


class Spot(Place):
    """Where a walk ended: a name in a directory, or the directory itself (`name` is None).

    `missing` are the directories between that would have to be made first.
    """

    __slots__ = ("directory", "missing", "name", "wants_directory")

    def __init__(
        self, directory: Directory, walked: list[str], name: str | None, status: os.stat_result | None
    ) -> None:
        self.directory = directory
        self.name = name
        self.status = status
        self.missing: list[str] = []
        self.wants_directory = False  # a new name, spelled so that only a directory would do
        self.relative = "/".join([*walked, name] if name else walked) or "."

    def open(self) -> int:
        if self.name is None:
            raise os_error(errno.EISDIR)
        return self.directory.open(self.name)

    def close(self) -> None:
        self.directory.close()

    def __enter__(self) -> Spot:
        return self


def walk(root: Directory, path: str, below: Below) -> Spot:
    """Where this path, relative to the root, leads. Raises AccessRefused when it leaves, OSError when it is stuck."""
    walker = _Walker(root, path, below)
    try:
        return walker.walk()
    except BaseException:
        walker.directory.close()
        raise


class _Walker:
    def __init__(self, root: Directory, path: str, below: Below) -> None:
        self._root = root
        self._path = path
        self._below = below
        self._todo = path.split("/")[::-1]
        self._walked: list[str] = []
        self._links = 0
        self.directory = root.enter(".")

    def walk(self) -> Spot:
        for _ in range(_MAX_STEPS):
            if not self._todo:
                return Spot(self.directory, self._walked, None, self.directory.status("."))
            spot = self._step(self._todo.pop())
            if spot is not None:
                return spot
        raise os_error(errno.ELOOP)

    def _step(self, name: str) -> Spot | None:
        if name in ("", "."):
            return None
        if name == "..":
            self._climb()
            return None
        try:
            status = self.directory.status(name)
        except FileNotFoundError:
            return self._end_missing(name)
        if stat.S_ISLNK(status.st_mode):
            self._follow(name)
        elif stat.S_ISDIR(status.st_mode):
            self._enter(name)
        elif self._todo:  # even a slash alone asks for a directory
            raise os_error(errno.ENOTDIR)
        else:
            return Spot(self.directory, self._walked, name, status)
        return None

    def _climb(self) -> None:
        """One up, by going there again from the root: a directory's own `..` leads elsewhere once it is moved."""
        if not self._walked:
            raise leads_outside(self._path)
        self._go_again(self._walked[:-1])

    def _follow(self, name: str) -> None:
        self._links += 1
        if self._links > MAX_LINKS:
            raise os_error(errno.ELOOP)
        try:
            target = self.directory.read_link(name)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT):
                raise
            self._todo.append(name)  # no longer a link: look again
            return
        if os.path.isabs(target):  # noqa: PTH117
            inside = self._below(target)
            if inside is None:
                raise leads_outside(self._path)
            self._todo.extend(reversed(inside.split("/")))
            self._go_again([])
        else:
            self._todo.extend(reversed(target.replace(os.sep, "/").split("/")))

    def _enter(self, name: str) -> None:
        try:
            inner = self.directory.enter(name)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT):
                raise
            self._todo.append(name)  # no longer a directory: look again
            return
        self.directory.close()
        self.directory = inner
        self._walked.append(name)

    def _go_again(self, names: list[str]) -> None:
        start = self._root.enter(".")
        self.directory.close()
        self.directory = start
        self._todo.extend(reversed(names))
        self._walked = []

    def _end_missing(self, name: str) -> Spot:
        rest = self._todo[::-1]
        if ".." in rest:  # up from a directory that does not exist
            if climbs_out("/".join([*self._walked, name, *rest])):
                raise leads_outside(self._path)
            raise os_error(errno.ENOENT)
        names = [name, *(part for part in rest if part not in ("", "."))]
        spot = Spot(self.directory, [*self._walked, *names[:-1]], names[-1], None)
        spot.missing = names[:-1]
        spot.wants_directory = bool(rest) and rest[-1] in ("", ".")
        return spot
