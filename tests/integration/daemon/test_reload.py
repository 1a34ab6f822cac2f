"""A changed configuration, while a real daemon works: in force, left aside, or waiting for the user."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from client_agent.approvals.questions import Answer, Outcome
from client_agent.daemon import Daemon
from client_agent.errors import UserError
from client_agent.link.status import LinkState
from client_agent.local_api.operations import Operations
from client_agent.reload import BASELINE_FILE, FileSource
from tests.integration.daemon.conftest import PROJECT, World


class Configured:
    """A daemon whose settings come from a file."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.path = world.root.parent / "config.toml"
        self.write()

    def write(self, more: str = "", *, before: str = "") -> None:
        lines = f'{before}\n[workspaces.w]\nroot = "{self.world.root}"\nproject_id = "{PROJECT}"\n'
        text = f'{lines}server = "{self.world.url}"\n{more}\n'
        draft = self.path.with_suffix(".draft")
        draft.write_text(text)
        draft.replace(self.path)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Daemon]:
        daemon = Daemon(FileSource(self.path), self.world.state, self.world.broker)
        ready = asyncio.Event()
        task = asyncio.create_task(daemon.run(ready.set))
        try:
            async with asyncio.timeout(20):
                await ready.wait()
                if "w" in daemon.workspaces:
                    await connected(daemon, "w")
            yield daemon
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error


async def connected(daemon: Daemon, name: str) -> None:
    await until(lambda: name in daemon.workspaces and daemon.workspaces[name].status.state is LinkState.CONNECTED)


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


def status(daemon: Daemon) -> dict[str, Any]:
    return Operations(daemon).status()


def deny_of(daemon: Daemon) -> tuple[str, ...]:
    return daemon.configuration.in_force.workspaces["w"].policy.deny


@pytest.fixture
def configured(world: World) -> Configured:
    (world.root / "a.md").write_text("text")
    return Configured(world)


async def test_a_tighter_file_is_in_force_for_the_next_call_on_the_same_connection(configured: Configured) -> None:
    world = configured.world
    async with configured.running() as daemon:
        connection = daemon.workspaces["w"].connection
        assert (await world.execute("read_file", path="a.md"))["status"] == "completed"
        configured.write('[workspaces.w.policy]\ndeny = ["a.md"]')
        await until(lambda: deny_of(daemon))
        refused = await world.execute("read_file", path="a.md")
        assert refused["status"] == "failed"
        assert status(daemon)["configuration"] == {"problem": None, "pending": None}
        assert daemon.workspaces["w"].connection is connection


async def test_a_broken_file_leaves_the_last_good_one_in_force_and_says_so_once(
    configured: Configured, caplog: pytest.LogCaptureFixture
) -> None:
    world = configured.world
    configured.write('[workspaces.w.policy]\ndeny = ["b.md"]')
    async with configured.running() as daemon:
        for text in ("[workspaces.w\n", "[workspaces.w\n", "[workspaces.w\n"):
            configured.path.write_text(text)
            await daemon.configuration.reread()
        problem = status(daemon)["configuration"]["problem"]
        assert "not valid TOML" in problem
        assert str(configured.path) in problem
        assert len([each for each in caplog.records if "last good one stays" in each.message]) == 1
        assert deny_of(daemon) == ("b.md",)
        assert (await world.execute("read_file", path="a.md"))["status"] == "completed"
        configured.write()
        configured.write('[workspaces.w.policy]\ndeny = ["b.md", "c.md"]')
        await until(lambda: deny_of(daemon) == ("b.md", "c.md"))
        assert status(daemon)["configuration"]["problem"] is None


async def test_a_file_that_is_gone_or_empty_changes_nothing(configured: Configured) -> None:
    async with configured.running() as daemon:
        configured.path.unlink()
        await until(lambda: status(daemon)["configuration"]["problem"])
        assert "no such file" in status(daemon)["configuration"]["problem"]
        configured.path.write_text("")
        await until(lambda: "no workspaces" in (status(daemon)["configuration"]["problem"] or ""))
        assert "w" in daemon.workspaces


async def test_a_wider_file_waits_until_exactly_what_was_shown_is_confirmed(configured: Configured) -> None:
    world = configured.world
    configured.write('[workspaces.w.policy]\ndeny = ["a.md"]')
    async with configured.running() as daemon:
        operations = Operations(daemon)
        configured.write()
        await until(lambda: status(daemon)["configuration"]["pending"])
        shown = status(daemon)["configuration"]["pending"]
        assert shown["widenings"] == [{"key": "workspaces.w.policy.deny", "text": "no longer refused: a.md"}]
        assert (await world.execute("read_file", path="a.md"))["status"] == "failed"

        configured.write("[workspaces.w.sandbox]\nmechanism = 'none'")
        await until(lambda: status(daemon)["configuration"]["pending"]["digest"] != shown["digest"])
        with pytest.raises(UserError, match="not what was shown"):
            await operations.perform("config.confirm", {"digest": shown["digest"]}, "page")
        assert deny_of(daemon) == ("a.md",)

        configured.write()
        told = await operations.perform("config.show", {}, "page")
        assert told["pending"]["digest"] == shown["digest"]
        await operations.perform("config.confirm", {"digest": shown["digest"]}, "page")
        assert (await world.execute("read_file", path="a.md"))["status"] == "completed"
        assert status(daemon)["configuration"]["pending"] is None
        with pytest.raises(UserError, match="nothing waits"):
            await operations.perform("config.confirm", {"digest": shown["digest"]}, "page")
        await asyncio.to_thread(daemon.journal.flush)
    assert '"CONFIGURE"' in (world.state / "audit.jsonl").read_text()


