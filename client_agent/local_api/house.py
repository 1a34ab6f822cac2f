"""What the door needs of the daemon behind it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from client_agent.approvals.broker import Broker
from client_agent.approvals.permissions import Permissions
from client_agent.journal.journal import Journal
from client_agent.journal.outbox import Outbox
from client_agent.link.status import LinkStatus


class WorkspaceInside(Protocol):
    """One workspace, as far as the door shows it."""

    @property
    def status(self) -> LinkStatus: ...

    @property
    def server(self) -> str: ...

    @property
    def calls_open(self) -> int: ...

    @property
    def outbox(self) -> Outbox | None:
        """None until the workspace has started."""
        ...


class House(Protocol):
    """The daemon."""

    @property
    def state_dir(self) -> Path: ...

    @property
    def broker(self) -> Broker: ...

    @property
    def permissions(self) -> Permissions: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def inside(self) -> Mapping[str, WorkspaceInside]: ...

    def waits_unattended(self, workspace: str) -> bool:
        """Whether a question stays open while nobody is there to see it."""
        ...

    def stop(self) -> None: ...
