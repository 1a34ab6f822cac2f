"""Who waits for the disk, and for how much of it: whoever could change something, and nobody else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from client_agent.journal.journal import Journal
from client_agent.journal.reader import reading
from client_agent.journal.records import PostKind, Standing
from client_agent.journal.writer import Durability
from client_agent.policy.decision import Decision, Reason, Risk, Verdict
from client_agent.protocol.calls import Call
from client_agent.protocol.states import CallState
from client_agent.recording import LedgerRecorder
from tests.integration.journal.test_journal_calls import BODY, decision, make_call, take

OpenJournal = Callable[..., Journal]
FULL, NORMAL = "PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL"


@contextlib.asynccontextmanager
async def listening(journal: Journal) -> AsyncIterator[list[str]]:
    """What SQLite is told about commits and how far they go."""
    said: list[str] = []

    def listen(statement: str) -> None:
        last_line = statement.splitlines()[-1]
        if "synchronous" in last_line or last_line == "COMMIT":
            said.append(last_line)

    await journal._writer.run(lambda connection: connection.set_trace_callback(listen))
    yield said
    await journal._writer.run(lambda connection: connection.set_trace_callback(None))


async def test_only_what_somebody_waits_for_waits_for_the_disk(open_journal: OpenJournal) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    async with listening(journal) as said:
        ledger.admit(make_call(), effects=True)
        ledger.decide("t-1", decision(Verdict.RUN))
        await ledger.begin("t-1")
        await journal._writer.run(lambda connection: None)
        ledger.handled("7")
    assert said == [FULL, "COMMIT", NORMAL, "COMMIT"]


async def test_the_start_of_a_command_that_changes_nothing_is_written_and_not_synced(
    open_journal: OpenJournal, state_dir: Path
) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    ledger.admit(make_call(), effects=True)
    journal.flush()
    async with listening(journal) as said:
        ledger.decide("t-1", decision(Verdict.RUN))
        await ledger.begin("t-1", Durability.WRITTEN)
        with reading(state_dir) as reader:  # as the next daemon would, if this one were killed now
            assert reader.call("main", "t-1").state is CallState.EXECUTING  # type: ignore[union-attr]
        await ledger.finish("t-1", CallState.COMPLETED, BODY)
        assert take(ledger) == [("t-1", BODY)], "its result waits for the disk"
    assert FULL not in said


async def test_a_command_that_changes_nothing_is_not_run_again_either(open_journal: OpenJournal) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    for name in ("ended", "interrupted"):
        ledger.admit(make_call(name), effects=True)
        ledger.decide(name, decision(Verdict.RUN))
        await ledger.begin(name, Durability.WRITTEN)
    await ledger.finish("ended", CallState.COMPLETED, BODY)
    take(ledger)
    ledger.outbox.mark_delivered(PostKind.RESULT, "ended")
    assert ledger.admit(make_call("ended"), effects=True).standing is Standing.FINISHED
    assert take(ledger) == [("ended", BODY)]
    journal.close()

    recovered = open_journal().recover("main")
    assert [(record.tool_id, record.failure_code) for record in recovered.settled] == [("interrupted", "interrupted")]
    assert recovered.ledger.admit(make_call("ended"), effects=True).standing is Standing.FINISHED
    assert recovered.ledger.admit(make_call("interrupted"), effects=True).standing is Standing.FINISHED


async def test_whoever_asks_for_less_does_not_lessen_what_another_waits_for(open_journal: OpenJournal) -> None:
    journal = open_journal()
    journal.recover("main").ledger.admit(make_call(), effects=True)
    async with listening(journal) as said:
        with journal._writer.lock:  # one commit for both
            waiting = [journal._writer.stored(Durability.DURABLE), journal._writer.stored(Durability.WRITTEN)]
        await asyncio.gather(*waiting)
    assert said[0] == FULL


@pytest.mark.parametrize(
    ("risk", "read_only", "network", "durable"),
    [
        (Risk.LOW, True, False, False),
        (Risk.LOW, True, True, True),
        (Risk.LOW, False, False, True),  # process_kill
        (Risk.MEDIUM, True, False, True),
        (Risk.HIGH, True, False, True),  # nothing confines it
    ],
)
async def test_only_a_command_that_can_change_nothing_starts_without_waiting_for_the_disk(
    open_journal: OpenJournal, risk: Risk, read_only: bool, network: bool, durable: bool
) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    recorder = LedgerRecorder(journal, ledger)
    call = Call(tool_id="t-1", tool_name="execute_command", tool_params={"command": "ls"})
    ledger.admit(call, effects=True)
    reasons = (Reason("why", "because"),)
    decided = Decision(
        verdict=Verdict.RUN, risk=risk, reasons=reasons, code="why", read_only=read_only, network=network
    )
    recorder.decided(call, decided)
    async with listening(journal) as said:
        await recorder.begin(call)
    assert (FULL in said) is durable
