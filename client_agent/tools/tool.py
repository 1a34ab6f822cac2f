"""What a tool is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from client_agent.config import Workspace
from client_agent.protocol.tools import SPECS, ToolSpec
from client_agent.sandbox import Sandbox
from client_agent.workspace.root import Root

# The years 1 to 9999.
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799


@dataclass(frozen=True, slots=True)
class Permit:
    """What the decision on one call allows it."""

    tool_id: str = "local"
    read_only: bool = True
    network: bool = False


class SandboxSource(Protocol):
    """Gives the workspace's sandbox, made ready when it is first wanted. Raises Unavailable with the remedy."""

    async def get(self) -> Sandbox: ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may use. `spool_dir` is where output that does not fit a result is kept whole."""

    root: Root
    workspace: Workspace
    sandbox: SandboxSource | None = None
    spool_dir: Path | None = None
    permit: Permit = Permit()


class Tool(Protocol):
    """Carries out one kind of call."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def cancellable(self) -> bool:
        """Whether cancelling `run` really ends what it does. One that is not is waited for."""
        ...

    @property
    def preview(self) -> Callable[[Any, ToolContext], str] | None:
        """What the call would change, as a diff for the question. Blocking: it reads files."""
        ...

    async def run(self, params: Any, context: ToolContext) -> dict[str, Any]:
        """The output, as the contract has it but for `success`. `params` are the spec's own. Raises CallError."""
        ...


def spec_of(name: str) -> ToolSpec:
    return next(spec for spec in SPECS if spec.name == name)


def format_time(time_ns: int) -> str:
    """ISO 8601 in UTC, to the millisecond; a time beyond the calendar is shown as the last, or first, within it."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(min(max(seconds, _FIRST_S), _LAST_S), UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"
