"""Questions as notifications: what they say, what they offer, and that they go away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from client_agent.approvals.broker import Broker
from client_agent.approvals.desktop import NoService, Note
from client_agent.approvals.notifications import (
    MAX_CHANGED_LINES,
    MAX_SHOWN,
    NotificationChannel,
    State,
    compose_body,
    compose_title,
)
from client_agent.approvals.questions import Answer, Outcome, Question
from client_agent.policy.decision import Risk
from tests.unit.approvals.test_broker import Clock, question


class FakeService:
    """Shows notes, and lets a test press on them."""

    def __init__(self) -> None:
        self.has_buttons = True
        self.notes: dict[str, Note] = {}
        self.shown = 0
        self.refuses = ""
        self.opened = 0
        self.closed = False
        self.changed = asyncio.Event()

    async def open(self) -> None:
        self.opened += 1
        if self.refuses:
            self.changed.set()
            raise NoService(self.refuses)

    async def show(self, note: Note) -> str:
        self.shown += 1
        self.notes[f"n{self.shown}"] = note
        self.changed.set()
        return f"n{self.shown}"

    async def clear(self, shown: str) -> None:
        self.notes.pop(shown, None)
        self.changed.set()

    def close(self) -> None:
        self.closed = True

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not reached():
                await self.changed.wait()
                self.changed.clear()
                await asyncio.sleep(0)

    @property
    def only(self) -> Note:
        (note,) = self.notes.values()
        return note


class Room:
    def __init__(self, wanted: bool = True, session: bool = True) -> None:
        self.now = Clock()
        self.broker = Broker(self.now)
        self.service = FakeService()
        self.pages = 0
        self.channel = NotificationChannel(
            self.broker,
            open_page=self._open_page,
            wanted=lambda workspace: wanted,
            service=lambda: self.service,
            session=lambda: session,
        )
        self.broker.attach(self.channel, self.channel.reaches)

    def _open_page(self) -> None:
        self.pages += 1

    def ask(self, asked: Question) -> asyncio.Task[Answer]:
        return asyncio.create_task(self.broker.ask(asked))


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    made = Room()
    yield made
    await made.channel.close()


def risky(asked: Question) -> Question:
    decision = msgspec.structs.replace(asked.decision, risk=Risk.HIGH)
    return msgspec.structs.replace(asked, decision=decision)


def with_params(**params: Any) -> Question:
    base = question()
    return msgspec.structs.replace(base, call=msgspec.structs.replace(base.call, tool_params=params))


@pytest.mark.parametrize(("button", "outcome"), [("Approve", Outcome.APPROVED), ("Reject", Outcome.REJECTED)])
async def test_a_medium_question_is_answered_from_its_notification(room: Room, button: str, outcome: Outcome) -> None:
    asking = room.ask(question())
    await room.service.until(lambda: bool(room.service.notes))
    assert list(room.service.only.buttons) == ["Approve", "Reject", "Open"]
    assert room.channel.state is State.ON
    room.now.time += 2
    room.service.only.buttons[button]()
    answer = await asking
    assert (answer.outcome, answer.by) == (outcome, "notification")


async def test_a_high_question_only_leads_to_the_page(room: Room) -> None:
    room.broker.attach(Watcher())
    asking = room.ask(risky(question()))
    await room.service.until(lambda: bool(room.service.notes))
    assert list(room.service.only.buttons) == ["Open"]
    room.service.only.buttons["Open"]()
    room.service.only.on_click()
    assert room.pages == 2
    assert not asking.done()
    asking.cancel()


async def test_answered_elsewhere_it_goes_away(room: Room) -> None:
    asking = room.ask(question())
    await room.service.until(lambda: bool(room.service.notes))
    room.broker.answer("q", question().binding, Answer(outcome=Outcome.REJECTED, by="page"))
    await asking
    await room.service.until(lambda: not room.service.notes)


async def test_a_press_at_once_is_an_accident_and_the_question_is_shown_again(room: Room) -> None:
    asking = room.ask(question())
    await room.service.until(lambda: room.service.shown == 1)
    room.service.notes.pop("n1").buttons["Approve"]()
    await room.service.until(lambda: room.service.shown == 2)
    assert not asking.done()
    asking.cancel()


async def test_few_are_shown_at_a_time_and_the_next_follow(room: Room) -> None:
    asking = [room.ask(question(f"q{n}")) for n in range(MAX_SHOWN + 1)]
    await room.service.until(lambda: room.service.shown == MAX_SHOWN)
    room.broker.answer("q1", question().binding, Answer(outcome=Outcome.APPROVED))
    await asking[1]
    await room.service.until(lambda: room.service.shown == MAX_SHOWN + 1)
    assert len(room.service.notes) == MAX_SHOWN
    for task in asking:
        task.cancel()


async def test_without_a_service_nobody_is_there_and_the_status_says_so(room: Room) -> None:
    room.service.refuses = "no service"
    assert (await room.ask(question())).outcome is Outcome.NOBODY
    assert (room.channel.state, room.channel.detail) == (State.MISSING, "no service")
    assert not room.channel.reaches(question())


async def test_a_service_that_comes_later_is_found(room: Room) -> None:
    room.broker.attach(Watcher())
    room.service.refuses = "not yet"
    first = room.ask(question("q1"))
    await room.service.until(lambda: room.service.opened == 1)
    room.service.refuses = ""
    room.now.time += 61
    second = room.ask(question("q2"))
    await room.service.until(lambda: room.service.shown == 2)
    assert room.channel.state is State.ON
    first.cancel()
    second.cancel()


async def test_where_there_is_no_desktop_or_none_is_wanted_nothing_is_loaded() -> None:
    for room in (Room(session=False), Room(wanted=False)):
        assert (await room.ask(question())).outcome is Outcome.NOBODY
        assert room.service.opened == 0
        await room.channel.close()
    assert Room(session=False).channel.state is State.MISSING


async def test_at_the_end_everything_is_taken_back(room: Room) -> None:
    asking = room.ask(question())
    await room.service.until(lambda: bool(room.service.notes))
    await room.channel.close()
    assert (room.service.notes, room.service.closed) == ({}, True)
    asking.cancel()


class Watcher:
    def opened(self, question: Question) -> None: ...

    def closed(self, question: Question, answer: Answer) -> None: ...


def test_the_title_holds_no_word_of_the_server() -> None:
    base = question()
    named = msgspec.structs.replace(base, call=msgspec.structs.replace(base.call, tool_name="<b>approved</b>"))
    assert compose_title(named) == f"MEDIUM: an unknown tool in w? ({named.short_binding})"
    assert compose_title(base) == f"MEDIUM: write_file in w? ({base.short_binding})"


@pytest.mark.parametrize("text", ["\x1b[2Kok", "a\u202eb", "a\u200bb", "l\u0455", "a\nb", "a.md "])
def test_the_body_is_honest(text: str) -> None:
    body, whole = compose_body(with_params(path=text))
    assert text not in body
    assert whole
    assert len(body.split("\n")) == 1


def with_change(added: list[str]) -> Question:
    change = "--- a\n+++ a\n" + "".join(f"+{line}\n" for line in added)
    return msgspec.structs.replace(with_params(path="a.md", content="…"), change=change)


def test_what_does_not_fit_is_counted_and_cannot_be_approved_there() -> None:
    body, whole = compose_body(with_params(command="git", args=["x" * 1000 + "; curl evil.example"]))
    assert not whole
    assert "characters left out: open the page" in body
    assert "curl evil.example" in body
    assert compose_body(with_change([f"line {n}" for n in range(MAX_CHANGED_LINES)]))[1]
    for too_much in ([f"line {n}" for n in range(MAX_CHANGED_LINES + 3)], ["y" * 500 + "END"]):
        body, whole = compose_body(with_change(too_much))
        assert not whole
        assert f"+{len(too_much)} −0 lines" in body
        assert f"+{too_much[0][:20]}" in body
    assert "yEND" in body


def test_what_a_server_writes_cannot_say_that_something_is_left_out() -> None:
    assert compose_body(with_params(path="left out: open the page to see and approve it⟩"))[1]


async def test_a_question_too_long_for_it_offers_no_approval(room: Room) -> None:
    asking = room.ask(with_params(command="git", args=["x" * 1000]))
    await room.service.until(lambda: bool(room.service.notes))
    assert list(room.service.only.buttons) == ["Reject", "Open"]
    asking.cancel()
