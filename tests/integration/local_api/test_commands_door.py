"""The commands' door: what can be asked, and what comes of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from client_agent.approvals.questions import Answer, Outcome
from client_agent.errors import UserError
from client_agent.local_api.address import MAX_SOCKET_PATH_BYTES
from client_agent.local_api.client import Client, NoDaemon, connecting
from client_agent.local_api.lines import LineDoor
from tests.integration.daemon.conftest import World, world

__all__ = ["world"]


async def command(world: World, op: str, **args: Any) -> Any:
    def ask() -> Any:
        with connecting(world.state) as daemon:
            return daemon.request(op, **args)

    return await asyncio.to_thread(ask)


@pytest.fixture
async def quiet(world: World) -> AsyncIterator[World]:
    """A world in which the person is asked and says nothing."""
    world.person.says = None
    async with world.running_daemon():
        yield world


async def ask(world: World, **params: Any) -> asyncio.Task[dict[str, Any]]:
    world.person.was_asked.clear()
    asking = asyncio.create_task(world.execute("write_file", **params))
    async with asyncio.timeout(20):
        await world.person.was_asked.wait()
    return asking


async def test_status_says_what_is_true(quiet: World) -> None:
    told = await command(quiet, "status")
    assert told["workspaces"]["w"]["state"] == "connected"
    assert (told["questions"], told["paused"], told["journal_trouble"]) == (0, [], None)
    asking = await ask(quiet, path="a.md", content="x")
    told = await command(quiet, "status")
    assert (told["questions"], told["workspaces"]["w"]["calls_open"]) == (1, 1)
    quiet.person.answer_last(Answer(outcome=Outcome.APPROVED, by="person"))
    await asking


async def test_the_first_answer_counts_and_the_second_is_told_so(quiet: World) -> None:
    asking = await ask(quiet, path="a.md", content="x")
    (question,) = (await command(quiet, "questions.list"))["questions"]
    await command(
        quiet, "questions.answer", id=question["id"][:6], binding=question["binding"], answer="reject", reason="no need"
    )
    assert "no need" in (await asking)["error"]
    with pytest.raises(UserError) as refused:
        await command(quiet, "questions.answer", id=question["id"], binding=question["binding"], answer="approve")
    assert refused.value.code == "question_closed"
    assert quiet.person.answers[0].by == "command line"


async def test_an_answer_to_something_else_than_was_shown_does_not_count(quiet: World) -> None:
    asking = await ask(quiet, path="a.md", content="x")
    (question,) = (await command(quiet, "questions.list"))["questions"]
    with pytest.raises(UserError) as refused:
        await command(quiet, "questions.answer", id=question["id"], answer="approve", binding="0" * 64)
    assert refused.value.code == "binding_differs"
    await command(quiet, "questions.answer", id=question["id"], answer="approve", binding=question["binding"])
    assert (await asking)["status"] == "completed"


@pytest.mark.parametrize(
    ("op", "args", "code"),
    [
        ("nonsense", {}, "unknown_operation"),
        ("questions.answer", {"id": "x"}, "invalid_arguments"),
        ("questions.answer", {"id": "x", "answer": "maybe", "binding": ""}, "invalid_arguments"),
        ("questions.answer", {"id": "", "answer": "approve"}, "invalid_arguments"),
        ("questions.answer", {"id": "", "answer": "approve", "binding": ""}, "question_closed"),
        ("rules.add", {"rule": {"auto_approve": True, "priority": "high"}}, "rule_invalid"),
        ("rules.add", {"rule": {"auto_approve": True, "tool_name": "read_*"}}, "rule_invalid"),
        ("rules.edit", {"id": "none", "rule": {"auto_approve": True}}, "rule_unknown"),
        ("rules.remove", {"id": "none"}, "rule_unknown"),
        ("rules.preset", {"name": "none", "on": True}, "preset_unknown"),
    ],
)
async def test_what_cannot_be_done_is_said_and_the_door_stays_open(
    quiet: World, op: str, args: dict[str, Any], code: str
) -> None:
    with pytest.raises(UserError) as refused:
        await command(quiet, op, **args)
    assert refused.value.code == code
    assert (await command(quiet, "status"))["pid"]


async def test_rules_presets_and_grants_can_be_changed(quiet: World) -> None:
    told = await command(quiet, "rules.preset", name="write-text", on=True)
    assert [rule["note"] for rule in told["rules"]] == ["write-text"]
    assert (await quiet.execute("write_file", path="a.md", content="x"))["status"] == "completed"
    assert (await command(quiet, "rules.preset", name="write-text", on=False))["rules"] == []
    asking = await ask(quiet, path="b.md", content="x")
    (question,) = (await command(quiet, "questions.list"))["questions"]
    await command(
        quiet, "questions.answer", id=question["id"], binding=question["binding"], answer="approve", scope="class"
    )
    await asking
    (grant,) = (await command(quiet, "grants.list"))["grants"]
    assert await command(quiet, "grants.revoke", id=grant["id"]) == {"revoked": True}
    assert (await command(quiet, "grants.list"))["grants"] == []


async def test_activity_can_be_filtered_and_counted(quiet: World) -> None:
    (quiet.root / "a.txt").write_text("x")
    (quiet.root / "link").symlink_to(quiet.root.parent)
    await quiet.execute("read_file", path="a.txt")
    await quiet.execute("read_file", path="link/b.txt")
    assert quiet.daemon is not None
    await asyncio.to_thread(quiet.daemon.journal.flush)
    calls = (await command(quiet, "activity.list"))["calls"]
    assert [call["target"] for call in calls] == ["link/b.txt", "a.txt"]
    for filters, found in [
        ({"outcome": "ran"}, ["a.txt"]),
        ({"outcome": "refused"}, ["link/b.txt"]),
        ({"text": "A.TXT"}, ["a.txt"]),
        ({"risk": "HIGH"}, []),
        ({"tool": "write_file"}, []),
        ({"limit": 1}, ["link/b.txt"]),
    ]:
        told = await command(quiet, "activity.list", **filters)
        assert [call["target"] for call in told["calls"]] == found, filters
    plot = await command(quiet, "activity.plot")
    assert {kind: sum(counts) for kind, counts in plot["counts"].items()} == {
        "unasked": 1, "allowed": 0, "denied": 0, "refused": 1, "open": 0,
    }  # fmt: skip
    older = await command(quiet, "activity.list", limit=1)
    assert older["more"]
    last = await command(quiet, "activity.list", before=older["calls"][0]["at"])
    assert ([call["target"] for call in last["calls"]], last["more"]) == (["a.txt"], False)


async def test_a_watcher_is_told_of_questions_calls_and_changes(quiet: World) -> None:
    with connecting(quiet.state) as daemon:
        await asyncio.to_thread(daemon.request, "watch")
        asking = await ask(quiet, path="a.md", content="x")
        opened = await event(daemon, "question_opened")
        assert (opened["target"], opened["kind"]) == ("a.md", "write_file")
        assert "change" not in opened, "what is large is asked for"
        quiet.person.answer_last(Answer(outcome=Outcome.APPROVED, by="person"))
        await asking
        assert (await event(daemon, "question_closed"))["by"] == "person"
        rows = await event(daemon, "activity")
        while rows[-1]["state"] != "COMPLETED":
            rows = await event(daemon, "activity")
        await command(quiet, "rules.preset", name="tests", on=True)
        assert (await event(daemon, "permissions"))["rules"]


async def event(daemon: Client, name: str) -> Any:
    async with asyncio.timeout(20):
        while True:
            message = await asyncio.to_thread(daemon.receive)
            if message.get("event") == name:
                return message["data"]


async def test_nobody_there_and_unattended_set_to_reject_answers_at_once(world: World) -> None:
    world.broker.detach(world.person)
    async with world.running_daemon(unattended="reject"):
        assert "nobody can be asked" in (await world.execute("write_file", path="a.md", content="x"))["error"]
        with connecting(world.state) as daemon:
            await asyncio.to_thread(daemon.request, "watch")
            asking = asyncio.create_task(world.execute("write_file", path="a.md", content="x"))
            question = await event(daemon, "question_opened")
            await command(world, "questions.answer", id=question["id"], binding=question["binding"], answer="approve")
            assert (await asking)["status"] == "completed"


async def test_a_waiting_question_can_be_answered_by_who_comes_later(world: World) -> None:
    world.broker.detach(world.person)
    async with world.running_daemon():
        asking = asyncio.create_task(world.execute("write_file", path="a.md", content="x"))
        async with asyncio.timeout(20):
            while not (questions := (await command(world, "questions.list"))["questions"]):
                await asyncio.sleep(0.01)
        await command(
            world, "questions.answer", id=questions[0]["id"], binding=questions[0]["binding"], answer="approve"
        )
        assert (await asking)["status"] == "completed"


async def test_stop_ends_the_daemon(world: World) -> None:
    async with world.running_daemon():
        assert await command(world, "stop") == {"stopping": True}
        async with asyncio.timeout(20):
            while (world.state / "door.json").exists():
                await asyncio.sleep(0.01)
        with pytest.raises(NoDaemon):
            await command(world, "status")


async def test_a_state_directory_with_a_long_name_has_a_door(world: World) -> None:
    world.state = world.state / ("x" * MAX_SOCKET_PATH_BYTES)
    async with world.running_daemon():
        assert (await command(world, "status"))["pid"]


async def test_without_unix_sockets_a_token_is_asked_for(world: World) -> None:
    async with world.running_daemon() as daemon:
        from client_agent.local_api.door import Door

        state = world.state.parent / "other"
        state.mkdir()
        door = LineDoor(state, lambda: Door(daemon)._converse("command line"), unix=False)
        await door.open()
        try:
            assert (await asyncio.to_thread(read_status, state))["pid"]
            address = state / "door.json"
            address.write_bytes(address.read_bytes().replace(b'"token":"', b'"token":"x'))
            with pytest.raises(NoDaemon):
                await asyncio.to_thread(read_status, state)
        finally:
            await door.close()


def read_status(state: Path) -> Any:
    with connecting(state) as daemon:
        return daemon.request("status")


async def test_a_line_that_is_no_request_is_answered_and_one_without_end_cut_off(quiet: World) -> None:
    with connecting(quiet.state) as daemon:
        daemon.connection.sendall(b"nonsense\n")
        assert (await asyncio.to_thread(daemon.receive))["error"]["code"] == "malformed"
        with contextlib.suppress(OSError):
            await asyncio.to_thread(daemon.connection.sendall, b"x" * 1_000_000)
        with pytest.raises(NoDaemon):
            await asyncio.to_thread(daemon.receive)
