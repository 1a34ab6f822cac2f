"""Noticing another network: the address that this machine would speak from has changed.

A datagram socket is connected to an address that belongs to nobody, which sends nothing: the system only looks up the
way there. Without a way there is no network.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

TICK_S = 2.0
# Set aside for documentation (RFC 5737, RFC 3849): nobody's, and so beyond the next router.
_NOBODY = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))

Addresses = tuple[str, ...]


def read_addresses() -> Addresses:
    """The addresses this machine speaks from to the world; none without a network."""
    return tuple(filter(None, (_speaks_from(family, beyond) for family, beyond in _NOBODY)))


def _speaks_from(family: socket.AddressFamily, beyond: str) -> str:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect((beyond, 9))
            return str(way.getsockname()[0])
    except OSError:
        return ""


async def watch_network(
    on_change: Callable[[], None], read: Callable[[], Addresses] = read_addresses, tick_s: float = TICK_S
) -> None:
    """Calls `on_change` each time there is another network than before, or one again, until cancelled."""
    known = read()
    while True:
        await asyncio.sleep(tick_s)
        now = read()
        if now and now != known:
            on_change()
        if now != known:
            known = now
