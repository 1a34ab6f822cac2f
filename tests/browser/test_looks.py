"""What the page looks like, and that everybody can use it: light and dark, on a phone, without a mouse or eyes."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from client_agent import config
from tests.browser.conftest import House, open_house
from tests.integration.daemon.conftest import World


async def fill(house: House) -> None:
    """Something of everything on the page."""
    root = house.world.root
    (root / "src").mkdir(exist_ok=True)
    (root / "src/greeting.py").write_text(
        '"""Greets."""\n\nGREETING = "hello"\n\n\ndef greet(name):\n    return GREETING\n'
    )
    for _ in range(4):
        await house.ask("read_file", path="src/greeting.py")
    await house.ask("read_file", path="../secrets.txt")
    await house.command("rules.preset", name="look-ups", on=True)
    await house.command("rules.add", rule={"auto_approve": False, "tool_pattern": "delete_*", "priority": 100})
    text = (root / "src/greeting.py").read_text().replace("(name)", "(name: str) -> str").replace("GREETING\n", "X\n")
    better = text.replace("return X", 'return f"{GREETING}, {name}"')
    house.ask("write_file", path="src/greeting.py", content=better)
    await expect(house.page.get_by_role("article")).to_be_visible()
    house.ask("write_file", path="deploy.sh", content="#!/bin/sh\nmake release\n")
    house.ask("write_file", path="notes.md", content="# Notes\n")
    await expect(house.page.get_by_text("2 more waiting")).to_be_visible()


async def check(page: Page) -> list[dict[str, Any]]:
    await page.evaluate("Promise.all(document.getAnimations().map((animation) => animation.finished))")
    found = await Axe().run(page)
    return [each for each in found.response["violations"] if each["impact"] in ("serious", "critical", "moderate")]


PHONE = {"width": 390, "height": 844}
LOOKS = [("light", None), ("dark", None), ("light", PHONE), ("dark", PHONE)]


@pytest.mark.parametrize(("scheme", "viewport"), LOOKS)
async def test_every_view_is_accessible(
    world: World, browser: Browser, scheme: str, viewport: dict[str, int] | None
) -> None:
    options = {"color_scheme": scheme, **({"viewport": viewport} if viewport else {})}
    async with open_house(world, browser, **options) as house:
        page = house.page
        assert await check(page) == [], "empty"
        await fill(house)
        await expect(page.get_by_role("button", name="Allow once")).to_be_enabled()
        assert await check(page) == [], "a question"
        await page.keyboard.press("j")
        await expect(page.get_by_role("article")).to_contain_text("HIGH")
        await expect(page.get_by_role("button", name="Allow once")).to_be_enabled()
        assert await check(page) == [], "a HIGH question"
        for key in "a?":
            await page.keyboard.press(key)
            await expect(page.get_by_role("dialog")).to_be_visible()
            assert await check(page) == [], f"the dialog of {key}"
            await page.keyboard.press("Escape")
        await page.locator("#links summary").click()
        assert await check(page) == [], "connections"
        await page.locator("#links summary").click()
        await page.keyboard.press("2")
        await page.locator(".calls summary").first.click()
        assert await check(page) == [], "activity"
        await page.keyboard.press("3")
        await page.get_by_role("button", name="Add a rule").click()
        assert await check(page) == [], "rules"
        await page.get_by_role("button", name="Cancel").click()
        await page.keyboard.press("4")
        assert await check(page) == [], "grants"
        await house.command("stop")
        await expect(page.get_by_role("alert")).to_be_visible()
        assert await check(page) == [], "no daemon"


async def test_the_page_fits_a_phone(world: World, browser: Browser) -> None:
    async with open_house(world, browser, viewport={"width": 360, "height": 740}) as house:
        await fill(house)
        await house.page.get_by_role("button", name="Allow once").wait_for()
        for view in ("Questions", "Activity", "Rules", "Grants"):
            await house.page.get_by_role("button", name=view, exact=view != "Questions").first.click()
            wide = await house.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 360, view


async def test_the_answers_stay_in_sight_however_long_the_change(world: World, browser: Browser) -> None:
    async with open_house(world, browser, viewport=PHONE) as house:
        house.ask("write_file", path="a.md", content="\n".join(f"line {number}" for number in range(500)))
        await expect(house.page.get_by_text("204 lines are not shown in full")).to_be_attached()
        for name in ("Allow once", "Refuse"):
            await expect(house.page.get_by_role("button", name=name)).to_be_in_viewport()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pictures_of_the_page(
    world: World, browser: Browser, scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make screenshots` keeps them in docs/pictures/."""
    place = Path(os.environ.get("CLIENT_AGENT_PICTURES", tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(config, "local_workspace", partial(_in_the_shop, config.local_workspace))
    world.root = tmp_path / "shop"
    world.root.mkdir()
    async with open_house(world, browser, color_scheme=scheme, viewport={"width": 960, "height": 780}) as house:
        await fill(house)
        await expect(house.page.get_by_role("article")).to_contain_text("in w (~/shop)")
        await expect(house.page.get_by_role("button", name="Allow once")).to_be_enabled()
        views = ("questions", "activity", "rules") if scheme == "light" else ("questions",)
        for key, view in enumerate(views, start=1):
            await house.page.keyboard.press(str(key))
            await house.page.wait_for_load_state("networkidle")
            picture = place / (f"{view}.png" if scheme == "light" else f"{view}-dark.png")
            await house.page.screenshot(path=picture, animations="disabled")
            assert picture.stat().st_size > 10_000


def _in_the_shop(make: Callable[..., config.Workspace], root: Path, **more: Any) -> config.Workspace:
    """A directory as people write it, rather than one of a test."""
    return msgspec.structs.replace(make(root, **more), root="~/shop")
