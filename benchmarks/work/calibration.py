"""The floor held against itself: how far from 1 a ratio can come by chance."""

from __future__ import annotations

from benchmarks.figures import Effort, Reading
from benchmarks.fixtures import KIB
from benchmarks.stage import FLOOR, OURS, Stage
from benchmarks.timing import Batch, take_turns
from benchmarks.work.reads import by_latency, reading


async def floor_against_itself(stage: Stage, effort: Effort) -> Reading:
    work, count = reading(stage, 4 * KIB), effort.times(400)
    floor = await stage.floor()
    async with stage.start_floor("second-floor") as second:

        async def run_floor() -> Batch:
            return await floor.do(work, count)

        async def run_second() -> Batch:
            return await second.do(work, count)

        return by_latency(
            await take_turns({FLOOR: run_floor, OURS: run_second}, repeats=effort.repeats, budget_s=effort.budget_s)
        )
