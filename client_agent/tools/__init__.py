"""One file a tool. `TOOLS` are those that can run here, by name."""

from __future__ import annotations

from client_agent.tools.execute_command import ExecuteCommandTool
from client_agent.tools.list_directory import ListDirectoryTool
from client_agent.tools.process_input import ProcessInputTool
from client_agent.tools.process_kill import ProcessKillTool
from client_agent.tools.process_output import ProcessOutputTool
from client_agent.tools.read_file import ReadFileTool
from client_agent.tools.tool import OnOutput, Permit, Tool, ToolContext
from client_agent.tools.write_file import WriteFileTool

__all__ = ["TOOLS", "OnOutput", "Permit", "Tool", "ToolContext"]

TOOLS: dict[str, Tool] = {
    tool.spec.name: tool
    for tool in (
        ReadFileTool(),
        WriteFileTool(),
        ListDirectoryTool(),
        ExecuteCommandTool(),
        ProcessOutputTool(),
        ProcessInputTool(),
        ProcessKillTool(),
    )
}
