"""Reading an open regular file, never more than was promised."""

from __future__ import annotations

import errno
import os
import stat
import sys

import msgspec

from client_agent.errors import TooLarge, WrongKind
from client_agent.workspace.failures import os_error, show


class FileBytes(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file, as long as the file was when it was opened."""

    relative: str
    data: bytes | bytearray
    modified_ns: int


def check_readable(status: os.stat_result, max_bytes: int, path: str) -> None:
    """Raises WrongKind or TooLarge unless this is a regular file of a size that may be read."""
    if stat.S_ISDIR(status.st_mode):
        raise WrongKind(f"{show(path)} is a directory", code="is_directory", path=path)
    if not stat.S_ISREG(status.st_mode):
        raise WrongKind(f"{show(path)} is a device, FIFO or socket", code="special_file", path=path)
    if status.st_size > max_bytes:
        raise TooLarge(
            f"{show(path)} has {status.st_size} bytes, the limit is {max_bytes}",
            path=path,
            size=status.st_size,
            limit=max_bytes,
        )


def read_file(fd: int, max_bytes: int, path: str) -> tuple[bytes, os.stat_result]:
    """The content up to the length it has now: what is added while reading is left for the next time."""
    status = os.fstat(fd)
    check_readable(status, max_bytes, path)
    pieces: list[bytes] = []
    left = status.st_size
    while left and (piece := os.read(fd, left)):
        pieces.append(piece)
        left -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces), status


def read_cached(fd: int, size: int) -> bytes | bytearray:
    """The content, from memory alone. Raises OSError when any of it would have to be waited for."""
    if not size:
        return b""
    if sys.platform == "linux":
        buffer = bytearray(size)
        if os.preadv(fd, [buffer], 0, os.RWF_NOWAIT) == size:
            return buffer
    raise os_error(errno.EAGAIN)
