from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client_agent.errors import JournalError
from client_agent.journal.journal import Journal
from client_agent.journal.ledger import Ledger
from client_agent.journal.reader import reading
from client_agent.journal.records import PostKind, Standing
from client_agent.policy.decision import Decision, Reason, Risk, Verdict
from client_agent.protocol.calls import Call
from client_agent.protocol.states import CallState

OpenJournal = Callable[..., Journal]
BODY = b'{"status":"completed","result":{"success":true}}'


def make_call(tool_id: str = "t-1", tool: str = "write_file", **params: Any) -> Call:
    return Call(
        tool_id=tool_id, tool_name=tool, tool_params=params or {"path": "a.txt", "content": "x"}, session_id="s"
    )


def decision(verdict: Verdict) -> Decision:
    return Decision(verdict=verdict, risk=Risk.MEDIUM, reasons=(Reason("writes_text", "writes 'a.txt'"),), code="why")


async def carry_out(ledger: Ledger, call: Call, *, effects: bool = True, body: bytes = BODY) -> None:
    assert ledger.admit(call, effects=effects).standing is Standing.NEW
    ledger.decide(call.tool_id, decision(Verdict.RUN))
    await ledger.begin(call.tool_id)
    await ledger.finish(call.tool_id, CallState.COMPLETED, body)


def take(ledger: Ledger) -> list[tuple[str, bytes]]:
    return [(due.post.target, due.body) for due in ledger.outbox.next_due(10_000, float("inf"))]


async def test_a_call_is_recorded_from_arrival_to_its_end(open_journal: OpenJournal, state_dir: Path) -> None:
    times = iter(float(second) for second in range(1000))
    journal = open_journal(now=lambda: next(times))
    ledger = journal.recover("main").ledger
    ledger.admit(make_call(path="a.txt", content="y" * 500, password="hunter2"), effects=True, event_id="7")
    ledger.decide("t-1", decision(Verdict.ASK), rule_id="rule-1")
    ledger.approve("t-1", approver="ada on the terminal", grant_id="grant-1")
    await ledger.begin("t-1")
    await ledger.finish("t-1", CallState.FAILED, BODY, failure_code="not_found")
    with reading(state_dir) as reader:
        record = reader.call("main", "t-1")
        assert reader.position("main") == "7"
    assert record is not None
    assert (record.state, record.failure_code, record.effects) == (CallState.FAILED, "not_found", True)
    assert (record.risk, record.verdict, record.decision_code) == ("MEDIUM", "ask", "why")
    assert record.reasons == (Reason("writes_text", "writes 'a.txt'"),)
    assert (record.rule_id, record.grant_id, record.approver) == ("rule-1", "grant-1", "ada on the terminal")
    assert record.created_at < record.decided_at < record.started_at < record.finished_at  # type: ignore[operator]
    assert record.params is not None
    assert record.params["password"] == "***"
    assert record.params["content"].startswith("<500 bytes, sha256 ")


async def test_the_same_call_while_it_is_worked_on_is_unfinished(open_journal: OpenJournal) -> None:
    ledger = open_journal().recover("main").ledger
    ledger.admit(make_call(), effects=True)
    again = ledger.admit(make_call(), effects=True)
    assert (again.standing, again.record.state) == (Standing.UNFINISHED, CallState.PENDING)
    ledger.decide("t-1", decision(Verdict.RUN))
    await ledger.begin("t-1")
    assert ledger.admit(make_call(), effects=True).record.state is CallState.EXECUTING
    assert take(ledger) == []


@pytest.mark.parametrize("stored", [True, False])
async def test_the_same_call_after_its_end_gets_the_stored_result_again(
    open_journal: OpenJournal, stored: bool
) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    await carry_out(ledger, make_call())
    assert take(ledger) == [("t-1", BODY)]
    ledger.outbox.mark_delivered(PostKind.RESULT, "t-1")
    if stored:
        journal.flush()
    for _ in range(2):
        again = ledger.admit(make_call(), effects=True)
        assert (again.standing, again.record.state) == (Standing.FINISHED, CallState.COMPLETED)
        assert take(ledger) == [("t-1", BODY)]
        ledger.outbox.mark_delivered(PostKind.RESULT, "t-1")


