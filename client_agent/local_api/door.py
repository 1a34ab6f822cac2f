"""The door as the daemon sees it: open while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

from client_agent.approvals.questions import Question
from client_agent.errors import UserError
from client_agent.local_api.conversation import Conversation
from client_agent.local_api.feed import Feed
from client_agent.local_api.house import House
from client_agent.local_api.keys import Keys
from client_agent.local_api.lines import LineDoor
from client_agent.local_api.operations import Operations
from client_agent.local_api.page import PageDoor

UNASKED = "~"  # after the ticket, for the page alone: no ticket has it
_LOOK_S = 1.0

log = logging.getLogger(__name__)


class Door:
    """Both ways in, the feed, and the broker's channel through them."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.feed = Feed(house.broker.now)
        self._operations = Operations(house)
        self.page = PageDoor(Keys(), lambda: self._converse("page"))
        self._lines = LineDoor(
            house.state_dir,
            lambda: self._converse(
                "command line", {"page.open": self._open_page, "reconnect": self._reconnect, "stop": self._stop}
            ),
        )
        self._page_open = False

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """A way in that cannot be opened is said aloud, and missing: the daemon does its work without."""
        async with contextlib.AsyncExitStack() as stack:
            await self._try_open(stack, self._lines, "the commands")
            self._page_open = await self._try_open(stack, self.page, "the page")
            self._house.broker.attach(self.feed, self._reaches_somebody)
            stack.callback(self._house.broker.detach, self.feed)
            looking = asyncio.create_task(self._look_out())
            stack.push_async_callback(_stop_task, looking)
            yield

    async def _try_open(self, stack: contextlib.AsyncExitStack, door: LineDoor | PageDoor, whose: str) -> bool:
        try:
            await door.open()
        except OSError as error:
            log.error("no way in for %s: %s", whose, error)  # noqa: TRY400 - a fact, not a fault of ours
            return False
        stack.push_async_callback(door.close)
        return True

    def _reaches_somebody(self, question: Question) -> bool:
        return self.feed.watched or self._house.waits_unattended(question.workspace)

    def _converse(self, by: str, extras: dict[str, Any] | None = None) -> Conversation:
        return Conversation(self._operations, self.feed, by, extras)

    async def _open_page(self) -> dict[str, Any]:
        if not self._page_open:
            raise UserError("the page could not be opened: see the daemon's log", code="no_page")
        return {"url": self.page.new_address()}

    async def _reconnect(self) -> dict[str, Any]:
        await self._house.reconnect()
        return {"reconnecting": True}

    def show_page(self, *, unasked: bool = False) -> None:
        """In the user's browser. `unasked`: nobody wanted it just now, and keys go on that are meant for others."""
        import webbrowser

        if self._page_open:
            address = self.page.new_address() + (UNASKED if unasked else "")
            asyncio.get_running_loop().run_in_executor(None, webbrowser.open, address)

    async def _stop(self) -> dict[str, Any]:
        asyncio.get_running_loop().call_later(0.1, self._house.stop)  # after the reply has left
        return {"stopping": True}

    async def _look_out(self) -> None:
        """Tells watchers of what changes without a message of its own: connections, counts, rules changed elsewhere."""
        told: dict[str, Any] = {}
        while True:
            await asyncio.sleep(_LOOK_S)
            if not self.feed.watched:
                continue
            try:
                now = {
                    "status": self._operations.status(),
                    "permissions": {**self._operations.rules(), **self._operations.grants()},
                }
            except Exception:
                log.exception("cannot tell how things stand")
                continue
            for event, data in now.items():
                if told.get(event) != data:
                    self.feed.tell(event, data)
            told = now


async def _stop_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
