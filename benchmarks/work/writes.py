"""Writing a file so that it survives a loss of power: the floor does just that, ours is recorded besides."""

from __future__ import annotations

import contextlib
from pathlib import Path

from benchmarks.figures import Effort, Reading
from benchmarks.fixtures import KIB
from benchmarks.stage import FLOOR, OURS, Stage, Work
from benchmarks.timing import Batch, take_turns
from benchmarks.work.reads import by_latency
from client_agent.journal.permissions import PermissionFile
from client_agent.journal.rules import RuleStore
from client_agent.policy.rules import Rule


async def durable(stage: Stage, effort: Effort) -> Reading:
    """The same few files anew each time. The program records the call before and after, as durably."""
    params = {"path": f"{stage.files.directory('written')}/{{n}}.txt", "content": "x" * 4 * KIB}
    work, count = Work(tool_name="write_file", tool_params=params, distinct="path"), effort.times(40)
    floor = await stage.floor()
    allow(stage.state_dir("writes"), "write_file")
    async with stage.start_ours("writes") as ours:

        async def run_floor() -> Batch:
            return await floor.do(work, count)

        async def run_ours() -> Batch:
            return await ours.do(work, count)

        return by_latency(
            await take_turns({FLOOR: run_floor, OURS: run_ours}, repeats=effort.repeats, budget_s=effort.budget_s)
        )


def allow(state_dir: Path, tool_name: str) -> None:
    """There is nobody to ask."""
    with contextlib.closing(PermissionFile(state_dir)) as permissions:
        RuleStore(permissions).add(
            Rule(id="benchmark", auto_approve=True, tool_name=tool_name, created_at=0.0, updated_at=0.0)
        )
