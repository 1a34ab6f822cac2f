"""A workspace, and a way to run a tool in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from client_agent import config
from client_agent.policy.paths import Protection
from client_agent.protocol.tools import parse_params
from client_agent.tools import TOOLS, ToolContext
from client_agent.workspace.root import Root

Run = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    path = tmp_path / "ws"
    path.mkdir()
    return path


@pytest.fixture
def context(ws: Path) -> Iterator[ToolContext]:
    root = Root(ws, Protection())
    limits = config.Limits(read_max_bytes=1_000_000, write_max_bytes=1_000, list_max_entries=5)
    workspace = config.local_workspace(ws)
    policy = msgspec.structs.replace(workspace.policy, refused_extensions=("PS1", ".vbs"))
    yield ToolContext(root, msgspec.structs.replace(workspace, limits=limits, policy=policy))
    root.close()


@pytest.fixture
def run(context: ToolContext) -> Run:
    """Runs a tool as dispatch does: typed parameters in, output that fits into JSON out."""

    async def run_tool(name: str, **params: Any) -> dict[str, Any]:
        tool = TOOLS[name]
        output = await tool.run(parse_params(tool.spec, params), context)
        decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(output))
        return decoded

    return run_tool
