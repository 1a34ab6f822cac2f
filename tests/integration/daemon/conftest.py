"""A real server, a real daemon and an agent, all on loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from client_agent import config
from client_agent.approvals.broker import Broker
from client_agent.approvals.questions import Answer, Outcome, Question
from client_agent.daemon import Daemon
from client_agent.link.status import LinkState
from client_agent.protocol import routes
from client_agent.server.auth import issue_token
from client_agent.server.runner import running
from client_agent.server.settings import ServerSettings

SECRET = "s" * 48
USER = "user-1"
PROJECT = "project-1"


class Person:
    """Answers questions as told, and remembers them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.says: Answer | None = Answer(outcome=Outcome.APPROVED, by="person")
        self.asked: list[Question] = []
        self.answers: list[Answer] = []
        self.was_asked = asyncio.Event()

    def opened(self, question: Question) -> None:
        self.asked.append(question)
        self.was_asked.set()
        if self.says is not None:
            self._broker.answer(question.id, question.binding, self.says)

    def closed(self, question: Question, answer: Answer) -> None:
        self.answers.append(answer)

    def answer_last(self, answer: Answer) -> bool:
        return self._broker.answer(self.asked[-1].id, self.asked[-1].binding, answer)


class World:
    """One server, one project, one workspace."""

    def __init__(self, url: str, tmp_path: Path, client: httpx.AsyncClient) -> None:
        self.url = url
        self.agent = client
        self.root = tmp_path / "workspace"
        self.root.mkdir(exist_ok=True)
        self.state = tmp_path / "state"
        self.broker = Broker()
        self.person = Person(self.broker)
        self.broker.attach(self.person)
        self.daemon: Daemon | None = None

    @contextlib.asynccontextmanager
    async def running_daemon(
        self, *, unattended: str = "wait", medium_timeout_s: float = 300, **limits: int
    ) -> AsyncIterator[Daemon]:
        workspace = msgspec.structs.replace(
            config.local_workspace(self.root, server=self.url, project_id=PROJECT),
            limits=config.Limits(**limits),
            approvals=config.Approvals(unattended=unattended, medium_timeout_s=medium_timeout_s),  # type: ignore[arg-type]
        )
        daemon = Daemon(config.Settings(workspaces={"w": workspace}), self.state, self.broker)
        ready = asyncio.Event()
        task = asyncio.create_task(daemon.run(ready.set))
        try:
            async with asyncio.timeout(20):
                await ready.wait()
                await daemon.workspaces["w"].connection.wait_until(lambda s: s.state is LinkState.CONNECTED)
            self.daemon = daemon
            yield daemon
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def execute(self, tool: str, session: str = "s1", **params: Any) -> dict[str, Any]:
        path = routes.fill(routes.TOOLS_EXECUTE, project_id=PROJECT)
        body = {"tool_name": tool, "tool_params": params, "session_id": session}
        response = await self.agent.post(path, json=body)
        result: dict[str, Any] = response.json()
        return result


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with open_world(tmp_path, monkeypatch) as opened:
        yield opened


@contextlib.asynccontextmanager
async def open_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setenv("CLIENT_AGENT_TOKEN", issue_token(SECRET, USER))
    monkeypatch.setenv("CLIENT_AGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CLIENT_AGENT_CONFIG", str(tmp_path / "none.toml"))
    settings = ServerSettings(jwt_secret=SECRET, port=0, database_url=f"sqlite:///{tmp_path / 'server.db'}")
    headers = {"Authorization": f"Bearer {issue_token(SECRET, USER, agent_id='agent')}"}
    limits = httpx.Limits(max_connections=250)
    async with running(settings) as url:
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, limits=limits) as client:
            yield World(url, tmp_path, client)
