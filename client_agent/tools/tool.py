"""What a tool is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar

import msgspec

from client_agent.config import Workspace
from client_agent.errors import Unavailable
from client_agent.protocol.tools import SPECS, ToolSpec
from client_agent.sandbox import Processes, Sandbox
from client_agent.workspace.root import Root
from client_agent.workspace.writing import Keeper

P = ParamSpec("P")
T = TypeVar("T")
# The years 1 to 9999.
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799


@dataclass(frozen=True, slots=True)
class Permit:
    """What the decision on one call allows it."""

    tool_id: str = "local"
    session_id: str | None = None
    read_only: bool = True
    network: bool = False


OnOutput: TypeAlias = Callable[[str, str, str], None]  # tool_id, stream name, text


class SandboxSource(Protocol):
    """Gives the workspace's sandbox, made ready when it is first wanted. Raises Unavailable with the remedy."""

    @property
    def processes(self) -> Processes:
        """Those in the background."""
        ...

    async def get(self) -> Sandbox: ...


class ToolContext(msgspec.Struct, frozen=True):
    """What a tool may use.

    `spool_dir` is where output that does not fit a result is kept whole; `on_output` is told what a command writes as
    it comes; `keeping` gives a call what keeps the content that it replaces.
    """

    root: Root
    workspace: Workspace
    sandbox: SandboxSource | None = None
    spool_dir: Path | None = None
    on_output: OnOutput | None = None
    keeping: Callable[[str], Keeper | None] | None = None
    permit: Permit = Permit()


class Tool(Protocol):
    """Carries out one kind of call."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def cancellable(self) -> bool:
        """Whether cancelling `run` really ends what it does. One that is not waits for nothing but `in_thread`."""
        ...

    @property
    def preview(self) -> Callable[[Any, ToolContext], str] | None:
        """What the call would change, as a diff for the question. Blocking: it reads files."""
        ...

    async def run(self, params: Any, context: ToolContext) -> dict[str, Any]:
        """The output, as the contract has it but for `success`. `params` are the spec's own. Raises CallError."""
        ...


def processes_of(context: ToolContext) -> Processes:
    if context.sandbox is None:
        raise Unavailable("commands cannot be run here: no sandbox was set up", code="no_sandbox")
    return context.sandbox.processes


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Work that cannot be stopped half-way, waited for even when cancelled: what became of it must be known."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            current = asyncio.current_task()
            assert current is not None  # noqa: S101
            current.uncancel()


def spec_of(name: str) -> ToolSpec:
    return next(spec for spec in SPECS if spec.name == name)


def format_time(time_ns: int) -> str:
    """ISO 8601 in UTC, to the millisecond; a time beyond the calendar is shown as the last, or first, within it."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{_format_second(seconds)}.{rest // 1_000_000:03d}Z"


@lru_cache(maxsize=256)
def _format_second(seconds: int) -> str:
    """Files of one directory often come from the same few seconds."""
    return datetime.fromtimestamp(min(max(seconds, _FIRST_S), _LAST_S), UTC).isoformat()[:19]
