"""What happened, and writes taken back."""

from __future__ import annotations

import asyncio
from typing import Any

from client_agent.local_api.activity import MAX_ROWS, Look, Span, list_calls, plot_calls
from client_agent.local_api.house import House
from client_agent.local_api.operations.operation import Args, Table, read_journal
from client_agent.local_api.shown import show_undo, show_write


class ListWrites(Args, frozen=True):
    workspace: str | None = None
    limit: int = 100


class OfWrite(Args, frozen=True):
    """A write by its id, of which the beginning is enough; the workspace where an id is there twice."""

    id: str
    workspace: str | None = None


class PreviewUndo(OfWrite, frozen=True):
    whole: bool = False


class RecordOperations:
    def __init__(self, house: House) -> None:
        self._house = house
        self.table: Table = {
            "activity.list": (Look, self._list_activity),
            "activity.plot": (Span, self._plot_activity),
            "undo.list": (ListWrites, self._list_writes),
            "undo.preview": (PreviewUndo, self._preview_undo),
            "undo.apply": (OfWrite, self._undo),
        }

    async def _list_activity(self, args: Look, by: str) -> Any:
        return await read_journal(self._house, lambda reader: list_calls(reader, args))

    async def _plot_activity(self, args: Span, by: str) -> Any:
        return await read_journal(self._house, lambda reader: plot_calls(reader, args))

    async def _list_writes(self, args: ListWrites, by: str) -> Any:
        limit = max(1, min(args.limit, MAX_ROWS))
        found = await asyncio.to_thread(self._house.undo.recent, workspace=args.workspace, limit=limit)
        return {"writes": [show_write(write) for write in found]}

    async def _preview_undo(self, args: PreviewUndo, by: str) -> Any:
        preview = await asyncio.to_thread(self._house.undo.preview, args.id, args.workspace)
        return show_undo(preview, whole=args.whole)

    async def _undo(self, args: OfWrite, by: str) -> Any:
        undone = await asyncio.to_thread(self._house.undo.apply, args.id, args.workspace, by=by)
        return {"id": undone.id, **show_undo(undone.preview)}