async def test_the_result_is_sent_again_after_a_restart_too(open_journal: OpenJournal) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    await carry_out(ledger, make_call())
    take(ledger)
    ledger.outbox.mark_delivered(PostKind.RESULT, "t-1")
    journal.close()
    ledger = open_journal().recover("main").ledger
    assert take(ledger) == []
    assert ledger.admit(make_call(), effects=True).standing is Standing.FINISHED
    assert take(ledger) == [("t-1", BODY)]


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    "other", [make_call(path="b.txt", content="x"), make_call(tool="read_file", path="a.txt", content="x")]
)
async def test_the_same_id_with_other_parameters_is_a_conflict(
    open_journal: OpenJournal, finished: bool, other: Call
) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    if finished:
        await carry_out(ledger, make_call())
        journal.flush()
        take(ledger)
    else:
        ledger.admit(make_call(), effects=True)
    assert ledger.admit(other, effects=True).standing is Standing.CONFLICT
    assert take(ledger) == []


async def test_the_answer_to_a_conflict_does_not_touch_the_true_result(open_journal: OpenJournal) -> None:
    ledger = open_journal().recover("main").ledger
    await carry_out(ledger, make_call())
    ledger.refuse("t-1", b"conflict", event_id="9")
    assert sorted(take(ledger)) == [("t-1", b"conflict"), ("t-1", BODY)]
    assert ledger.last_event_id == "9"


async def test_workspaces_know_nothing_of_each_other(open_journal: OpenJournal) -> None:
    journal = open_journal()
    one, two = journal.recover("one").ledger, journal.recover("two").ledger
    await carry_out(one, make_call())
    one.handled("5")
    assert two.admit(make_call(path="other"), effects=True).standing is Standing.NEW
    assert (two.last_event_id, take(two)) == ("", [])
    assert take(one) == [("t-1", BODY)]


async def test_a_result_without_effects_is_let_go_once_delivered_and_the_call_may_run_again(
    open_journal: OpenJournal, state_dir: Path
) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    call, body = make_call(tool="read_file"), BODY
    for stored_first in (True, False):
        await carry_out(ledger, call, effects=False, body=body)
        if stored_first:
            journal.flush()
        assert take(ledger) == [("t-1", body)]
        ledger.outbox.mark_delivered(PostKind.RESULT, "t-1")
        journal.flush()
        with reading(state_dir) as reader:
            post = reader.post("main", PostKind.RESULT, "t-1")
            assert post is None or not post.has_body


async def test_a_result_without_effects_survives_a_restart_until_delivered(open_journal: OpenJournal) -> None:
    journal = open_journal()
    await carry_out(journal.recover("main").ledger, make_call(), effects=False)
    journal.close()
    assert take(open_journal().recover("main").ledger) == [("t-1", BODY)]


async def test_steps_out_of_order_are_refused(open_journal: OpenJournal) -> None:
    ledger = open_journal().recover("main").ledger
    ledger.admit(make_call(), effects=True)
    with pytest.raises(JournalError, match="cannot become EXECUTING") as unapproved:
        await ledger.begin("t-1")
    assert unapproved.value.code == "illegal_step"
    ledger.decide("t-1", decision(Verdict.RUN))
    await ledger.begin("t-1")
    for again in (ledger.begin("t-1"), ledger.finish("t-1", CallState.REJECTED, BODY)):
        with pytest.raises(JournalError, match="it is EXECUTING"):
            await again
    with pytest.raises(JournalError) as approved_late:
        ledger.approve("t-1", approver="ada")
    assert approved_late.value.code == "illegal_step"
    await ledger.finish("t-1", CallState.COMPLETED, BODY)
    with pytest.raises(JournalError) as unknown:
        await ledger.finish("t-9", CallState.COMPLETED, BODY)
    assert unknown.value.code == "unknown_call"


