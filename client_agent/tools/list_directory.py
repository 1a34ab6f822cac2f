"""`list_directory`: what is in a directory, or below it."""

from __future__ import annotations

from typing import Any

from client_agent.protocol.tools import ListDirectory
from client_agent.tools.tool import ToolContext, format_time, in_thread, spec_of
from client_agent.workspace.listing import Depth


class ListDirectoryTool:
    spec = spec_of("list_directory")
    cancellable = False
    preview = None

    async def run(self, params: ListDirectory, context: ToolContext) -> dict[str, Any]:
        return await in_thread(_list, params, context)


def _list(params: ListDirectory, context: ToolContext) -> dict[str, Any]:
    listing = context.root.list(
        params.path,
        depth=Depth.ALL if params.recursive else Depth.ONE,
        pattern=params.pattern,
        max_entries=context.workspace.limits.list_max_entries,
    )
    files = [
        {
            "name": entry.name,
            "path": entry.path,
            "type": entry.type.value,
            "size": entry.size,
            "modified": format_time(entry.modified_ns),
        }
        for entry in listing.entries
    ]
    return {
        "files": files,
        "total_count": len(files),
        "truncated": listing.truncated,
        "unreadable": listing.unreadable,
        "path": listing.relative,
    }
