"""A full disk while the daemon runs, and a clock that is set: from end to end."""

from __future__ import annotations

import asyncio
import resource
from contextlib import closing
from pathlib import Path

from client_agent.journal.journal import Journal
from client_agent.journal.records import PostKind
from client_agent.protocol.calls import Call
from client_agent.protocol.states import CallState
from tests.soak.field import Field, Submitted, playing, table


async def ended(field: Field, call: Submitted) -> str:
    async with asyncio.timeout(40):
        while not call.ended:
            await field.look()
            await asyncio.sleep(0.05)
    return call.ended


async def test_on_a_full_disk_nothing_runs_and_with_space_it_goes_on_without_a_restart(tmp_path: Path) -> None:
    async with playing(tmp_path / "field", seed=1) as field:
        daemon = field.start()
        await field.submit("write")
        assert await ended(field, field.calls[0]) == "completed"
        unlimited = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (1, unlimited[1]))
        await field.submit("write")
        assert await ended(field, field.calls[1]) == "failed"
        trace = field.calls[1].trace
        assert trace is not None
        assert not trace.exists()
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, unlimited)
        await field.submit("write")
        assert await ended(field, field.calls[2]) == "completed"
        assert daemon.poll() is None
        await field.look_again()
        assert await field.stop() is not None
        rows = field.check()
    assert not any(row.broken for row in rows), table(rows)


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


async def test_a_clock_that_is_set_back_by_a_day_silences_no_result(tmp_path: Path) -> None:
    clock = Clock()
    with closing(Journal(tmp_path / "state", now=clock)) as journal:
        ledger = journal.recover("w").ledger
        ledger.admit(Call(tool_id="t", tool_name="read_file", tool_params={}), effects=False)
        await ledger.finish("t", CallState.FAILED, b"{}")
        (due,) = ledger.outbox.next_due(1, clock.now)
        ledger.outbox.mark_retry(PostKind.RESULT, "t", at=clock.now + 60, problem="the server answered 503")
        assert ledger.outbox.next_due(1, clock.now) == []
        clock.now -= 86_400
        assert ledger.outbox.wait_s(clock.now) == 0
        assert [each.post.target for each in ledger.outbox.next_due(1, clock.now)] == [due.post.target]
