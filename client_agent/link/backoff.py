"""How long to wait before the next attempt."""

from __future__ import annotations

import random as _random
from collections.abc import Callable

BASE_S = 1.0
_MAX_DOUBLINGS = 30  # far past any cap, and far from what a float can hold


def jittered_s(
    attempt: int,
    *,
    cap_s: float,
    floor_s: float = 0.0,
    base_s: float = BASE_S,
    random: Callable[[], float] = _random.random,
) -> float:
    """A wait between the floor and a ceiling that doubles with each failed attempt (0, 1, 2 …) up to the cap.

    The jitter spans all of it, so that clients cut off together do not come back together. A floor above the ceiling
    (the server named a time) is kept as it is.
    """
    ceiling_s = min(cap_s, base_s * 2.0 ** min(attempt, _MAX_DOUBLINGS))
    return floor_s + random() * max(ceiling_s - floor_s, 0.0)


class Backoff:
    """Counts the failures of one thing that is tried again and again."""

    def __init__(self, cap_s: float, *, base_s: float = BASE_S, random: Callable[[], float] = _random.random) -> None:
        self._cap_s = cap_s
        self._base_s = base_s
        self._random = random
        self._failures = 0

    def next_s(self, floor_s: float = 0.0) -> float:
        """The wait after one more failure."""
        wait_s = jittered_s(
            self._failures, cap_s=self._cap_s, floor_s=floor_s, base_s=self._base_s, random=self._random
        )
        self._failures += 1
        return wait_s

    def slow_s(self, floor_s: float = 0.0) -> float:
        """The wait where only a person can put things right: near the cap from the first time."""
        return max(floor_s, self._cap_s * (0.5 + 0.5 * self._random()))

    def reset(self) -> None:
        """It worked: the next failure is a first one."""
        self._failures = 0
