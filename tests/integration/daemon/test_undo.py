"""Undo through the daemon's door: what an agent wrote, taken back by the person, and never by the server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from client_agent.errors import UserError
from client_agent.local_api.client import connecting
from tests.integration.daemon.conftest import World


async def command(world: World, op: str, **args: Any) -> Any:
    def ask() -> Any:
        with connecting(world.state) as daemon:
            return daemon.request(op, **args)

    return await asyncio.to_thread(ask)


async def test_an_agents_write_is_previewed_undone_and_redone(world: World) -> None:
    (world.root / "a.md").write_text("one\n")
    async with world.running_daemon() as daemon:
        response = await world.execute("write_file", path="a.md", content="two\n")
        tool_id = response["tool_id"]
        (listed,) = (await command(world, "undo.list"))["writes"]
        assert (listed["id"], listed["path"], listed["what"], listed["undone_by"]) == (tool_id, "a.md", "changed", None)
        preview = await command(world, "undo.preview", id=tool_id[:8])
        assert preview["action"] == "restore"
        assert {"-two", "+one"} <= set(preview["change"]["lines"])
        assert (world.root / "a.md").read_text() == "two\n"
        undone = await command(world, "undo.apply", id=tool_id)
        assert (world.root / "a.md").read_text() == "one\n"
        assert (await command(world, "undo.list"))["writes"][1]["undone_by"] == undone["id"]
        await command(world, "undo.apply", id=undone["id"], workspace="w")
        assert (world.root / "a.md").read_text() == "two\n"
        await asyncio.to_thread(daemon.journal.flush)
    log = (world.state / "audit.log").read_text()
    assert log.count("[UNDO]") == 2
    assert 'approver="command line"' in log


async def test_a_refused_undo_says_why_and_is_in_the_log(world: World) -> None:
    async with world.running_daemon() as daemon:
        tool_id = (await world.execute("write_file", path="a.md", content="x"))["tool_id"]
        (world.root / "a.md").write_text("mine")
        with pytest.raises(UserError, match="has changed since") as refused:
            await command(world, "undo.apply", id=tool_id)
        assert refused.value.code == "changed_since"
        assert (world.root / "a.md").read_text() == "mine"
        with pytest.raises(UserError) as unknown:
            await command(world, "undo.preview", id="nothing")
        assert unknown.value.code == "write_unknown"
        await asyncio.to_thread(daemon.journal.flush)
    assert "status=failed code=changed_since" in (world.state / "audit.log").read_text()


async def test_an_undo_survives_the_daemon_and_is_told_to_who_watches(world: World) -> None:
    async with world.running_daemon():
        tool_id = (await world.execute("write_file", path="new/a.md", content="x", create_dirs=True))["tool_id"]
    async with world.running_daemon():
        with connecting(world.state) as watching:
            await asyncio.to_thread(watching.request, "watch")
            undone = await command(world, "undo.apply", id=tool_id)
            assert list(world.root.iterdir()) == []
            while (message := await asyncio.to_thread(watching.receive)).get("event") != "undone":
                pass
            assert message["data"]["id"] == undone["id"]


async def test_no_server_can_undo(world: World) -> None:
    (world.root / "a.md").write_text("one")
    async with world.running_daemon():
        tool_id = (await world.execute("write_file", path="a.md", content="two"))["tool_id"]
        for tool, params in [("undo", {"id": tool_id}), ("undo.apply", {"id": tool_id})]:
            assert (await world.execute(tool, **params))["status"] in ("failed", "rejected")
        assert (world.root / "a.md").read_text() == "two"


async def test_a_failed_write_leaves_nothing_to_undo(world: World) -> None:
    (world.root / "a.md").write_text("one")
    async with world.running_daemon():
        response = await world.execute("write_file", path="a.md", content="two", expected_hash="0" * 64)
        assert response["status"] == "failed"
        assert (await command(world, "undo.list"))["writes"] == []
