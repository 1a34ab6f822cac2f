"""One workspace used from the command line: the same decisions and tools, without a server."""

from __future__ import annotations

import asyncio
from typing import Any

from client_agent import config
from client_agent.approvals.broker import Broker
from client_agent.approvals.permissions import Permissions
from client_agent.approvals.questions import Answer, Outcome, Question
from client_agent.assembly import Ground
from client_agent.dispatch import Dispatcher
from client_agent.journal.writes import Writes
from client_agent.policy.decision import Decision
from client_agent.policy.rules import Explanation
from client_agent.protocol.calls import Call
from client_agent.protocol.results import CallResult
from client_agent.protocol.states import CallState
from client_agent.tools import TOOLS


class _Unrecorded:
    """What a person types at their own prompt is not a server's call: the journal has no part in it."""

    def decided(self, call: Call, decision: Decision) -> None: ...

    def approved(self, call: Call, answer: Answer | None) -> None: ...

    async def begin(self, call: Call) -> None: ...

    async def finish(self, call: Call, state: CallState, result: CallResult, answer: Answer | None) -> None: ...


class _Yes:
    """The channel behind `--approve`: the person has said yes on the command line."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def opened(self, question: Question) -> None:
        self._broker.answer(question.id, question.binding, Answer(outcome=Outcome.APPROVED, by="command line"))

    def closed(self, question: Question, answer: Answer) -> None: ...


class LocalWorkspace:
    """Checks and carries out calls one after another."""

    def __init__(
        self,
        name: str,
        workspace: config.Workspace,
        permissions: Permissions | None = None,
        undo: config.Undo | None = None,
    ) -> None:
        self._writes = Writes(config.state_dir(), undo or config.Undo())
        self._ground = Ground(name, workspace, writes=self._writes)
        self._runner = asyncio.Runner()
        self._broker = Broker()
        self._yes = _Yes(self._broker)
        self._dispatcher = Dispatcher(
            name,
            self._ground.terms,
            broker=self._broker,
            recorder=_Unrecorded(),
            tools=TOOLS,
            permissions=permissions,
        )

    def __enter__(self) -> LocalWorkspace:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._ground.close())
        self._runner.close()
        self._writes.close()

    def check(self, call: Call) -> Decision:
        return self._runner.run(self._dispatcher.decide(call))

    def explain(self, call: Call) -> Explanation:
        """Which rule decides the call, and which others would."""
        return self._dispatcher.explain(call)

    def call(self, call: Call, *, approve: bool) -> dict[str, Any]:
        """What became of the call, with the decision behind it."""
        decision = self.check(call)
        if approve:
            self._broker.attach(self._yes)
        try:
            result = self._runner.run(self._dispatcher.carry_out(call))
        finally:
            if approve:
                self._broker.detach(self._yes)
        wire = result.to_wire()
        code = result.failure.code if result.failure else decision.code
        return {**wire, "success": result.failure is None, **decision.to_json(), "code": code}
