"""`process_output`: what a command in the background has written, and whether it still runs."""

from __future__ import annotations

from typing import Any

from client_agent.protocol.tools import ProcessOutput
from client_agent.sandbox.background import Background
from client_agent.tools.execute_command import show_outcome
from client_agent.tools.tool import ToolContext, processes_of, spec_of


class ProcessOutputTool:
    spec = spec_of("process_output")
    cancellable = False
    preview = None

    async def run(self, params: ProcessOutput, context: ToolContext) -> dict[str, Any]:
        return await show_process(processes_of(context).get(params.process_id, context.permit.session_id))


async def show_process(background: Background) -> dict[str, Any]:
    """How it stands. What ended it is a fact here, and no failure of the call that asks."""
    process = background.process
    if not process.is_running:
        outcome = await process.wait()
        shown = {"running": False, **show_outcome(outcome), "ended_by": outcome.ended_by.value}
    else:
        stdout, stderr = process.snapshot()
        shown = {
            "running": True,
            "stdout": stdout,
            "stderr": stderr,
            "exit_code": None,
            "execution_time": round(process.age_s, 6),
            "truncated": process.is_truncated,
        }
    return {"process_id": background.handle, **shown}
