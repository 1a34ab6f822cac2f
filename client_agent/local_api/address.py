"""Where the commands' door is. Apart from the door itself: a command that only knocks needs nothing else of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

ADDRESS_FILE = "door.json"
# The shortest limit of the systems we know, less the closing zero.
MAX_SOCKET_PATH_BYTES = 103


class Address(msgspec.Struct, frozen=True, omit_defaults=True):
    """A socket's path relative to the state directory, or a port with its token."""

    socket: str = ""
    port: int = 0
    token: str = ""


@contextlib.contextmanager
def reachable_path(path: Path) -> Iterator[str]:
    """A spelling of the path that is short enough for a socket. Raises OSError where there is none."""
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        yield str(path)
        return
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        short = f"/proc/self/fd/{descriptor}"
        if not os.path.isdir(short):  # noqa: PTH112 - pathlib would follow it
            raise OSError(f"{path} is too long for a socket: set CLIENT_AGENT_STATE_DIR to a shorter path")
        yield f"{short}/{path.name}"
    finally:
        os.close(descriptor)
