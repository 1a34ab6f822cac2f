"""Sessions that keep asking for what was refused."""

from __future__ import annotations

import asyncio

import msgspec

from client_agent.approvals.broker import Broker
from client_agent.approvals.questions import Answer, Outcome, Question
from tests.unit.approvals.test_broker import Clock, question

NO = Answer(outcome=Outcome.REJECTED, reason="no", by="page")
YES = Answer(outcome=Outcome.APPROVED, by="page")


class Silent:
    def opened(self, question: Question) -> None: ...

    def closed(self, question: Question, answer: Answer) -> None: ...


def of_session(name: str, session: str = "s", tool: str = "write_file") -> Question:
    base = question(name)
    call = msgspec.structs.replace(base.call, session_id=session, tool_name=tool)
    decision = msgspec.structs.replace(base.decision, call_class=None)
    return msgspec.structs.replace(base, call=call, decision=decision)


async def answered(broker: Broker, asked: Question, answer: Answer) -> Answer:
    asking = asyncio.create_task(broker.ask(asked))
    await asyncio.sleep(0)
    broker.answer(asked.id, asked.binding, answer)
    return await asking


async def test_three_like_refusals_in_a_row_pause_the_session_and_no_other() -> None:
    broker = Broker(Clock())
    broker.attach(Silent())
    for name in ("q1", "q2"):
        assert (await answered(broker, of_session(name), NO)).reason == "no"
    third = await answered(broker, of_session("q3"), NO)
    assert third.reason.startswith("no; ")
    assert "paused" in third.reason
    later = await broker.ask(of_session("q4"))
    assert later.outcome is Outcome.REJECTED
    assert "paused" in later.reason
    assert (await answered(broker, of_session("q5", "other"), YES)).approved
    (pause,) = broker.pauses.standing
    assert broker.pauses.resume(pause.workspace, pause.session_id)
    assert not broker.pauses.resume(pause.workspace, pause.session_id)
    assert (await answered(broker, of_session("q6"), YES)).approved


async def test_a_yes_or_another_kind_begins_the_count_anew() -> None:
    broker = Broker(Clock())
    broker.attach(Silent())
    for asked, answer in [
        (of_session("q1"), NO),
        (of_session("q2"), NO),
        (of_session("q3"), YES),
        (of_session("q4"), NO),
        (of_session("q5"), NO),
        (of_session("q6", tool="execute_command"), NO),
        (of_session("q7"), NO),
    ]:
        await answered(broker, asked, answer)
    assert broker.pauses.standing == []


async def test_a_channel_that_reaches_nobody_is_no_channel() -> None:
    broker = Broker(Clock())
    there = False
    broker.attach(Silent(), lambda question: there)
    assert (await broker.ask(of_session("q1"))).outcome is Outcome.NOBODY
    there = True
    assert (await answered(broker, of_session("q2"), YES)).approved
