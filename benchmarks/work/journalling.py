"""What the journal costs a call: its steps as the daemon takes them, in this process, with the writer's thread."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Effort, Reading
from benchmarks.fixtures import KIB
from benchmarks.stage import FLOOR, OURS, Stage
from benchmarks.timing import Batch, Comparison, summarize, take_turns
from benchmarks.work.reads import reading
from client_agent.journal.database import JOURNAL, open_file
from client_agent.journal.journal import Journal
from client_agent.journal.ledger import Ledger
from client_agent.journal.statements import load
from client_agent.policy.decision import Decision, Risk, Verdict
from client_agent.protocol.calls import Call
from client_agent.protocol.results import completed
from client_agent.protocol.states import CallState
from client_agent.recording import LedgerRecorder

_JOURNAL = "journal"
_PAUSE_S = 0.002  # the next one comes over a network: by then the audit log has followed the last one to the disk
_SQL = load("calls")
_COLUMNS = (
    "session_id", "approval_id", "user_id", "risk", "verdict", "decision_code", "rule_id", "grant_id", "approver",
    "failure_code", "decided_at", "started_at", "finished_at",
)  # fmt: skip
_ROW = {
    **dict.fromkeys(_COLUMNS),
    "workspace": "benchmark",
    "fingerprint": "f" * 64,
    "tool_name": "read_file",
    "effects": 1,
    "created_at": 0.0,
    "state": "EXECUTING",
    "reasons": "[]",
    "params": '{"path":"a.txt"}',
    "request": None,
}
_RUN = Decision(verdict=Verdict.RUN, risk=Risk.LOW, reasons=(), code="benchmark")


class Steps:
    """A journal of its own, and calls that are nothing but recorded."""

    def __init__(self, journal: Journal) -> None:
        self._ledger: Ledger = journal.recover("benchmark").ledger
        self._recorder = LedgerRecorder(journal, self._ledger)
        self._number = 0

    async def record(self, count: int, *, effects: bool) -> tuple[Batch, Batch, Batch]:
        """So many calls from arrival to acknowledgement: the start alone, the end alone, and everything together."""
        starts, ends, wholes = [], [], []
        result = completed({"content": "x" * 4 * KIB, "encoding": "utf-8", "size": 4 * KIB})
        for _ in range(count):
            self._number += 1
            tool_id = str(self._number)
            call = Call(tool_id=tool_id, tool_name="read_file", tool_params={"path": "a.txt"})
            arrived = time.perf_counter()
            self._ledger.admit(call, effects=effects, event_id=tool_id)
            self._recorder.decided(call, _RUN)
            decided = time.perf_counter()
            await self._recorder.begin(call)
            began = time.perf_counter()
            await self._recorder.finish(call, CallState.COMPLETED, result, None)
            finished = time.perf_counter()
            for due in self._ledger.outbox.next_due(1, float("inf")):
                self._ledger.outbox.mark_delivered(due.post.kind, due.post.target)
            starts.append(began - decided)
            ends.append(finished - began)
            wholes.append(time.perf_counter() - arrived)
            if effects:
                await asyncio.sleep(_PAUSE_S)
        return _batch(starts), _batch(ends), _batch(wholes)


async def read_share(stage: Stage, effort: Effort) -> Reading:
    """A read as it is, over what it would be without the journal's steps."""
    ours, work, count = await stage.ours(), reading(stage, 4 * KIB), effort.times(300)
    with _steps() as (steps, _):

        async def run_reads() -> Batch:
            return await ours.do(work, count)

        async def run_journal() -> Batch:
            return (await steps.record(count, effects=False))[2]

        contenders = {OURS: run_reads, _JOURNAL: run_journal}
        comparison = await take_turns(contenders, repeats=effort.repeats, budget_s=effort.budget_s)
    pairs = list(zip(comparison.batches[OURS], comparison.batches[_JOURNAL], strict=True))
    return Reading(
        ours=comparison.latencies_ms(OURS),
        floor=summarize([1e3 * (read.p50_s - journal.p50_s) for read, journal in pairs]),
        ratio=summarize([read.p50_s / (read.p50_s - journal.p50_s) for read, journal in pairs]),
        note=f"the journal's steps: {comparison.latencies_us(_JOURNAL).p50:.0f} µs",
    )


async def execution_start(stage: Stage, effort: Effort) -> Reading:
    """What a call with effects waits for before it starts, over a commit by SQLite itself; its end waits once more."""
    count, ends, numbers = effort.times(100), [], itertools.count()
    with _steps() as (steps, directory), _bare(directory) as bare:

        async def run_bare() -> Batch:
            commits = []
            for _ in range(count):
                commits.append(_commit(bare, next(numbers)))
                await asyncio.sleep(_PAUSE_S)  # as below: a disk and a processor that rested take longer
            return _batch(commits)

        async def run_ours() -> Batch:
            start, end, _ = await steps.record(count, effects=True)
            ends.append(end)
            return start

        contenders = {FLOOR: run_bare, OURS: run_ours}
        comparison = await take_turns(contenders, repeats=effort.repeats, budget_s=effort.budget_s)
    end = Comparison(batches={OURS: ends}).latencies_ms(OURS)
    return Reading(
        ours=comparison.latencies_ms(OURS),
        floor=comparison.latencies_ms(FLOOR),
        ratio=comparison.ratios(OURS, FLOOR, lambda batch: batch.p50_s),
        note=f"before its result is sent: {end.p50:.2f} ms",
    )


@contextlib.contextmanager
def _steps() -> Iterator[tuple[Steps, Path]]:
    with (
        tempfile.TemporaryDirectory(prefix="client-agent-bench-") as name,
        contextlib.closing(Journal(Path(name) / "state")) as journal,
    ):
        yield Steps(journal), Path(name)


@contextlib.contextmanager
def _bare(directory: Path) -> Iterator[sqlite3.Connection]:
    """A file of the same form, for commits that nothing is built upon."""
    with contextlib.closing(open_file(directory / "bare.sqlite3", JOURNAL)) as connection:
        yield connection


def _commit(connection: sqlite3.Connection, number: int) -> float:
    began = time.perf_counter()
    with connection:
        connection.execute(_SQL["save_call"], {**_ROW, "tool_id": str(number)})
        connection.execute(_SQL["save_position"], {"workspace": "benchmark", "event_id": str(number)})
    return time.perf_counter() - began


def _batch(latencies: list[float]) -> Batch:
    return Batch(latencies_s=latencies, wall_s=sum(latencies))
