"""`kill -9` before and after each step of a call, and at no particular moment: never twice, never lost.

The long form of the same is `python -m tests.soak`.
"""

from __future__ import annotations

from pathlib import Path

from client_agent.server.faults import everything
from tests.soak.field import playing, table
from tests.soak.rounds import kill_at_random, kill_at_step, steps


async def test_killed_before_and_after_every_step_nothing_runs_twice_and_nothing_is_lost(tmp_path: Path) -> None:
    async with playing(tmp_path / "field", seed=1) as field:
        for step in steps():
            assert await kill_at_step(field, step), f"the daemon never came to {step}"
        await field.settle()
        rows = field.check()
    assert not any(row.broken for row in rows), table(rows)
    assert set(field.failures()) == {"interrupted", "rejected_by_user"}
    assert sum(call.ended == "completed" for call in field.calls) > 0
    assert {call.ended for call in field.calls if call.kind == "refused"} == {"rejected"}


async def test_killed_at_random_with_a_server_that_misbehaves_the_same_holds(tmp_path: Path) -> None:
    async with playing(tmp_path / "field", seed=2, plan=everything(2)) as field:
        for _ in range(4):
            await kill_at_random(field)
        await field.settle()
        rows = field.check()
    assert not any(row.broken for row in rows), table(rows)
    assert len(field.calls) > 10
