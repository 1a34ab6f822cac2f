"""Tells whoever supervises the daemon that it is ready, that it lives and that it stops, as systemd has it.

Without a supervisor that asked for it (NOTIFY_SOCKET), nothing is told to anybody.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator, Mapping


class Supervisor:
    """The one that started us, as far as its environment says. What cannot be told is lost: it is only a courtesy."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._address = env.get("NOTIFY_SOCKET", "")
        mine = env.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        interval = env.get("WATCHDOG_USEC", "") if mine else ""
        self.watchdog_s = int(interval) / 1_000_000 if interval.isdecimal() and int(interval) else None

    def tell(self, *lines: str) -> None:
        """Such as READY=1."""
        if not self._address or not hasattr(socket, "AF_UNIX"):
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto("\n".join(lines).encode(), address)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Says, for as long as the event loop turns, that it does; at the end, that we stop."""
        task = asyncio.create_task(self._say_alive()) if self.watchdog_s is not None else None
        try:
            yield
        finally:
            self.tell("STOPPING=1")
            if task is not None:
                task.cancel()

    async def _say_alive(self) -> None:
        assert self.watchdog_s is not None  # noqa: S101
        while True:
            self.tell("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_s / 2)