async def test_a_refused_call_ends_without_ever_starting(open_journal: OpenJournal) -> None:
    ledger = open_journal().recover("main").ledger
    ledger.admit(make_call(), effects=True)
    assert ledger.decide("t-1", decision(Verdict.REFUSE)).state is CallState.PENDING
    record = await ledger.finish("t-1", CallState.FAILED, BODY, failure_code="path_outside")
    assert record.started_at is None
    assert take(ledger) == [("t-1", BODY)]


async def test_an_answer_goes_to_a_server_that_had_asked(open_journal: OpenJournal) -> None:
    ledger = open_journal().recover("main").ledger
    for number, asked in enumerate(("ap-1", "ap-2", None)):
        call = Call(tool_id=f"t-{number}", tool_name="write_file", tool_params={}, approval_id=asked)
        ledger.admit(call, effects=True)
        ledger.decide(call.tool_id, decision(Verdict.ASK))
    ledger.approve("t-0", approver="ada", answer=b"yes")
    await ledger.finish("t-1", CallState.REJECTED, BODY, approver="ada", answer=b"no")
    ledger.approve("t-2", approver="ada", answer=b"yes")
    sent = {(due.post.kind, due.post.target, due.body) for due in ledger.outbox.next_due(10, float("inf"))}
    assert sent == {
        (PostKind.APPROVE, "ap-1", b"yes"),
        (PostKind.REJECT, "ap-2", b"no"),
        (PostKind.RESULT, "t-1", BODY),
    }


async def test_a_yes_of_the_policy_is_told_to_a_server_that_had_asked(open_journal: OpenJournal) -> None:
    ledger = open_journal().recover("main").ledger
    ledger.admit(Call(tool_id="t-1", tool_name="write_file", tool_params={}, approval_id="ap-1"), effects=True)
    ledger.decide("t-1", decision(Verdict.RUN))
    assert ledger.approve("t-1", approver="policy", answer=b"yes").state is CallState.APPROVED
    assert take(ledger) == [("ap-1", b"yes")]


async def test_a_server_that_asks_again_gets_the_same_answer(open_journal: OpenJournal) -> None:
    ledger = open_journal().recover("main").ledger
    asked = Call(tool_id="t-1", tool_name="write_file", tool_params={}, approval_id="ap-1", awaits_signal=True)
    ledger.admit(asked, effects=True)
    ledger.decide("t-1", decision(Verdict.ASK))
    await ledger.finish("t-1", CallState.REJECTED, None, answer=b"no")
    assert take(ledger) == [("ap-1", b"no")]
    ledger.outbox.mark_delivered(PostKind.REJECT, "ap-1")
    assert ledger.admit(asked, effects=True).standing is Standing.FINISHED
    assert take(ledger) == [("ap-1", b"no")]


async def test_a_signal_for_what_was_asked_about_is_remembered_over_a_restart(open_journal: OpenJournal) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    asked = Call(tool_id="t-1", tool_name="write_file", tool_params={}, approval_id="ap-1", awaits_signal=True)
    ledger.admit(asked, effects=True)
    journal.flush()
    signal = Call(tool_id="t-1", tool_name="write_file", tool_params={})
    assert ledger.admit(signal, effects=True).standing is Standing.UNFINISHED
    journal.close()
    [left] = open_journal().recover("main").left_open
    assert (left.call, left.record.approval_id) == (signal, "ap-1")


async def test_a_signal_with_other_parameters_than_were_approved_is_to_be_judged_anew_over_a_restart_too(
    open_journal: OpenJournal, state_dir: Path
) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    asked = Call(tool_id="t-1", tool_name="read_file", tool_params={}, approval_id="ap-1", awaits_signal=True)
    ledger.admit(asked, effects=False)
    ledger.decide("t-1", decision(Verdict.ASK))
    ledger.approve("t-1", approver="ada")
    journal.flush()
    other = make_call()
    admission = ledger.admit(other, effects=True, event_id="8")
    assert (admission.standing, admission.record.state, admission.record.approver) == (
        Standing.AMENDED, CallState.PENDING, None,
    )  # fmt: skip
    assert ledger.admit(make_call(path="third"), effects=True).standing is Standing.CONFLICT
    journal.close()
    [left] = open_journal().recover("main").left_open
    assert (left.call, left.record.state, left.record.approver) == (other, CallState.PENDING, None)
    assert (left.record.tool_name, left.record.effects, left.record.params) == ("write_file", True, other.tool_params)


