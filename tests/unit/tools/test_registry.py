"""The tools that can run."""

from __future__ import annotations

from client_agent.protocol.tools import find_spec
from client_agent.tools import TOOLS


def test_every_tool_is_found_by_the_name_of_its_spec() -> None:
    assert {"read_file", "write_file", "list_directory"} <= set(TOOLS)
    for name, tool in TOOLS.items():
        assert tool.spec is find_spec(name)
