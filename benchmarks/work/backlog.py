"""Coming back: ten thousand events at once, as after a night offline."""

from __future__ import annotations

from benchmarks.figures import Effort, Reading
from benchmarks.stage import Stage
from benchmarks.work.reads import by_rate, compare, reading

EVENTS = 10_000


async def drained(stage: Stage, effort: Effort) -> Reading:
    """All signals are sent at once; timed until the last result is there."""
    work = reading(stage, 100)
    comparison = await compare(stage, work, Effort(3, 1, effort.budget_s), count=EVENTS, in_flight=EVENTS)
    return by_rate(comparison)
