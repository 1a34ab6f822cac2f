"""Session grants, stored: what the user allowed beyond one call."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from client_agent.journal.permissions import PermissionFile
from client_agent.journal.statements import load
from client_agent.policy.decision import Risk

_SQL = load("permissions")


class GrantKind(StrEnum):
    ONCE = "once"
    CLASS = "class"  # for example every `git commit`
    EVERYTHING = "everything"


class StoredGrant(msgspec.Struct, frozen=True, kw_only=True):
    """One grant. Times are seconds since 1970, UTC."""

    id: str
    workspace: str
    kind: GrantKind
    max_risk: Risk
    created_at: float
    session_id: str | None = None
    command_class: str | None = None
    expires_at: float | None = None
    revoked_at: float | None = None


class GrantStore:
    """Grants, until they expire, are revoked, or their session ends."""

    def __init__(self, file: PermissionFile) -> None:
        self._file = file

    def add(self, grant: StoredGrant) -> None:
        self._file.write(_SQL["insert_grant"], msgspec.structs.asdict(grant) | {"max_risk": grant.max_risk.name})

    def revoke(self, grant_id: str, *, now: float) -> bool:
        """End a grant; False when there is none of this id that still holds."""
        return self._file.write(_SQL["revoke_grant"], {"id": grant_id, "revoked_at": now}) > 0

    def end_session(self, workspace: str, session_id: str, *, now: float) -> int:
        """End every grant of a session; how many."""
        values: dict[str, object] = {"workspace": workspace, "session_id": session_id, "revoked_at": now}
        return self._file.write(_SQL["end_session"], values)

    def list(self, *, now: float, workspace: str | None = None) -> list[StoredGrant]:
        """What holds now, newest first."""
        return [_from_row(row) for row in self._file.rows(_SQL["standing_grants"], now=now, workspace=workspace)]

    def prune(self, *, before: float) -> int:
        """Forget grants that ended before this time; how many."""
        return self._file.write(_SQL["delete_ended_grants"], {"before": before})


def _from_row(row: Any) -> StoredGrant:
    return msgspec.convert(dict(row) | {"max_risk": Risk[row["max_risk"]]}, StoredGrant, strict=False)
