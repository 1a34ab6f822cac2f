"""`process_input`: text for the standard input of a command in the background."""

from __future__ import annotations

from typing import Any

from client_agent.errors import SystemRefused
from client_agent.protocol.tools import ProcessInput
from client_agent.tools.tool import ToolContext, processes_of, spec_of


class ProcessInputTool:
    spec = spec_of("process_input")
    cancellable = False  # what was typed half cannot be taken back
    preview = None

    async def run(self, params: ProcessInput, context: ToolContext) -> dict[str, Any]:
        background = processes_of(context).get(params.process_id, context.permit.session_id)
        data = params.text.encode("utf-8", "replace")
        written = await background.process.write(data)
        if written < len(data):
            message = f"the process does not read: it took {written} of {len(data)} bytes"
            raise SystemRefused(message, code="input_not_read", written=written)
        if params.close:
            background.process.close_stdin()
        return {"process_id": background.handle, "written": written, "closed": params.close}