@pytest.mark.parametrize("effects", [True, False])
async def test_a_signal_for_what_was_rejected_is_refused_and_not_asked_again(
    open_journal: OpenJournal, effects: bool
) -> None:
    ledger = open_journal().recover("main").ledger
    asked = Call(tool_id="t-1", tool_name="write_file", tool_params={}, approval_id="ap-1", awaits_signal=True)
    ledger.admit(asked, effects=effects)
    ledger.decide("t-1", decision(Verdict.ASK))
    await ledger.finish("t-1", CallState.REJECTED, None)
    signal = Call(tool_id="t-1", tool_name="write_file", tool_params={})
    assert ledger.admit(signal, effects=effects).standing is Standing.FINISHED
    [(target, body)] = take(ledger)
    assert target == "t-1"
    assert b'"code":"not_approved"' in body


async def test_a_second_decision_leaves_an_approval_standing(open_journal: OpenJournal) -> None:
    ledger = open_journal().recover("main").ledger
    ledger.admit(make_call(), effects=True)
    assert ledger.decide("t-1", decision(Verdict.ASK)).state is CallState.AWAITING_APPROVAL
    assert ledger.decide("t-1", decision(Verdict.ASK)).state is CallState.AWAITING_APPROVAL
    ledger.approve("t-1", approver="ada")
    assert ledger.decide("t-1", decision(Verdict.ASK)).state is CallState.APPROVED
    assert ledger.decide("t-1", decision(Verdict.REFUSE)).state is CallState.APPROVED


async def test_calls_left_open_come_back_with_their_parameters(open_journal: OpenJournal) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    calls = [make_call(f"t-{number}", path=f"{number}", password="hunter2") for number in range(4)]
    for call in calls:
        ledger.admit(call, effects=True)
    ledger.decide("t-1", decision(Verdict.ASK))
    ledger.decide("t-2", decision(Verdict.ASK))
    ledger.approve("t-2", approver="ada")
    ledger.decide("t-3", decision(Verdict.RUN))
    await ledger.begin("t-3")
    journal.close()

    journal = open_journal()
    recovered = journal.recover("main")
    assert [(left.call, left.record.state) for left in recovered.left_open] == [
        (calls[0], CallState.PENDING),
        (calls[1], CallState.AWAITING_APPROVAL),
        (calls[2], CallState.APPROVED),
    ]
    assert [(record.tool_id, record.failure_code) for record in recovered.settled] == [("t-3", "interrupted")]
    ledger = recovered.ledger
    [(target, body)] = take(ledger)
    assert target == "t-3"
    assert b'"code":"interrupted"' in body
    assert ledger.admit(calls[1], effects=True).standing is Standing.UNFINISHED
    assert ledger.admit(calls[3], effects=True).standing is Standing.FINISHED
    await ledger.begin("t-2")
    await ledger.finish("t-2", CallState.COMPLETED, BODY)
    assert journal.reader.call("main", "t-3").params == {"path": "3", "password": "***"}  # type: ignore[union-attr]


async def test_a_call_too_large_to_be_kept_is_failed_as_not_started(open_journal: OpenJournal) -> None:
    journal = open_journal()
    journal.recover("main").ledger.admit(make_call(path="a", content="x" * 1_100_000), effects=True)
    journal.close()
    recovered = open_journal().recover("main")
    assert recovered.left_open == []
    assert [record.failure_code for record in recovered.settled] == ["not_started"]


async def test_the_parameters_of_a_call_that_started_are_on_disk_only_masked(
    open_journal: OpenJournal, state_dir: Path
) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    secret = "hunter2-in-the-clear"
    ledger.admit(make_call(path="a", password=secret, content=secret * 2000), effects=True)
    ledger.decide("t-1", decision(Verdict.ASK))
    journal.flush()
    ledger.approve("t-1", approver="ada")
    await ledger.begin("t-1")
    await ledger.finish("t-1", CallState.COMPLETED, BODY)
    journal.close()
    kept = b"".join(path.read_bytes() for path in state_dir.iterdir())
    assert b"hunter2-in-the-clear" not in kept


