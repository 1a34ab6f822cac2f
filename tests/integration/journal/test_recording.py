"""Which starts wait for the disk: those of calls that could change something."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from client_agent.journal.journal import Journal
from client_agent.policy.decision import Decision, Reason, Risk, Verdict
from client_agent.protocol.calls import Call
from client_agent.recording import LedgerRecorder

OpenJournal = Callable[..., Journal]
CALL = Call(tool_id="t-1", tool_name="execute_command", tool_params={"command": "ls"})


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
    synced: list[str] = []
    listen = lambda statement: synced.append(statement) if "synchronous = FULL" in statement else None  # noqa: E731
    ledger.admit(CALL, effects=True)
    reasons = (Reason("why", "because"),)
    decision = Decision(
        verdict=Verdict.RUN, risk=risk, reasons=reasons, code="why", read_only=read_only, network=network
    )
    recorder.decided(CALL, decision)
    await journal._writer.run(lambda connection: connection.set_trace_callback(listen))
    await recorder.begin(CALL)
    await journal._writer.run(lambda connection: connection.set_trace_callback(None))
    assert bool(synced) is durable
