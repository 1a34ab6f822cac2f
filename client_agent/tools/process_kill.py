"""`process_kill`: ends a command in the background with all it started."""

from __future__ import annotations

from typing import Any

from client_agent.protocol.tools import ProcessKill
from client_agent.tools.process_output import show_process
from client_agent.tools.tool import ToolContext, processes_of, spec_of


class ProcessKillTool:
    spec = spec_of("process_kill")
    cancellable = False
    preview = None

    async def run(self, params: ProcessKill, context: ToolContext) -> dict[str, Any]:
        """Returns once it is gone. One that has ended already is shown as it ended."""
        background = processes_of(context).get(params.process_id, context.permit.session_id)
        if background.process.is_running:
            await background.process.kill()
            await background.process.wait()
        return await show_process(background)
