"""A real server that may misbehave, a real daemon in this process, and a person who answers at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from client_agent import config
from client_agent.approvals.broker import Broker
from client_agent.approvals.questions import Answer, Outcome, Question
from client_agent.daemon import Daemon
from client_agent.link import delivery
from client_agent.link.status import LinkState
from client_agent.protocol import routes
from client_agent.server.auth import issue_token
from client_agent.server.faults import Fault, FaultPlan
from client_agent.server.faulty import running_with_faults
from client_agent.server.settings import ServerSettings
from client_agent.workspace_agent import WorkspaceAgent

SECRET = "s" * 48
USER = "user-1"
PROJECT = "project-1"


class Person:
    """Says yes at once, or nothing at all."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.answers = True
        self.asked: list[Question] = []

    def opened(self, question: Question) -> None:
        self.asked.append(question)
        if self.answers:
            self._broker.answer(question.id, question.binding, Answer(outcome=Outcome.APPROVED, by="person"))

    def closed(self, question: Question, answer: Answer) -> None: ...


class Laptop:
    """One workspace with its daemon, which is told of a server only when it is started."""

    def __init__(self, base: Path) -> None:
        self.root = base / "workspace"
        self.root.mkdir()
        self.state = base / "state"
        self.broker = Broker()
        self.person = Person(self.broker)
        self.broker.attach(self.person)

    @contextlib.asynccontextmanager
    async def running(self, url: str, **link: Any) -> AsyncIterator[WorkspaceAgent]:
        workspace = config.local_workspace(self.root, server=url, project_id=PROJECT)
        settings = config.Settings(
            workspaces={"w": workspace}, link=config.Link(**{"heartbeat_deadline_s": 2, "reconnect_max_s": 1, **link})
        )
        daemon = Daemon(settings, self.state, self.broker)
        ready = asyncio.Event()
        task = asyncio.create_task(daemon.run(ready.set))
        try:
            async with asyncio.timeout(20):
                await ready.wait()
                agent = daemon.workspaces["w"]
                await agent.connection.wait_until(lambda status: status.state is LinkState.CONNECTED)
            yield agent
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error


class Agent:
    """Asks the server for calls, again when the server is not there."""

    def __init__(self, url: str) -> None:
        self._headers = {"Authorization": f"Bearer {issue_token(SECRET, USER, agent_id='agent')}"}
        self._user = {"Authorization": f"Bearer {issue_token(SECRET, USER)}"}
        self._url = url

    async def request(self, method: str, path: str, body: Any = None, *, user: bool = False) -> Any:
        """The answer's JSON, from as many tries as it takes."""
        async with asyncio.timeout(40):
            while True:
                with contextlib.suppress(httpx.TransportError):
                    async with httpx.AsyncClient(base_url=self._url, timeout=30) as http:
                        headers = self._user if user else self._headers
                        response = await http.request(method, path, json=body, headers=headers)
                    if response.status_code == 200:
                        return response.json()
                await asyncio.sleep(0.1)

    async def submit(self, tool: str, **params: Any) -> str:
        path = routes.fill(routes.TOOLS_EXECUTE, project_id=PROJECT) + "?wait=false"
        reply = await self.request("POST", path, {"tool_name": tool, "tool_params": params, "session_id": "s"})
        return str(reply["tool_id"])

    async def outcome(self, tool_id: str) -> dict[str, Any]:
        """The call's record, once it has ended."""
        async with asyncio.timeout(40):
            while True:
                record = await self.request("GET", f"/my/projects/{PROJECT}/tools/{tool_id}")
                if record["status"] in ("completed", "failed", "rejected", "timeout"):
                    return dict(record)
                await asyncio.sleep(0.05)

    async def execute(self, tool: str, **params: Any) -> dict[str, Any]:
        return await self.outcome(await self.submit(tool, **params))

    async def say(self, content: str) -> None:
        await self.request("POST", routes.fill(routes.MESSAGES, project_id=PROJECT), {"content": content}, user=True)


@contextlib.asynccontextmanager
async def serving(base: Path, *faults: Fault, seed: int = 1) -> AsyncIterator[str]:
    settings = ServerSettings(
        jwt_secret=SECRET, port=0, database_url=f"sqlite:///{base / 'server.db'}", heartbeat_s=0.5, retry_ms=100
    )
    async with running_with_faults(settings, FaultPlan(seed=seed, faults=faults)) as url:
        yield url


@pytest.fixture
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laptop:
    monkeypatch.setenv("CLIENT_AGENT_TOKEN", issue_token(SECRET, USER))
    monkeypatch.setenv("CLIENT_AGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CLIENT_AGENT_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setattr(delivery, "RETRY_MAX_S", 1.0)
    return Laptop(tmp_path)
