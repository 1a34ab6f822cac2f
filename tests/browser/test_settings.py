"""A changed configuration that allows more, on the page: seen, put in force, declined."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.browser.conftest import House, open_house
from tests.browser.test_looks import check
from tests.integration.daemon.conftest import World
from tests.integration.daemon.test_reload import Configured

TIGHT = '[workspaces.w.policy]\ndeny = ["a.md", "b.md"]\n'
WIDER = '[workspaces.w.policy]\ndeny = ["b.md"]\n'


@contextlib.asynccontextmanager
async def open_configured(
    world: World, browser: Browser, **options: Any
) -> AsyncIterator[tuple[House, Callable[[str], None]]]:
    """A house whose settings come from a file; and what changes the file."""
    configured = Configured(world)
    configured.write(TIGHT)
    for name in ("a.md", "b.md"):
        (world.root / name).write_text("x")
    async with open_house(world, browser, running=configured.running, **options) as house:
        yield house, configured.write


async def reads(house: House, path: str) -> str:
    return str((await house.ask("read_file", path=path))["status"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_what_a_change_allows_is_shown_and_in_force_after_a_click(
    world: World, browser: Browser, scheme: str
) -> None:
    async with open_configured(world, browser, color_scheme=scheme) as (house, change):
        change(WIDER)
        card = house.page.get_by_role("region", name="The changed configuration allows more")
        await expect(card).to_contain_text("workspaces.w.policy.deny")
        await expect(card).to_contain_text("no longer refused: a.md")
        await expect(house.page.locator("#news")).to_contain_text("waits for your word")
        assert await reads(house, "a.md") == "failed"
        await expect(card.get_by_role("button", name="Put it in force")).to_be_enabled()
        assert await check(house.page) == []
        await card.get_by_role("button", name="Put it in force").click()
        await expect(card).to_have_count(0)
        assert await reads(house, "a.md") == "completed"
        assert await reads(house, "b.md") == "failed"


async def test_a_declined_change_stays_out_of_force_and_can_be_looked_at_again(world: World, browser: Browser) -> None:
    async with open_configured(world, browser) as (house, change):
        change(WIDER)
        await house.page.get_by_role("button", name="Decline").click()
        left = house.page.get_by_text("You declined a change of the configuration")
        await expect(left).to_be_visible()
        await expect(house.page.get_by_role("button", name="Put it in force")).to_be_hidden()
        assert await reads(house, "a.md") == "failed"
        change("[workspaces.w.policy]\ndeny = []\n")  # another change is another question
        card = house.page.get_by_role("region", name="The changed configuration allows more")
        await expect(card).to_contain_text("no longer refused: b.md")
        await card.get_by_role("button", name="Decline").click()
        await left.click()
        assert await check(house.page) == []
        await house.page.get_by_role("button", name="Put it in force").click()
        await expect(left).to_have_count(0)
        assert await reads(house, "a.md") == "completed"


async def test_a_change_answered_in_the_terminal_leaves_the_page(world: World, browser: Browser) -> None:
    async with open_configured(world, browser) as (house, change):
        change(WIDER)
        card = house.page.get_by_role("region", name="The changed configuration allows more")
        await expect(card).to_be_visible()
        pending = (await house.command("config.show"))["pending"]
        await house.command("config.decline", digest=pending["digest"])
        await expect(card).to_have_count(0)
        change(TIGHT)  # put back: nothing waits any more
        await expect(house.page.get_by_text("You declined")).to_have_count(0)


async def test_a_file_that_cannot_be_used_is_told(world: World, browser: Browser) -> None:
    async with open_configured(world, browser) as (house, change):
        change("[workspaces.w.policy]\ndeny = 7\n")
        await expect(house.page.get_by_role("alert")).to_contain_text("the last good one stays in force")
        await expect(house.page.get_by_role("alert")).to_contain_text("workspaces.w.policy.deny")
        change(TIGHT)
        await expect(house.page.get_by_role("alert")).to_have_count(0)
