"""Noticing that the machine slept: the wall clock went on, the monotonic clock did not.

Where the monotonic clock counts sleep too (Windows), the stream's own deadline is past on waking, to the same effect.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

TICK_S = 5.0
TOLERANCE_S = 5.0  # a clock corrected by less than this is not a sleep


class SleepGauge:
    """Compares the two clocks, from one look to the next."""

    def __init__(
        self,
        wall_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        tick_s: float = TICK_S,
    ) -> None:
        self.tick_s = tick_s  # how often to look
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._lead_s = wall_clock() - monotonic()

    def read_slept_s(self) -> float:
        """How long the machine slept since the last look; 0 when it did not."""
        before_s, self._lead_s = self._lead_s, self._wall_clock() - self._monotonic()
        slept_s = self._lead_s - before_s
        return slept_s if slept_s > TOLERANCE_S else 0.0


async def watch_sleep(gauge: SleepGauge, on_wake: Callable[[float], None]) -> None:
    """Calls `on_wake` with the seconds slept, each time, until cancelled."""
    while True:
        await asyncio.sleep(gauge.tick_s)
        if slept_s := gauge.read_slept_s():
            on_wake(slept_s)
