"""What the page says of connections is true: the server's, the daemon's, and whether it is the daemon at all."""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, expect
from websockets.asyncio.server import ServerConnection, serve

from client_agent.errors import JournalError
from client_agent.journal.journal import Journal
from client_agent.local_api.conversation import Conversation
from client_agent.server.runner import running
from client_agent.server.settings import ServerSettings
from tests.browser.conftest import House, open_house
from tests.integration.daemon.conftest import SECRET, World


async def test_a_server_that_is_lost_is_shown_so(world: World, browser: Browser) -> None:
    async with contextlib.AsyncExitStack() as another:
        database = f"sqlite:///{world.state.parent / 'another.db'}"
        settings = ServerSettings(jwt_secret=SECRET, port=0, database_url=database)
        world.url = await another.enter_async_context(running(settings))
        async with open_house(world, browser) as house:
            await another.aclose()
            summary = house.page.locator("#links summary")
            await expect(summary).to_have_text("w: not connected, trying again")
            await summary.click()
            await expect(house.page.locator("#links")).to_contain_text(world.url)
            await expect(house.page.locator("#links")).to_contain_text(world.root.name)


async def test_a_daemon_that_stopped_is_not_said_to_be_there(world: World, browser: Browser) -> None:
    async with open_house(world, browser) as house:
        house.ask("write_file", path="a.md", content="x")
        await expect(house.page.get_by_role("article")).to_be_visible()
        await house.command("stop")
        await expect(house.page.get_by_role("alert")).to_contain_text("The daemon does not answer")
        await expect(house.page.get_by_role("article")).to_have_count(0)
        await expect(house.page.locator("#links")).to_be_empty()


async def test_a_daemon_that_hangs_is_noticed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(self: Conversation, text: bytes) -> None: ...

    monkeypatch.setattr(Conversation, "take", hang)
    await expect(house.page.get_by_role("alert")).to_contain_text("The daemon does not answer")
    monkeypatch.undo()
    await expect(house.page.locator("#links summary")).to_have_text("w: connected")
    await expect(house.page.get_by_role("alert")).to_have_count(0)


async def test_another_program_on_the_port_learns_nothing_and_is_not_taken_for_the_daemon(
    world: World, browser: Browser
) -> None:
    heard: list[str] = []

    async def pretend(connection: ServerConnection) -> None:
        async for message in connection:
            heard.append(str(message))
            await connection.send('{"nonce": "0123456789abcdef", "proof": "0123456789abcdef"}')

    async with open_house(world, browser) as house:
        port = urlsplit(house.page.url).port
        key = await house.page.evaluate("sessionStorage.getItem('key')")
        assert key
        await house.command("stop")
        await expect(house.page.get_by_role("alert")).to_contain_text("The daemon does not answer")
        async with await listen_soon(pretend, port):
            await expect(house.page.get_by_role("alert")).to_contain_text("it is not the daemon")
        assert len(heard) == 1, "it heard a nonce and nothing else"
        assert key not in heard[0]
        await expect(house.page.locator("#links")).to_be_empty()


async def listen_soon(handler: object, port: int | None) -> object:
    async with asyncio.timeout(20):
        while True:
            try:
                return await serve(handler, "127.0.0.1", port)  # type: ignore[arg-type]
            except OSError:
                await asyncio.sleep(0.05)


async def test_a_record_that_cannot_be_kept_is_said(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "trouble", JournalError("the disk is full"))
    await expect(house.page.get_by_role("alert")).to_contain_text("nothing runs: the disk is full")
    monkeypatch.undo()
    await expect(house.page.get_by_role("alert")).to_have_count(0)