async def test_a_thousand_calls_at_once_are_all_carried_out_once(open_journal: OpenJournal, state_dir: Path) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    executed: list[str] = []

    async def handle(call: Call, event_id: int) -> None:
        if ledger.admit(call, effects=True, event_id=str(event_id)).standing is not Standing.NEW:
            return
        ledger.decide(call.tool_id, decision(Verdict.RUN))
        await ledger.begin(call.tool_id)
        executed.append(call.tool_id)
        await ledger.finish(call.tool_id, CallState.COMPLETED, call.tool_id.encode())

    calls = [make_call(f"t-{number % 1000}", path=str(number % 1000)) for number in range(3000)]
    await asyncio.gather(*(handle(call, number) for number, call in enumerate(calls)))
    assert sorted(executed) == sorted({call.tool_id for call in calls})
    sent = dict(take(ledger))
    assert {target: body.decode() for target, body in sent.items()} == {name: name for name in executed}
    journal.close()
    with sqlite3.connect(state_dir / "journal.sqlite3") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT state, count(*) FROM calls GROUP BY 1").fetchall() == [("COMPLETED", 1000)]
        assert connection.execute("SELECT event_id FROM positions").fetchall() == [("2999",)]
    connection.close()


@pytest.mark.parametrize("count", [1, 31, 32, 33, 100])
async def test_however_many_are_stored_together_each_keeps_its_own_values(
    open_journal: OpenJournal, state_dir: Path, count: int
) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    for number in range(count):
        ledger.admit(make_call(f"t-{number}", path=f"{number}\0.txt"), effects=True, event_id=str(number))
        if number % 2:
            ledger.decide(f"t-{number}", decision(Verdict.ASK), rule_id=f"rule-{number}")
    journal.flush()
    with reading(state_dir) as reader:
        found = {record.tool_id: (record, call) for record, call in reader.unfinished_calls("main")}
    assert list(found) == [f"t-{number}" for number in range(count)]
    for number, (record, call) in enumerate(found.values()):
        assert call == make_call(f"t-{number}", path=f"{number}\0.txt")
        assert record.params == {"path": f"{number}\0.txt"}
        assert record.rule_id == (f"rule-{number}" if number % 2 else None)
        assert record.state is (CallState.AWAITING_APPROVAL if number % 2 else CallState.PENDING)


async def test_a_caller_that_is_cancelled_leaves_the_record_behind(open_journal: OpenJournal, state_dir: Path) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    ledger.admit(make_call(), effects=True)
    ledger.decide("t-1", decision(Verdict.RUN))
    beginning = asyncio.create_task(ledger.begin("t-1"))
    await asyncio.sleep(0)
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    journal.flush()
    with reading(state_dir) as reader:
        assert reader.call("main", "t-1").state is CallState.EXECUTING  # type: ignore[union-attr]
    finishing = asyncio.create_task(ledger.finish("t-1", CallState.FAILED, BODY, failure_code="cancelled"))
    await asyncio.sleep(0)
    finishing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await finishing
    journal.flush()
    assert take(ledger) == [("t-1", BODY)]


async def test_memory_holds_only_what_is_unfinished(open_journal: OpenJournal) -> None:
    journal = open_journal()
    ledger = journal.recover("main").ledger
    for number in range(50):
        await carry_out(ledger, make_call(f"t-{number}"), effects=bool(number % 2))
    take(ledger)
    for number in range(50):
        ledger.outbox.mark_delivered(PostKind.RESULT, f"t-{number}")
    ledger.admit(make_call("open"), effects=True)
    journal.flush()
    assert list(ledger._calls) == ["open"]
    assert (len(ledger.outbox), ledger.outbox._slots) == (0, {})
    assert ledger.find("t-7").state is CallState.COMPLETED  # type: ignore[union-attr]
    assert ledger.find("nowhere") is None
