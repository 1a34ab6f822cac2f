"""Glob patterns for listings, matched name by name on the way down.

Without a slash, a pattern is for the name at any depth; with one, for the path below the listed directory. `**` crosses
any number of directories. A hidden name (leading dot) is matched only by a part that begins with a dot itself.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from typing import TypeAlias

from client_agent.errors import InvalidParameters

_MAX_PARTS = 64
_CROSSING = "**"

# Which parts of the pattern the next name may match.
States: TypeAlias = frozenset[int]
Match: TypeAlias = Callable[[str], object]


class Pattern:
    def __init__(self, pattern: str) -> None:
        parts = [part for part in pattern.split("/") if part not in ("", ".")] or ["*"]
        if len(parts) > _MAX_PARTS:
            raise InvalidParameters(f"the pattern has more than {_MAX_PARTS} parts", code="pattern_invalid")
        if ".." in parts:
            raise InvalidParameters("a pattern cannot lead upwards ('..')", code="pattern_invalid")
        if "/" not in pattern:
            parts.insert(0, _CROSSING)
        self._crossing = [part == _CROSSING for part in parts]
        self._matches = [_matcher(part) for part in parts]
        self._last = len(parts) - 1
        self.start: States = self._close({0})

    def accepts(self, states: States) -> Match:
        """What says whether a name met in these states is part of the listing."""
        return self._matches[self._last] if self._last in states else _match_nothing

    def descend(self, states: States, name: str) -> States:
        """The states below a directory of this name; empty when nothing below can match."""
        after: set[int] = set()
        for index in states:
            if self._matches[index](name):
                if self._crossing[index]:
                    after.add(index)
                elif index < self._last:
                    after.add(index + 1)
        return self._close(after)

    def _close(self, states: set[int]) -> States:
        """With the parts that may match because a `**` before them matches no directory at all."""
        for index in range(self._last):
            if index in states and self._crossing[index]:
                states.add(index + 1)
        return frozenset(states)


def _matcher(part: str) -> Match:
    if part in ("*", _CROSSING):
        return _match_visible
    # fnmatch's expressions take linear time, whatever the pattern: it comes from a stranger.
    hidden = "" if part.startswith(".") else r"(?!\.)"
    return re.compile(hidden + fnmatch.translate(part)).match


def _match_visible(name: str) -> bool:
    return name[0] != "."


def _match_nothing(_: str) -> bool:
    return False