async def test_a_declined_change_is_left_aside_until_it_is_another_or_confirmed_after_all(
    configured: Configured,
) -> None:
    world = configured.world
    configured.write('[workspaces.w.policy]\ndeny = ["a.md"]')
    async with configured.running() as daemon:
        operations = Operations(daemon)
        configured.write()
        shown = (await operations.perform("config.show", {}, "page"))["pending"]
        with pytest.raises(UserError, match="not what was shown"):
            await operations.perform("config.decline", {"digest": "0" * 64}, "page")
        await operations.perform("config.decline", {"digest": shown["digest"]}, "page")
        assert (await operations.perform("config.show", {}, "page"))["pending"] == {**shown, "declined": True}
        assert deny_of(daemon) == ("a.md",)
        configured.write("[workspaces.w.sandbox]\nmechanism = 'none'")
        assert not (await operations.perform("config.show", {}, "page"))["pending"]["declined"]
        configured.write()
        again = (await operations.perform("config.show", {}, "page"))["pending"]
        assert (again["digest"], again["declined"]) == (shown["digest"], False)
        await operations.perform("config.decline", {"digest": shown["digest"]}, "page")
        await operations.perform("config.confirm", {"digest": shown["digest"]}, "page")
        assert deny_of(daemon) == ()
        await asyncio.to_thread(daemon.journal.flush)
    noted = [msgspec.json.decode(line) for line in (world.state / "audit.jsonl").read_bytes().splitlines()]
    assert [each["status"] for each in noted if each["operation"] == "CONFIGURE"] == ["denied", "denied", "success"]


async def test_what_waits_still_waits_after_a_restart(configured: Configured) -> None:
    configured.write('[workspaces.w.policy]\ndeny = ["a.md"]')
    async with configured.running() as daemon:
        configured.write()
        await until(lambda: daemon.configuration.pending)
        assert ((configured.world.state / BASELINE_FILE).stat().st_mode & 0o777) == 0o600
    async with configured.running() as daemon:
        pending = daemon.configuration.pending
        assert pending is not None
        assert deny_of(daemon) == ("a.md",)
        await daemon.configuration.confirm(pending.digest)
    async with configured.running() as daemon:
        assert daemon.configuration.pending is None
        assert deny_of(daemon) == ()
    assert not (configured.world.state / BASELINE_FILE).exists()


async def test_when_it_cannot_be_told_what_was_confirmed_everything_waits(configured: Configured) -> None:
    configured.world.state.mkdir(exist_ok=True)
    (configured.world.state / BASELINE_FILE).write_text("{")
    async with configured.running() as daemon:
        assert daemon.workspaces == {}
        assert daemon.configuration.pending is not None
        await daemon.configuration.confirm(daemon.configuration.pending.digest)
        await connected(daemon, "w")


async def test_a_file_changed_while_no_daemon_ran_is_taken_as_it_is(configured: Configured) -> None:
    configured.write('[workspaces.w.policy]\ndeny = ["a.md"]')
    async with configured.running():
        pass
    configured.write()
    async with configured.running() as daemon:
        assert daemon.configuration.pending is None
        assert deny_of(daemon) == ()


async def test_the_workspaces_own_file_is_followed_and_waits_to_be_loosened(configured: Configured) -> None:
    world = configured.world
    own = world.root / ".client-agent.toml"
    async with configured.running() as daemon:
        own.write_text('[policy]\ndeny = ["a.md"]\n')
        await until(lambda: deny_of(daemon) == ("a.md",))
        assert (await world.execute("read_file", path="a.md"))["status"] == "failed"
        own.write_text("[policy\n")
        await until(lambda: daemon.configuration.problems)
        assert "not valid TOML" in daemon.configuration.problems["w"]
        assert "not valid TOML" in status(daemon)["configuration"]["problem"]
        assert deny_of(daemon) == ("a.md",)
        own.unlink()
        await until(lambda: daemon.configuration.pending)
        assert daemon.configuration.problems == {}
        assert status(daemon)["configuration"]["problem"] is None
        assert deny_of(daemon) == ("a.md",)


