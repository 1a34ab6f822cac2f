"""Removing a file that holds a known content, and the directories that were made for it.

The file is first given another name, in one step, and only then looked at: what is removed is what was judged, and what
turns out to be another is put back. A process that is killed in between leaves it as `.client-agent-….tmp`.
"""

from __future__ import annotations

import os
import secrets
import stat

from client_agent.errors import MissingFile, StaleContent, SystemRefused, WrongKind
from client_agent.workspace.directory import Directory
from client_agent.workspace.failures import show
from client_agent.workspace.reading import check_readable
from client_agent.workspace.walk import Spot
from client_agent.workspace.writing import Keeper, holds


def remove(spot: Spot, expected_hash: str, path: str, keeper: Keeper | None) -> None:
    """Removes the file if it holds this content. Raises OSError and CallErrors; then it is where it was."""
    if spot.name is None or spot.wants_directory:
        raise WrongKind(f"{show(path)} names a directory", code="is_directory", path=path)
    if spot.status is None:
        raise MissingFile(f"there is no {show(path)}", path=path)
    directory, name = spot.directory, spot.name
    _check(directory, name, path)
    if not holds(directory, name, expected_hash):
        raise _stale(path, "holds something else")
    try:
        if keeper is not None and _keep(directory, name, keeper, spot.relative) not in (None, expected_hash):
            raise _stale(path, "changed while it was being removed")
        _take_away(directory, name, expected_hash, path)
    except StaleContent:
        if keeper is not None:
            keeper.forget()
        raise
    directory.sync()


def _check(directory: Directory, name: str, path: str) -> None:
    status = directory.status(name)
    check_readable(status, status.st_size, path)
    if not status.st_mode & 0o222 or not directory.is_writable(name):
        raise SystemRefused(f"{show(path)} is read-only", code="read_only", path=path)


def _keep(directory: Directory, name: str, keeper: Keeper, relative: str) -> str | None:
    fd = directory.open(name)
    try:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        return keeper.keep(relative, fd, after=None, mode=mode, made=())
    finally:
        os.close(fd)


def _take_away(directory: Directory, name: str, expected_hash: str, path: str) -> None:
    aside = f".client-agent-{secrets.token_hex(8)}.tmp"
    directory.replace(name, aside)
    if holds(directory, aside, expected_hash):
        directory.remove(aside)
        return
    try:
        directory.claim(aside, name)
    except FileExistsError:
        raise _stale(path, f"was being changed by others; one of its versions is beside it as {aside}") from None
    raise _stale(path, "changed while it was being removed")


def _stale(path: str, what: str) -> StaleContent:
    return StaleContent(f"{show(path)} {what}; nothing was removed", path=path)
