"""A workspace that is turned to another server: nothing that belongs to the one reaches the other."""

from __future__ import annotations

from collections.abc import Callable

from client_agent.journal.journal import Journal
from client_agent.journal.records import Standing
from client_agent.policy.decision import Decision, Risk, Verdict
from client_agent.protocol.calls import Call
from client_agent.protocol.states import CallState

OpenJournal = Callable[..., Journal]
RUN = Decision(verdict=Verdict.RUN, risk=Risk.LOW, reasons=(), code="test")


def call(tool_id: str) -> Call:
    return Call(tool_id=tool_id, tool_name="write_file", tool_params={"path": "a"})


async def turn(journal: Journal, peer: str) -> None:
    await journal.turn_to("main", peer)


async def test_what_one_server_is_owed_waits_for_that_server_alone(open_journal: OpenJournal) -> None:
    journal = open_journal()
    await turn(journal, "https://one p")
    ledger = journal.recover("main").ledger
    ledger.admit(call("done"), effects=True, event_id="7")
    ledger.decide("done", RUN)
    await ledger.begin("done")
    await ledger.finish("done", CallState.COMPLETED, b"of the first")
    ledger.admit(call("open"), effects=True)
    journal.release("main")

    await turn(journal, "https://two p")
    elsewhere = journal.recover("main")
    assert (elsewhere.left_open, len(elsewhere.ledger.outbox), elsewhere.ledger.last_event_id) == ([], 0, "")
    assert elsewhere.ledger.admit(call("done"), effects=True).standing is Standing.NEW
    journal.release("main")
    journal.close()

    journal = open_journal()
    await turn(journal, "https://one p")
    back = journal.recover("main")
    assert [each.call.tool_id for each in back.left_open] == ["open"]
    assert [due.body for due in back.ledger.outbox.next_due(9, float("inf"))] == [b"of the first"]
    assert back.ledger.last_event_id == "7"
    assert back.ledger.admit(call("done"), effects=True).standing is Standing.FINISHED


async def test_a_journal_that_never_said_whose_it_is_belongs_to_the_first(open_journal: OpenJournal) -> None:
    journal = open_journal()
    journal.recover("main").ledger.admit(call("t"), effects=True)
    journal.release("main")
    await turn(journal, "https://one p")
    assert [each.call.tool_id for each in journal.recover("main").left_open] == ["t"]
