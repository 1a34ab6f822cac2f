"""Workspaces that the user has paused, stored: a pause outlives the daemon, and needs none to be made."""

from __future__ import annotations

import msgspec

from client_agent.journal.permissions import PermissionFile
from client_agent.journal.statements import load

_SQL = load("permissions")


class StoredPause(msgspec.Struct, frozen=True, kw_only=True):
    """One workspace that stands still. Times are seconds since 1970, UTC; without `until`, for as long as it takes."""

    workspace: str
    note: str
    since: float
    until: float | None = None


class PauseStore:
    def __init__(self, file: PermissionFile) -> None:
        self._file = file

    def put(self, pause: StoredPause) -> None:
        self._file.write(_SQL["put_pause"], msgspec.structs.asdict(pause))

    def remove(self, workspace: str) -> bool:
        """Whether it was paused."""
        return self._file.write(_SQL["delete_pause"], {"workspace": workspace}) > 0

    def list(self, *, now: float) -> list[StoredPause]:
        """Those that hold now."""
        return [msgspec.convert(dict(row), StoredPause) for row in self._file.rows(_SQL["list_pauses"], now=now)]
