"""One question, one answer, whoever gives it first."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from client_agent.approvals.broker import Broker, clock
from client_agent.approvals.questions import Answer, Outcome, Question
from client_agent.policy.decision import Decision, Reason, Risk, Verdict
from client_agent.protocol.calls import Call

YES = Answer(outcome=Outcome.APPROVED, by="a")
NO = Answer(outcome=Outcome.REJECTED, by="b")


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


class Watcher:
    def __init__(self) -> None:
        self.seen: list[str] = []
        self.gone: list[tuple[str, Outcome]] = []
        self.shown = asyncio.Event()

    def opened(self, question: Question) -> None:
        self.seen.append(question.id)
        self.shown.set()

    def closed(self, question: Question, answer: Answer) -> None:
        self.gone.append((question.id, answer.outcome))


def question(question_id: str = "q", deadline: float = 300) -> Question:
    return Question(
        id=question_id,
        workspace="w",
        call=Call(tool_id="t-" + question_id, tool_name="write_file", tool_params={"path": "a", "content": "b"}),
        decision=Decision(
            verdict=Verdict.ASK, risk=Risk.MEDIUM, reasons=(Reason("writes_text", "writes"),), code="needs_approval"
        ),
        server_id="filesystem",
        timeout_s=300,
        deadline=deadline,
    )


async def test_the_first_answer_counts_and_the_question_is_gone_everywhere() -> None:
    broker, one, two = Broker(Clock()), Watcher(), Watcher()
    broker.attach(one)
    broker.attach(two)
    asking = asyncio.create_task(broker.ask(question()))
    await one.shown.wait()
    assert [item.id for item in broker.open_questions] == ["q"]
    assert broker.answer("q", question().binding, YES)
    assert not broker.answer("q", question().binding, NO)
    assert (await asking) is YES
    assert one.gone == two.gone == [("q", Outcome.APPROVED)]
    assert broker.open_questions == []
    assert not broker.answer("q", question().binding, NO)


async def test_time_running_out_is_not_a_rejection() -> None:
    now, watcher = Clock(), Watcher()
    broker = Broker(now)
    broker.attach(watcher)
    asking = asyncio.create_task(broker.ask(question(deadline=0.05)))
    await watcher.shown.wait()
    now.time = 1.0
    answer = await asking
    assert (answer.outcome, answer.reason) == (Outcome.TIMED_OUT, "Approval timeout")


async def test_an_answer_after_the_deadline_does_not_count() -> None:
    now, watcher = Clock(), Watcher()
    broker = Broker(now)
    broker.attach(watcher)
    asking = asyncio.create_task(broker.ask(question(deadline=0.05)))
    await watcher.shown.wait()
    now.time = 1.0
    assert not broker.answer("q", question().binding, YES)
    assert (await asking).outcome is Outcome.TIMED_OUT


async def test_with_nobody_to_ask_the_answer_comes_at_once() -> None:
    assert (await Broker().ask(question())).outcome is Outcome.NOBODY


async def test_a_channel_that_joins_later_sees_what_is_open() -> None:
    broker, first, late = Broker(Clock()), Watcher(), Watcher()
    broker.attach(first)
    asking = asyncio.create_task(broker.ask(question()))
    await first.shown.wait()
    broker.attach(late)
    assert late.seen == ["q"]
    broker.detach(late)
    broker.answer("q", question().binding, NO)
    assert (await asking) is NO
    assert late.gone == []


async def test_a_withdrawn_call_takes_its_question_along() -> None:
    broker, watcher = Broker(Clock()), Watcher()
    broker.attach(watcher)
    asking = asyncio.create_task(broker.ask(question()))
    await watcher.shown.wait()
    broker.withdraw("other", "x")
    broker.withdraw("t-q", "the agent gave up")
    answer = await asking
    assert (answer.outcome, answer.reason) == (Outcome.WITHDRAWN, "the agent gave up")


async def test_a_cancelled_asker_leaves_no_open_question() -> None:
    broker, watcher = Broker(Clock()), Watcher()
    broker.attach(watcher)
    asking = asyncio.create_task(broker.ask(question()))
    await watcher.shown.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert broker.open_questions == []
    assert watcher.gone == [("q", Outcome.WITHDRAWN)]


def test_an_answer_is_bound_to_everything_that_was_shown() -> None:
    base = question()
    decisions = [
        replace(base.decision, **{name: value})
        for name, value in [
            ("risk", Risk.HIGH),
            ("network", True),
            ("read_only", True),
            ("reasons", ()),
            ("rule_id", "r"),
        ]
    ]
    calls = [
        replace(base.call, tool_name="read_file"),
        replace(base.call, tool_params={"path": "b", "content": "b"}),
        replace(base.call, tool_params={"path": "a", "content": "c"}),
    ]
    others = [
        *(replace(base, decision=decision, binding="") for decision in decisions),
        *(replace(base, call=call, binding="") for call in calls),
        *(replace(base, **{name: "other"}, binding="") for name in ("workspace", "change", "profile", "rules")),
    ]
    bindings = {each.binding for each in (base, *others)}
    assert len(bindings) == 1 + len(others)
    asked_later = replace(base, id="later", deadline=9, call=replace(base.call, tool_id="t-later"), binding="")
    assert asked_later.binding == base.binding, "the same, asked about at another time"


async def test_an_answer_bound_to_something_else_does_not_count() -> None:
    broker, watcher = Broker(Clock()), Watcher()
    broker.attach(watcher)
    asking = asyncio.create_task(broker.ask(question()))
    await watcher.shown.wait()
    for binding in ("", "0" * 64, question().binding[:8]):
        assert not broker.answer("q", binding, YES)
    assert broker.answer("q", question().binding, NO)
    assert (await asking) is NO


def test_the_clock_goes_forward() -> None:
    assert clock() <= clock()
