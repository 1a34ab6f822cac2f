"""A real browser before a real page, daemon and server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from client_agent.daemon import Daemon
from client_agent.local_api.client import connecting
from tests.integration.daemon.conftest import World, open_world

HERE = Path(__file__).parent

# A name that somebody else made to point at this machine, as a rebinding attack does.
REBOUND = "rebound.example"
FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1",
]


# How long a machine that does much else at the same time may take. Nothing is proven by how soon it is there.
expect.set_options(timeout=30_000)


def find_browser() -> str:
    chosen = os.environ.get("CLIENT_AGENT_CHROMIUM")
    found = chosen or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found, "these tests need a browser: apt-get install chromium, or set CLIENT_AGENT_CHROMIUM"
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One event loop for all of these tests, so that they can share a browser: starting one takes longer than most."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        yield opened
        await opened.close()


class House:
    """The world with its page open. `ask` lets the agent ask for something without waiting for the outcome."""

    def __init__(self, world: World, page: Page) -> None:
        self.world = world
        self.page = page
        self.problems: list[str] = []
        self._asking: list[asyncio.Task[dict[str, Any]]] = []

    def ask(self, tool: str, session: str = "s1", **params: Any) -> asyncio.Task[dict[str, Any]]:
        task = asyncio.create_task(self.world.execute(tool, session, **params))
        self._asking.append(task)
        return task

    async def leave(self) -> None:
        """Nobody waits for an answer any more."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    async def command(self, op: str, **args: Any) -> Any:
        return await asyncio.to_thread(command, self.world.state, op, **args)


async def is_connected(page: Page) -> None:
    await expect(page.locator("#links summary")).to_have_text("w: connected")


def command(state: Path, op: str, **args: Any) -> Any:
    """What a command would ask of the daemon."""
    with connecting(state) as daemon:
        return daemon.request(op, **args)


@contextlib.asynccontextmanager
async def open_house(
    world: World,
    browser: Browser,
    *,
    medium_timeout_s: float = 300.0,
    running: Callable[[], AbstractAsyncContextManager[Daemon]] | None = None,
    **options: Any,
) -> AsyncIterator[House]:
    """The person at the terminal is gone; the page is all there is."""
    if world.person in world.broker._channels:
        world.broker.detach(world.person)
    async with running() if running else world.running_daemon(medium_timeout_s=medium_timeout_s):
        url = (await asyncio.to_thread(command, world.state, "page.open"))["url"]
        context = await browser.new_context(**options)
        context.set_default_timeout(30_000)
        page = await context.new_page()
        house = House(world, page)
        page.on("pageerror", lambda error: house.problems.append(str(error)))
        page.on("console", lambda message: message.type == "error" and house.problems.append(message.text))
        try:
            await page.goto(url)
            await is_connected(page)
            yield house
        finally:
            await house.leave()
            await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with open_world(tmp_path, monkeypatch) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def house(world: World, browser: Browser) -> AsyncIterator[House]:
    async with open_house(world, browser) as opened:
        yield opened
        # The one 401 is the page before its ticket is exchanged.
        assert [text for text in opened.problems if "401" not in text] == []