async def test_a_call_under_way_ends_under_the_old_settings_and_runs_once(configured: Configured) -> None:
    world = configured.world
    async with configured.running() as daemon:
        script = "import time; open('ran.txt', 'a').write('x'); time.sleep(1); print('done')"
        call = {"command": "python3", "args": ["-c", script]}
        running = asyncio.create_task(world.execute("execute_command", **call))
        await until((world.root / "ran.txt").exists)
        configured.write('[workspaces.w.policy]\nremove_programs = ["python3", "python"]')
        await until(lambda: daemon.configuration.in_force.workspaces["w"].policy.remove_programs)
        refused = await world.execute("execute_command", **call)
        assert refused["status"] == "rejected"
        assert "python3" in refused["error"]
        done = await running
        assert (done["status"], done["result"]["stdout"]) == ("completed", "done\n")
    assert (world.root / "ran.txt").read_text() == "x"


async def test_a_yes_to_what_was_tightened_meanwhile_lets_nothing_run(configured: Configured) -> None:
    world = configured.world
    world.person.says = None
    async with configured.running() as daemon:
        writing = asyncio.create_task(world.execute("write_file", path="new.md", content="text"))
        await asyncio.wait_for(world.person.was_asked.wait(), 20)
        configured.write('[workspaces.w.policy]\ndeny = ["new.md"]')
        await until(lambda: deny_of(daemon))
        assert world.person.answer_last(Answer(outcome=Outcome.APPROVED, by="person"))
        done = await writing
    assert done["status"] == "rejected"
    assert len(world.person.asked) == 1
    assert not (world.root / "new.md").exists()


async def test_settings_of_the_connection_are_changed_by_connecting_anew(configured: Configured) -> None:
    world = configured.world
    world.person.says = None
    async with configured.running() as daemon:
        connection = daemon.workspaces["w"].connection
        writing = asyncio.create_task(world.execute("write_file", path="new.md", content="text"))
        await asyncio.wait_for(world.person.was_asked.wait(), 20)
        configured.write(before="[link]\nheartbeat_deadline_s = 30\n")
        await until(lambda: daemon.workspaces["w"].connection is not connection)
        await connected(daemon, "w")
        assert world.person.answer_last(Answer(outcome=Outcome.APPROVED, by="person"))
        assert (await writing)["status"] == "completed"
    assert len(world.person.asked) == 1


async def test_a_workspace_that_is_taken_out_ends_after_its_running_call_and_can_come_back(
    configured: Configured, tmp_path: Path
) -> None:
    world = configured.world
    (tmp_path / "other").mkdir()
    other = f'[workspaces.other]\nroot = "{tmp_path / "other"}"\nproject_id = "q"\nserver = "{world.url}"\n'
    configured.write(other)
    async with configured.running() as daemon:
        script = "import time; open('ran.txt', 'a').write('x'); time.sleep(1); print('done')"
        running = asyncio.create_task(world.execute("execute_command", command="python3", args=["-c", script]))
        await until((world.root / "ran.txt").exists)
        configured.path.write_text(other)
        await until(lambda: "w" not in daemon.workspaces)
        assert (await running)["status"] == "completed"
        configured.write(other)
        await until(lambda: daemon.configuration.pending)
        assert daemon.configuration.pending is not None
        await daemon.configuration.confirm(daemon.configuration.pending.digest)
        await connected(daemon, "w")
        assert (await world.execute("read_file", path="a.md"))["status"] == "completed"
    assert (world.root / "ran.txt").read_text() == "x"


async def test_a_change_that_the_system_does_not_tell_of_is_seen_all_the_same(
    configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def tells_nothing(*paths: Path, **options: Any) -> AsyncIterator[set[Any]]:
        while True:
            await asyncio.sleep(0.01)
            yield set()

    monkeypatch.setattr("watchfiles.awatch", tells_nothing)
    async with configured.running() as daemon:
        configured.write('[workspaces.w.policy]\ndeny = ["a.md"]')
        await until(lambda: deny_of(daemon) == ("a.md",))


async def test_a_confinement_that_changes_while_the_question_is_open_has_it_asked_again(configured: Configured) -> None:
    world = configured.world
    world.person.says = None
    async with configured.running() as daemon:
        asking = asyncio.create_task(world.execute("write_file", path="b.md", content="x"))
        async with asyncio.timeout(20):
            await world.person.was_asked.wait()
            world.person.was_asked.clear()
            configured.write("[workspaces.w.limits]\ncpu_max_s = 7")
            await until(lambda: daemon.configuration.in_force.workspaces["w"].limits.cpu_max_s == 7)
            world.person.answer_last(Answer(outcome=Outcome.APPROVED, by="person"))
            await world.person.was_asked.wait()
        first, second = world.person.asked
        assert (first.decision, first.change) == (second.decision, second.change)
        assert first.profile != second.profile
        world.person.answer_last(Answer(outcome=Outcome.APPROVED, by="person"))
        assert (await asking)["status"] == "completed"
