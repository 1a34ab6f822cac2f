"""What the calls of a workspace are decided and executed under."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec

from client_agent.policy.judge import Judge
from client_agent.tools import ToolContext


class Terms:
    """What calls are decided and executed under, for as long as the workspace's settings stay the same."""

    def __init__(self, context: ToolContext, judge: Judge) -> None:
        self.context = context
        self.judge = judge
        confining = [context.workspace.sandbox, context.workspace.limits]
        self.profile = hashlib.sha256(msgspec.json.encode(confining, order="deterministic")).hexdigest()
        self.slots = asyncio.Semaphore(context.workspace.limits.calls_in_flight)
        self._holders = 0
        self._unheld = asyncio.Event()
        self._unheld.set()

    def __enter__(self) -> ToolContext:
        """Whoever uses them holds them: what they are made of is not closed before."""
        self._holders += 1
        self._unheld.clear()
        return self.context

    def __exit__(self, *error: object) -> None:
        self._holders -= 1
        if not self._holders:
            self._unheld.set()

    async def wait_until_unheld(self) -> None:
        await self._unheld.wait()
