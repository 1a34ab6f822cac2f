"""What happens, pushed to whoever watches: a channel of the broker, and an eye on calls, rules and connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from client_agent.approvals.honest import reveal, reveal_lines
from client_agent.approvals.questions import Answer, Question
from client_agent.local_api.messages import encode_event
from client_agent.local_api.shown import pack_question, show_line, show_session, show_target
from client_agent.policy.decision import Decision
from client_agent.protocol.calls import Call
from client_agent.protocol.results import CallResult
from client_agent.protocol.states import CallState

# Calls can end by the thousand; a person sees no difference between at once and this.
_GATHER_S = 0.05
_MAX_GATHERED = 500
# Output can come by the megabyte; what is beyond this between two messages is counted and left out.
_MAX_OUTPUT_CHARS = 32_000


class Watcher(Protocol):
    """A connection that wants to be told."""

    packed: bool  # questions as they are, for a terminal to draw, rather than a line each

    def push(self, message: bytes) -> None: ...


class Feed:
    """Everybody who watches. Costs nothing while nobody does."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._watchers: list[Watcher] = []
        self._gathered: dict[tuple[str, str], dict[str, Any]] = {}
        self._outputs: dict[tuple[str, str, str], _Output] = {}
        self._output_chars = 0
        self._flush: asyncio.TimerHandle | None = None

    @property
    def watched(self) -> bool:
        return bool(self._watchers)

    def add(self, watcher: Watcher) -> None:
        if watcher not in self._watchers:
            self._watchers.append(watcher)

    def remove(self, watcher: Watcher) -> None:
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def tell(self, event: str, data: Any) -> None:
        if self._watchers:
            message = encode_event(event, data)
            for watcher in list(self._watchers):
                watcher.push(message)

    # As a channel of the broker.

    def opened(self, question: Question) -> None:
        for packed in {watcher.packed for watcher in self._watchers}:
            data = pack_question(question) if packed else show_line(question, self._now())
            message = encode_event("question_opened", data)
            for watcher in [each for each in self._watchers if each.packed is packed]:
                watcher.push(message)

    def closed(self, question: Question, answer: Answer) -> None:
        data = {"id": question.id, "outcome": answer.outcome.value, "by": answer.by, "reason": reveal(answer.reason)}
        self.tell("question_closed", data)

    # As the eye on calls.

    def note_call(self, workspace: str, call: Call, **facts: Any) -> None:
        if not self._watchers:
            return
        row = self._gathered.setdefault(
            (workspace, call.tool_id),
            {
                "workspace": workspace,
                "tool_id": reveal(call.tool_id),
                "tool": reveal(call.tool_name),
                "target": show_target(call, 500),
                "session": show_session(call.session_id),
            },
        )
        row.update(facts)
        self._tell_soon()

    def note_output(self, workspace: str, tool_id: str, stream: str, text: str) -> None:
        """What a command has just written."""
        if not self._watchers:
            return
        output = self._outputs.setdefault((workspace, tool_id, stream), _Output())
        kept = text[: _MAX_OUTPUT_CHARS - self._output_chars]
        self._output_chars += len(kept)
        output.pieces.append(kept)
        output.left_out += len(text) - len(kept)
        self._tell_soon()

    def _tell_soon(self) -> None:
        if len(self._gathered) + len(self._outputs) >= _MAX_GATHERED:
            self._tell_gathered()
        elif self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(_GATHER_S, self._tell_gathered)

    def _tell_gathered(self) -> None:
        """Output first: who hears that a call has ended has heard what it wrote."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        outputs, calls = self._outputs, list(self._gathered.values())
        self._outputs, self._output_chars, self._gathered = {}, 0, {}
        if outputs:
            self.tell("output", [_show_output(*key, output) for key, output in outputs.items()])
        if calls:
            self.tell("activity", calls)


class _Output:
    """What one stream of a command gave since the last message."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.left_out = 0


def _show_output(workspace: str, tool_id: str, stream: str, output: _Output) -> dict[str, Any]:
    """Honest text, but for line ends and tabs, which a command's output is made of."""
    plain = "".join(output.pieces).replace("\r\n", "\n").replace("\t", "    ")
    return {
        "workspace": workspace,
        "tool_id": reveal(tool_id),
        "stream": stream,
        "text": "\n".join(reveal_lines(plain)),
        "left_out": output.left_out,
    }


class Recorder(Protocol):
    """Where the steps of a call are recorded (see `dispatch.Recorder`)."""

    def decided(self, call: Call, decision: Decision) -> None: ...

    def approved(self, call: Call, answer: Answer | None) -> None: ...

    async def begin(self, call: Call) -> None: ...

    async def finish(self, call: Call, state: CallState, result: CallResult, answer: Answer | None) -> None: ...


class WatchedRecorder:
    """Records as the one within does, and tells the feed."""

    def __init__(self, workspace: str, within: Recorder, feed: Feed) -> None:
        self._workspace = workspace
        self._within = within
        self._feed = feed

    def decided(self, call: Call, decision: Decision) -> None:
        self._within.decided(call, decision)
        if not self._feed.watched:
            return
        self._feed.note_call(
            self._workspace,
            call,
            risk=decision.risk.name,
            verdict=decision.verdict.value,
            code=decision.code,
            state="AWAITING_APPROVAL" if decision.verdict.value == "ask" else "PENDING",
        )

    def approved(self, call: Call, answer: Answer | None) -> None:
        self._within.approved(call, answer)
        self._feed.note_call(self._workspace, call, state="APPROVED", approver=answer.by if answer else None)

    async def begin(self, call: Call) -> None:
        await self._within.begin(call)
        self._feed.note_call(self._workspace, call, state="EXECUTING")

    async def finish(self, call: Call, state: CallState, result: CallResult, answer: Answer | None) -> None:
        await self._within.finish(call, state, result, answer)
        if not self._feed.watched:
            return
        failure = result.failure.code if result.failure else None
        self._feed.note_call(
            self._workspace, call, state=state.value, failure=failure, approver=answer.by if answer else None
        )
