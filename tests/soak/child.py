"""The real daemon as a process of its own, which kills itself where it is told to. The product knows nothing of it.

python -m tests.soak.child URL ROOT STATE APPROVALS [before|after:POINT:COUNT]
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from client_agent import config
from client_agent.approvals.broker import Broker
from client_agent.approvals.questions import Answer, Outcome, Question
from client_agent.daemon import Daemon
from client_agent.journal.ledger import Ledger
from client_agent.journal.outbox import Outbox
from client_agent.journal.storage import SqliteStorage
from client_agent.link import delivery
from client_agent.link.connection import ServerConnection
from client_agent.protocol.tools import ExecuteCommand
from client_agent.tools import ToolContext
from client_agent.tools.execute_command import ExecuteCommandTool
from client_agent.tools.write_file import WriteFileTool
from client_agent.workspace_agent import WorkspaceAgent

PROJECT = "project-1"
# Each step of a call, and the function that takes it.
POINTS: dict[str, tuple[tuple[type, str], ...]] = {
    "received": ((WorkspaceAgent, "_handle"),),
    "journalled": ((Ledger, "admit"),),
    "asked": ((Broker, "ask"),),
    "approved": ((Ledger, "approve"),),
    "started": ((Ledger, "begin"),),
    "exited": ((WriteFileTool, "run"), (ExecuteCommandTool, "run")),
    "stored": ((Ledger, "finish"),),
    "posted": ((ServerConnection, "post_result"),),
    "acknowledged": ((Outbox, "mark_delivered"),),
    "event id saved": ((SqliteStorage, "save"),),
}


def arm(text: str) -> None:
    """Makes the process die, as by `kill -9`, before or after the step is taken for the n-th time."""
    moment, point, count = text.split(":")
    left = [int(count)]

    def tick(now: str) -> None:
        if now == moment:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    for owner, name in POINTS[point]:
        setattr(owner, name, _ticking(getattr(owner, name), tick))


def _ticking(step: Callable[..., Any], tick: Callable[[str], None]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(step):

        @functools.wraps(step)
        async def wrapped_async(*args: Any, **options: Any) -> Any:
            tick("before")
            result = await step(*args, **options)
            tick("after")
            return result

        return wrapped_async

    @functools.wraps(step)
    def wrapped(*args: Any, **options: Any) -> Any:
        tick("before")
        result = step(*args, **options)
        tick("after")
        return result

    return wrapped


class Person:
    """Says yes after a moment, and no to what is named so. Every yes is in a file before it is given."""

    def __init__(self, broker: Broker, approvals: Path) -> None:
        self._broker = broker
        self._file = os.open(approvals, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def opened(self, question: Question) -> None:
        asyncio.get_running_loop().call_later(random.random() * 0.05, self._answer, question)

    def closed(self, question: Question, answer: Answer) -> None: ...

    def _answer(self, question: Question) -> None:
        outcome = Outcome.REJECTED if "no-" in str(question.call.tool_params) else Outcome.APPROVED
        if outcome is Outcome.APPROVED:
            with contextlib.suppress(OSError):  # on a full disk: what then runs all the same is found unapproved
                os.write(self._file, f"{question.call.tool_id}\n".encode())
        self._broker.answer(question.id, question.binding, Answer(outcome=outcome, by="person"))


def count_commands(starts: Path) -> None:
    """Every start of a command is in this file before it happens: what only looks leaves no trace of its own."""
    file = os.open(starts, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    run = ExecuteCommandTool.run

    @functools.wraps(run)
    async def counted(tool: ExecuteCommandTool, params: ExecuteCommand, context: ToolContext) -> dict[str, Any]:
        os.write(file, f"{context.permit.tool_id}\n".encode())
        return await run(tool, params, context)

    ExecuteCommandTool.run = counted  # type: ignore[method-assign]


async def work(url: str, root: Path, state: Path, approvals: Path) -> None:
    workspace = config.local_workspace(root, server=url, project_id=PROJECT)
    link = config.Link(heartbeat_deadline_s=3, reconnect_max_s=1)
    delivery.RETRY_MAX_S = 1.0
    broker = Broker()
    broker.attach(Person(broker, approvals))
    await Daemon(config.Settings(workspaces={"w": workspace}, link=link), state, broker).run()


if __name__ == "__main__":
    address, *places = sys.argv[1:5]
    count_commands(Path(places[2]).with_name("starts.log"))
    if len(sys.argv) > 5:
        arm(sys.argv[5])
    asyncio.run(work(address, *(Path(place) for place in places)))
