"""How the daemon stands, and which settings are in force."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from client_agent import __version__
from client_agent.approvals.honest import reveal, reveal_lines
from client_agent.journal.audit import AuditEntry
from client_agent.local_api.house import House, PendingSettings, WorkspaceInside
from client_agent.local_api.operations.operation import MAX_REASON_CHARS, Args, Nothing, Table
from client_agent.local_api.operations.unfinished import UnfinishedOperations
from client_agent.local_api.shown import show_pause, show_pending


class LookAtStatus(Args, frozen=True):
    """With `glance` only what is at hand: for those who ask again and again until it is connected."""

    glance: bool = False


class OfChange(Args, frozen=True):
    digest: str


class StatusOperations:
    def __init__(self, house: House, unfinished: UnfinishedOperations) -> None:
        self._house = house
        self._unfinished = unfinished
        self._started_at = time.time()
        self.table: Table = {
            "status": (LookAtStatus, self._status),
            "metrics": (Nothing, self._metrics),
            "config.show": (Nothing, self._show_config),
            "config.confirm": (OfChange, self._confirm_config),
            "config.decline": (OfChange, self._decline_config),
        }

    def status(self) -> dict[str, Any]:
        """What is true now, without looking at the disk."""
        house = self._house
        trouble = house.journal.trouble
        return {
            "version": __version__,
            "pid": os.getpid(),
            "started_at": self._started_at,
            "questions": len(house.broker.open_questions),
            "journal_trouble": trouble.message if trouble else None,
            "paused": [msgspec.to_builtins(pause) for pause in house.broker.pauses.standing],
            "dead_posts": self._unfinished.dead_posts,
            "configuration": self._configuration(),
            "notifications": {"state": house.notifications.state.value, "detail": reveal(house.notifications.detail)},
            "workspaces": {name: self._show_workspace(name, inside) for name, inside in house.inside.items()},
        }

    def _show_workspace(self, name: str, inside: WorkspaceInside) -> dict[str, Any]:
        return {
            **msgspec.to_builtins(inside.status),
            "detail": reveal(inside.status.detail),
            "server": inside.server,
            "project_id": inside.project_id,
            "root": inside.root,
            "calls_open": inside.calls_open,
            "processes": sum(row["running"] for row in self._unfinished.processes(name)),
            "outbox": len(inside.outbox) if inside.outbox is not None else 0,
            "sandbox": msgspec.to_builtins(self._house.sandboxes.get(name)),
            "pause": show_pause(self._house.permissions.find_pause(name)),
        }

    async def _status(self, args: LookAtStatus, by: str) -> Any:
        if not args.glance:
            await asyncio.gather(self._unfinished.read_posts(), self._house.try_sandboxes())
        return self.status()

    async def _metrics(self, args: Nothing, by: str) -> Any:
        await self._unfinished.read_posts()
        return {"tally": self._house.tally.to_json(), "status": self.status()}

    def _configuration(self) -> dict[str, Any]:
        configuration = self._house.configuration
        problem = configuration.problem
        return {
            "problem": None if problem is None else "\n".join(reveal_lines(problem)),
            "pending": show_pending(configuration.pending),
        }

    async def _show_config(self, args: Nothing, by: str) -> Any:
        await self._house.configuration.reread()
        return self._configuration()

    async def _confirm_config(self, args: OfChange, by: str) -> Any:
        self._note_change(await self._house.configuration.confirm(args.digest), "success", by)
        return {"confirmed": args.digest}

    async def _decline_config(self, args: OfChange, by: str) -> Any:
        self._note_change(await self._house.configuration.decline(args.digest), "denied", by)
        return {"declined": args.digest}

    def _note_change(self, change: PendingSettings, status: str, by: str) -> None:
        keys = " ".join(widening.key for widening in change.widenings)
        self._house.journal.note(
            AuditEntry(
                time=datetime.now(UTC),
                operation="CONFIGURE",
                status=status,
                target=keys[:MAX_REASON_CHARS],
                approver=by,
                code=change.digest[:16],
            )
        )
