"""An object of the workspace, held open."""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from typing import Protocol

from client_agent.policy.decision import PathKind
from client_agent.workspace.directory import Directory


class Place(ABC):
    """Where a path leads, held by descriptor, so that what is judged and what is used are one object.

    `relative` is the real path below the root, links followed; `status` is None when nothing is there yet.
    """

    __slots__ = ("relative", "status")

    relative: str
    status: os.stat_result | None

    @abstractmethod
    def open(self) -> int:
        """A descriptor to read this very object. Call it for regular files only."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Finder(Protocol):
    """A fast way to existing places, where the platform has one. Raises OSError wherever it cannot answer."""

    def find(self, path: str) -> Place: ...
    def find_cached(self, path: str) -> Place: ...
    def enter(self, path: str) -> Directory: ...
    def close(self) -> None: ...


def kind_of(status: os.stat_result | None) -> PathKind:
    if status is None:
        return PathKind.MISSING
    if stat.S_ISREG(status.st_mode):
        return PathKind.FILE
    return PathKind.DIRECTORY if stat.S_ISDIR(status.st_mode) else PathKind.SPECIAL
