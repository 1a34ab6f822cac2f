"""Being asked: from the server's signal to a question that a person sees on the page, in a real browser."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Page, async_playwright

from benchmarks.figures import Effort, Reading
from benchmarks.stage import BenchmarkFailed, Client, Stage, Work
from benchmarks.timing import summarize
from client_agent.local_api.client import connecting

OPEN = 1000
_FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-dev-shm-usage"]
_WAIT_MS = 30_000
_MIN_ROUNDS = 10
# Notes when a question has been painted: after the frame that has it. Its headline holds the moment of its signal.
_OBSERVE = """() => {
  window.seen = [];
  let last = null;
  new MutationObserver(() => {
    const card = document.querySelector("#question article");
    if (!card || card.dataset.id === last) return;
    last = card.dataset.id;
    const path = card.querySelector("h3 code").textContent;
    const note = () => seen.push([card.dataset.id, path, performance.timeOrigin + performance.now()]);
    requestAnimationFrame(() => setTimeout(note));
  }).observe(document.getElementById("question"), { childList: true });
}"""
# From the click to the next question painted.
_ANSWER = """(count) => new Promise((done) => {
  const began = performance.timeOrigin + performance.now();
  document.querySelector("#question button.primary").click();
  const look = () => (seen.length > count ? done(seen[count][2] - began) : setTimeout(look, 1));
  look();
})"""


class Screen:
    """The page in a browser, and the commands' way to the same daemon."""

    def __init__(self, page: Page, state: Path) -> None:
        self.page = page
        self._state = state

    async def command(self, op: str, **args: Any) -> Any:
        def ask() -> Any:
            with connecting(self._state) as daemon:
                return daemon.request(op, **args)

        return await asyncio.to_thread(ask)

    async def next_seen(self, count: int) -> tuple[str, str, float]:
        """The question after so many: its id, its path, and when it was seen, in milliseconds since 1970."""
        await self.page.wait_for_function("(count) => seen.length > count", arg=count, timeout=_WAIT_MS)
        seen: tuple[str, str, float] = await self.page.evaluate("(count) => seen[count]", count)
        return seen


def find_browser() -> str:
    chosen = os.environ.get("CLIENT_AGENT_CHROMIUM")
    found = chosen or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise BenchmarkFailed(
            "there is no browser to show questions in: install chromium, or set CLIENT_AGENT_CHROMIUM"
        )
    return found


@asynccontextmanager
async def watching(stage: Stage, project: str) -> AsyncIterator[tuple[Client, Screen]]:
    """A daemon of its own with a workspace of its own, and its page open."""
    workspace = stage.scratch / project
    workspace.mkdir()
    async with stage.start_ours(project, workspace) as client, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_browser(), args=_FLAGS)
        screen = Screen(await browser.new_page(), stage.state_dir(project))
        await screen.page.goto((await screen.command("page.open"))["url"])
        await screen.page.get_by_text("Nothing to answer.").wait_for(timeout=_WAIT_MS)
        await screen.page.locator("#links summary").wait_for(timeout=_WAIT_MS)
        await screen.page.evaluate(_OBSERVE)
        yield client, screen
        await browser.close()


def writing(place: str) -> Work:
    content = "".join(f"line {number} of what an agent would write\n" for number in range(40))
    return Work(tool_name="write_file", tool_params={"path": place, "content": content}, distinct="path")


async def visible(stage: Stage, effort: Effort) -> Reading:
    """One question at a time, with a diff of 40 lines."""
    taken = []
    async with watching(stage, "asking") as (client, screen):
        rounds = max(_MIN_ROUNDS, effort.times(20))
        driving = asyncio.create_task(client.do(writing("{n}-{t}.md"), rounds))
        for count in range(rounds):
            question, path, seen_ms = await screen.next_seen(count)
            taken.append(seen_ms - 1e3 * float(path.removesuffix(".md").split("-")[1]))
            shown = await screen.command("questions.show", id=question)
            await screen.command("questions.answer", id=question, binding=shown["binding"], answer="approve")
        await driving
    return Reading(ours=summarize(taken))


async def among_many(stage: Stage, effort: Effort) -> Reading:
    """From one answer to the next question, with a thousand open."""
    taken = []
    async with watching(stage, "asking-many") as (client, screen):
        driving = asyncio.create_task(client.do(writing("{n}-{t}.md"), OPEN, in_flight=OPEN))
        await screen.page.get_by_text(f"{OPEN - 1} more waiting").wait_for(timeout=_WAIT_MS)
        for count in range(1, _MIN_ROUNDS + 1):
            await screen.page.locator("#question button.primary:enabled").wait_for(timeout=_WAIT_MS)
            taken.append(float(await screen.page.evaluate(_ANSWER, count)))
        for packed in (await screen.command("questions.list", packed=True))["questions"]:
            named = {name: packed["question"][name] for name in ("id", "binding")}
            await screen.command("questions.answer", **named, answer="approve")
        await driving
    return Reading(ours=summarize(taken))
