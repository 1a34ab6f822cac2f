"""Several workspaces in one daemon, on servers of their own: whatever happens to one, the others do not notice."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from client_agent import config, workspace_agent
from client_agent.approvals.questions import Answer, Outcome, Scope
from client_agent.daemon import Daemon
from client_agent.errors import ConfigError
from client_agent.link.connection import ServerConnection
from client_agent.link.status import LinkState
from client_agent.local_api.operations import Operations
from client_agent.protocol import routes
from client_agent.reload import FileSource
from client_agent.server.auth import issue_token
from client_agent.server.runner import running
from client_agent.server.settings import ServerSettings
from tests.integration.daemon.conftest import SECRET, USER, World
from tests.integration.daemon.test_reload import connected, until


class Two:
    """Two projects, `one` and `two`, each on a server of its own; a third table may be added."""

    def __init__(self, world: World, url: str, agent: httpx.AsyncClient) -> None:
        self.world = world
        self.urls = {"one": world.url, "two": url}
        self.agents = {"one": world.agent, "two": agent}
        self.path = world.root.parent / "config.toml"
        self.roots = {name: world.root.parent / name for name in self.urls}
        for root in self.roots.values():
            root.mkdir()
            (root / "name.md").write_text(root.name)

    def table(self, name: str, server: str = "") -> str:
        root = self.world.root.parent / name
        return f'[workspaces.{name}]\nroot = "{root}"\nproject_id = "{name}"\nserver = "{server or self.urls[name]}"\n'

    @contextlib.asynccontextmanager
    async def running(self, *tables: str) -> AsyncIterator[Daemon]:
        self.path.write_text("\n".join(tables))
        daemon = Daemon(FileSource(self.path), self.world.state, self.world.broker)
        ready = asyncio.Event()
        task = asyncio.create_task(daemon.run(ready.set))
        try:
            await asyncio.wait_for(ready.wait(), 20)
            yield daemon
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def execute(self, name: str, tool: str, **params: Any) -> dict[str, Any]:
        body = {"tool_name": tool, "tool_params": params, "session_id": "s"}
        response = await self.agents[name].post(routes.fill(routes.TOOLS_EXECUTE, project_id=name), json=body)
        result: dict[str, Any] = response.json()
        return result

    async def name_in(self, name: str) -> str:
        result = await self.execute(name, "read_file", path="name.md")
        return str(result["result"]["content"])


@pytest.fixture
async def two(world: World, tmp_path: Path) -> AsyncIterator[Two]:
    settings = ServerSettings(jwt_secret=SECRET, port=0, database_url=f"sqlite:///{tmp_path / 'second.db'}")
    headers = {"Authorization": f"Bearer {issue_token(SECRET, USER, agent_id='agent')}"}
    async with running(settings) as url, httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as agent:
        yield Two(world, url, agent)


def closed_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def states(daemon: Daemon) -> dict[str, str]:
    return {name: str(each["state"]) for name, each in Operations(daemon).status()["workspaces"].items()}


async def test_two_projects_on_two_servers_each_work_in_their_own_directory(two: Two) -> None:
    async with two.running(two.table("one"), two.table("two")) as daemon:
        await connected(daemon, "one")
        await connected(daemon, "two")
        assert await asyncio.gather(two.name_in("one"), two.name_in("two")) == ["one", "two"]
        outside = await two.execute("one", "read_file", path=str(two.roots["two"] / "name.md"))
        assert outside["status"] == "failed"


async def test_a_grant_in_one_workspace_is_none_in_another(two: Two) -> None:
    person = two.world.person
    person.says = Answer(outcome=Outcome.APPROVED, scope=Scope.SESSION, by="person")
    async with two.running(two.table("one"), two.table("two")) as daemon:
        await connected(daemon, "one")
        await connected(daemon, "two")
        for content in ("a", "b"):
            assert (await two.execute("one", "write_file", path="new.md", content=content))["status"] == "completed"
        assert len(person.asked) == 1
        assert (await two.execute("two", "write_file", path="new.md", content="c"))["status"] == "completed"
        assert [each.workspace for each in person.asked] == ["one", "two"]


async def test_a_dead_server_holds_up_nobody_else(two: Two) -> None:
    async with two.running(two.table("one"), two.table("two", closed_port())) as daemon:
        await connected(daemon, "one")
        assert await two.name_in("one") == "one"
        await until(lambda: states(daemon)["two"] == LinkState.RETRYING)
        assert Operations(daemon).status()["workspaces"]["two"]["detail"]


async def test_a_token_that_one_server_refuses_is_that_workspaces_trouble_alone(two: Two, tmp_path: Path) -> None:
    other = ServerSettings(jwt_secret="o" * 48, port=0, database_url=f"sqlite:///{tmp_path / 'other.db'}")
    async with running(other) as url, two.running(two.table("one"), two.table("two", url)) as daemon:
        await connected(daemon, "one")
        await until(lambda: states(daemon)["two"] == LinkState.UNAUTHORIZED)
        assert await two.name_in("one") == "one"


async def test_a_directory_that_is_missing_is_told_and_used_as_soon_as_it_is_there(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client_agent.reload.RECHECK_S", 0.2)
    elsewhere = two.roots["two"].rename(two.roots["two"].with_name("elsewhere"))
    async with two.running(two.table("one"), two.table("two")) as daemon:
        await connected(daemon, "one")
        assert states(daemon)["two"] == LinkState.FAILED
        assert "a directory that exists" in Operations(daemon).status()["workspaces"]["two"]["detail"]
        assert await two.name_in("one") == "one"
        elsewhere.rename(two.roots["two"])
        await connected(daemon, "two")
        assert await two.name_in("two") == "two"
        assert daemon.configuration.pending is None


async def test_a_proxy_that_cannot_be_used_fails_a_workspace_and_not_the_daemon(two: Two) -> None:
    async with two.running('[link]\nproxy = "socks5://127.0.0.1:1"\n', two.table("one")) as daemon:
        await until(lambda: states(daemon)["one"] == LinkState.FAILED)
        assert "link.proxy" in Operations(daemon).status()["workspaces"]["one"]["detail"]
        two.path.write_text(two.table("one"))
        await until(lambda: daemon.configuration.pending)
        assert daemon.configuration.pending is not None
        await daemon.configuration.confirm(daemon.configuration.pending.digest)
        await connected(daemon, "one")


async def test_what_nobody_expected_ends_one_workspace_which_is_begun_again(
    two: Two, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(workspace_agent, "RETRY_MIN_S", 0.05)
    broken = asyncio.Event()
    tries: list[None] = []
    deliver = workspace_agent.Courier.run

    async def run(courier: workspace_agent.Courier) -> None:
        if two.urls["two"] in str(courier._connection._server) and not broken.is_set():  # type: ignore[attr-defined]
            tries.append(None)
            raise RuntimeError("a fault of ours")
        await deliver(courier)

    monkeypatch.setattr(workspace_agent.Courier, "run", run)
    async with two.running(two.table("one"), two.table("two")) as daemon:
        await connected(daemon, "one")
        await until(lambda: states(daemon)["two"] == LinkState.FAILED)
        assert "a fault of ours" in Operations(daemon).status()["workspaces"]["two"]["detail"]
        connection: ServerConnection = daemon.workspaces["one"].connection
        assert await two.name_in("one") == "one"
        await until(lambda: len(tries) >= 3)
        assert len([each for each in caplog.records if "a fault of ours" in each.getMessage()]) == 1
        broken.set()
        await connected(daemon, "two")
        assert await two.name_in("two") == "two"
        assert daemon.workspaces["one"].connection is connection


async def test_a_change_of_one_workspace_is_not_noticed_by_another(two: Two) -> None:
    async with two.running(two.table("one"), two.table("two")) as daemon:
        await connected(daemon, "one")
        await connected(daemon, "two")
        agents = dict(daemon.workspaces)
        connection = agents["one"].connection
        two.path.write_text(two.table("one"))
        await until(lambda: "two" not in daemon.workspaces)
        assert daemon.workspaces == {"one": agents["one"]}
        assert agents["one"].connection is connection
        assert await two.name_in("one") == "one"


async def test_a_workspace_moved_to_another_server_waits_and_then_works_there(two: Two) -> None:
    async with two.running(two.table("one")) as daemon:
        await connected(daemon, "one")
        two.path.write_text(two.table("one", two.urls["two"]))
        await until(lambda: daemon.configuration.pending)
        assert await two.name_in("one") == "one"
        assert daemon.configuration.pending is not None
        await daemon.configuration.confirm(daemon.configuration.pending.digest)
        await until(lambda: daemon.workspaces["one"].server == two.urls["two"])
        await connected(daemon, "one")


def test_a_workspace_inside_another_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for outer, inner in (("a", "a/b"), ("a", "a"), ("a/b", "link")):
        path = tmp_path / "config.toml"
        path.write_text(
            f'[workspaces.x]\nroot = "{tmp_path / outer}"\nproject_id = "p"\nserver = "http://127.0.0.1"\n'
            f'[workspaces.y]\nroot = "{tmp_path / inner}"\nproject_id = "q"\nserver = "http://127.0.0.1"\n'
        )
        with pytest.raises(ConfigError, match="lies in that of"):
            config.load_usable(path)


def test_when_no_workspace_can_be_used_the_daemon_does_not_start(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f'[workspaces.x]\nroot = "{tmp_path / "none"}"\nproject_id = "p"\nserver = "http://127.0.0.1"\n')
    daemon = Daemon(FileSource(path), tmp_path / "state", World.__new__(World))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a directory that exists"):
        asyncio.run(daemon.run())
