"""Open questions, and the one answer each of them gets.

Channels (the terminal, the page, a watching command) watch the broker: they are told when a question opens and when
it is gone, and any of them may answer. The first answer counts; to all the others the question has disappeared.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from client_agent.approvals.pauses import Pauses, explain
from client_agent.approvals.questions import Answer, Outcome, Question

_NOBODY = Answer(outcome=Outcome.NOBODY, reason="nobody can be asked")
# Waiting is cut into slices, since the event loop's clock stands still while the machine sleeps and ours does not.
_SLICE_S = 5.0


def clock() -> float:
    """Seconds on a clock that counts sleep: a question does not stay open because the lid was closed."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.time()


class Channel(Protocol):
    """A way to reach the user."""

    def opened(self, question: Question) -> None: ...

    def closed(self, question: Question, answer: Answer) -> None: ...


def _always(question: Question) -> bool:
    return True


class Broker:
    """Asks the user, through whichever channels are attached."""

    def __init__(self, now: Callable[[], float] = clock) -> None:
        self.now = now
        self.pauses = Pauses()
        self._channels: list[Channel] = []
        self._presence: dict[int, Callable[[Question], bool]] = {}
        self._open: dict[str, tuple[Question, asyncio.Future[Answer]]] = {}

    def attach(self, channel: Channel, present: Callable[[Question], bool] = _always) -> None:
        """From now on this channel is told of questions. `present` says whether it can reach a person with one."""
        self._channels.append(channel)
        self._presence[id(channel)] = present
        for question, _ in self._open.values():
            channel.opened(question)

    def detach(self, channel: Channel) -> None:
        self._channels.remove(channel)
        del self._presence[id(channel)]

    @property
    def attended(self) -> bool:
        """Whether a channel is attached that has a person before it, whatever is asked: a terminal."""
        return _always in self._presence.values()

    @property
    def open_questions(self) -> list[Question]:
        return [question for question, _ in self._open.values()]

    def find(self, question_id: str) -> Question | None:
        entry = self._open.get(question_id)
        return entry[0] if entry is not None else None

    async def ask(self, question: Question) -> Answer:
        """Waits for the first answer, or for the time to run out. With nobody to ask, answers at once."""
        if (pause := self.pauses.find(question)) is not None:
            return Answer(outcome=Outcome.REJECTED, reason=explain(pause))
        if not self._reaches_somebody(question):
            return _NOBODY
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[question.id] = (question, future)
        for channel in self._channels:
            channel.opened(question)
        answer = Answer(outcome=Outcome.WITHDRAWN)
        try:
            answer = self.pauses.note(question, await self._wait(question, future))
        finally:
            del self._open[question.id]
            for channel in self._channels:
                channel.closed(question, answer)
        return answer

    def _reaches_somebody(self, question: Question) -> bool:
        return any(self._presence[id(channel)](question) for channel in self._channels)

    def drop_unreachable(self) -> None:
        """A channel can reach nobody any more: what no other can ask either is answered at once."""
        for question, future in self._open.values():
            if not future.done() and not self._reaches_somebody(question):
                future.set_result(_NOBODY)

    async def _wait(self, question: Question, future: asyncio.Future[Answer]) -> Answer:
        while not future.done():
            left_s = question.deadline - self.now()
            if left_s <= 0:
                return Answer(outcome=Outcome.TIMED_OUT, reason="Approval timeout")
            await asyncio.wait([future], timeout=min(left_s, _SLICE_S))
        return future.result()

    def answer(self, question_id: str, binding: str, answer: Answer) -> bool:
        """Whether this was the answer that counted. One that is bound to something else than is asked does not."""
        entry = self._open.get(question_id)
        if entry is None or entry[1].done() or entry[0].deadline <= self.now() or entry[0].binding != binding:
            return False
        entry[1].set_result(answer)
        return True

    def withdraw(self, tool_id: str, reason: str) -> None:
        """The server no longer wants this call: its question goes away unanswered."""
        for question, future in self._open.values():
            if question.call.tool_id == tool_id and not future.done():
                future.set_result(Answer(outcome=Outcome.WITHDRAWN, reason=reason))
