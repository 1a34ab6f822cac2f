"""What the door needs of the daemon behind it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from client_agent.approvals.broker import Broker
from client_agent.approvals.notifications import NotificationChannel
from client_agent.approvals.permissions import Permissions
from client_agent.journal.journal import Journal
from client_agent.journal.outbox import Outbox
from client_agent.link.status import LinkStatus
from client_agent.metrics import Tally
from client_agent.policy.widening import Widening
from client_agent.sandbox import Mechanism, NoMechanism, Processes
from client_agent.undo import Undo


class WorkspaceInside(Protocol):
    """One workspace, as far as the door shows it."""

    @property
    def status(self) -> LinkStatus: ...

    @property
    def server(self) -> str: ...

    @property
    def project_id(self) -> str: ...

    @property
    def root(self) -> str: ...

    @property
    def calls_open(self) -> int: ...

    @property
    def processes(self) -> Processes | None:
        """Commands in the background. None until the workspace has started."""
        ...

    @property
    def outbox(self) -> Outbox | None:
        """None until the workspace has started."""
        ...


class PendingSettings(Protocol):
    """Settings that wait for the user."""

    @property
    def digest(self) -> str: ...

    @property
    def widenings(self) -> tuple[Widening, ...]: ...

    @property
    def since(self) -> float: ...

    @property
    def declined(self) -> bool: ...


class Configured(Protocol):
    """The configuration, as far as the door shows it."""

    @property
    def problem(self) -> str | None:
        """Why the files cannot be used, so that the last good settings stay in force."""
        ...

    @property
    def pending(self) -> PendingSettings | None: ...

    async def reread(self) -> None: ...

    async def confirm(self, digest: str) -> PendingSettings:
        """Puts in force what was shown under this digest, and nothing else. Raises UserError."""
        ...

    async def decline(self, digest: str) -> PendingSettings:
        """Leaves what was shown under this digest aside. Raises UserError."""
        ...


class House(Protocol):
    """The daemon."""

    @property
    def configuration(self) -> Configured: ...

    @property
    def tally(self) -> Tally: ...

    @property
    def state_dir(self) -> Path: ...

    @property
    def broker(self) -> Broker: ...

    @property
    def permissions(self) -> Permissions: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def undo(self) -> Undo: ...

    @property
    def notifications(self) -> NotificationChannel: ...

    @property
    def inside(self) -> Mapping[str, WorkspaceInside]: ...

    @property
    def sandboxes(self) -> Mapping[str, Mechanism | NoMechanism]:
        """What confines the commands of each workspace, as far as it was tried."""
        ...

    async def try_sandboxes(self) -> None:
        """Finds out where it is not known yet."""
        ...

    def waits_unattended(self, workspace: str) -> bool:
        """Whether a question stays open while nobody is there to see it."""
        ...

    async def reconnect(self) -> None:
        """Takes the tokens that are kept now, and connects every workspace anew."""
        ...

    def stop(self) -> None: ...
