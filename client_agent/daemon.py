"""The daemon: the parts of every workspace, built and run side by side."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from client_agent import config, logbook
from client_agent.approvals.broker import Broker
from client_agent.approvals.notifications import NotificationChannel
from client_agent.approvals.opener import PageOpener
from client_agent.approvals.permissions import Permissions
from client_agent.assembly import open_place
from client_agent.errors import JournalError
from client_agent.journal.journal import Journal
from client_agent.journal.outbox import Outbox
from client_agent.journal.writes import Writes
from client_agent.link.status import LinkState, LinkStatus
from client_agent.local_api.door import Door
from client_agent.local_api.house import WorkspaceInside
from client_agent.memory import reuse_pages
from client_agent.metrics import Tally
from client_agent.reload import Configuration, FixedSource, Source
from client_agent.sandbox import Confinement, Mechanism, NoMechanism, Processes, detect
from client_agent.undo import Undo
from client_agent.workspace_agent import OnWorkspaceOutput, WorkspaceAgent

DAY_S = 86_400.0

log = logging.getLogger(__name__)


class Daemon:
    """All workspaces of one state directory. `on_output` is told what commands write, as it comes.

    `settings` may be where they come from: then they follow what it says while the daemon runs.
    """

    def __init__(
        self,
        settings: config.Settings | Source,
        state_dir: Path,
        broker: Broker,
        on_output: OnWorkspaceOutput | None = None,
    ) -> None:
        self._source = FixedSource(settings) if isinstance(settings, config.Settings) else settings
        self._on_output = on_output
        self.state_dir = state_dir
        self.broker = broker
        self.workspaces: dict[str, WorkspaceAgent] = {}
        self.tally = Tally()
        self._unusable: dict[str, Unusable] = {}
        self._threads = 0
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._mechanisms: dict[Confinement, Mechanism | NoMechanism] = {}

    async def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Works until cancelled. Raises ConfigError, and JournalError when the state directory cannot be used."""
        reuse_pages()
        self.configuration = Configuration(self._source, self.state_dir)
        with (
            contextlib.closing(Journal(self.state_dir)) as self.journal,
            logbook.writing(self.state_dir, self.configuration.in_force.log_level),
            contextlib.closing(Permissions(self.state_dir)) as self.permissions,
            contextlib.closing(Writes(self.state_dir, self.configuration.in_force.undo)) as self.writes,
        ):
            self.undo = Undo(self.writes, open_place(lambda: self.configuration.in_force.workspaces), self.journal.note)
            self._task = asyncio.current_task()
            self._door = Door(self)
            self.notifications = NotificationChannel(
                self.broker, open_page=self._door.show_page, wanted=self._wants_notifications
            )
            opener = PageOpener(
                self.broker.now,
                open_page=partial(self._door.show_page, unasked=True),
                wanted=self._wants_page_opened,
                watched=lambda: self._door.feed.watched or self.broker.attended,
            )
            if self.journal.set_aside is not None:
                log.error("the journal was damaged: it is kept as %s, and a new one begun", self.journal.set_aside)
            async with self._door.opened(), self._asking_on_screen(opener), asyncio.TaskGroup() as self._group:
                await self._apply(self.configuration.in_force)
                self.configuration.apply = self._apply
                self._group.create_task(_prune_daily(self.journal, self.permissions, self.writes))
                self._group.create_task(self.configuration.watch())
                on_ready()

    async def _apply(self, settings: config.Settings) -> None:
        """Puts settings in force: only workspaces that they change notice."""
        self._provide_threads(settings)
        self.writes.bounds = settings.undo
        logbook.listen_from(settings.log_level)
        for name, agent in self.workspaces.items():
            wanted = settings.workspaces.get(name)
            if wanted is None or not agent.serves(wanted):
                agent.retire()
            else:
                agent.adopt(wanted, settings.link)
        for name in settings.workspaces:
            if name not in self._keepers:
                self.workspaces[name] = self._make_agent(name)
                self._keepers[name] = self._group.create_task(self._keep(name))

    async def _keep(self, name: str) -> None:
        """Runs a workspace for as long as the settings name it; after one is retired, the next as they say then."""
        try:
            while True:
                await self.workspaces[name].run()
                await asyncio.to_thread(self.journal.release, name)
                if name not in self.configuration.in_force.workspaces:
                    return
                self.workspaces[name] = self._make_agent(name)
        except Exception:
            log.exception("%s: cannot be kept running: start the daemon anew", name)
        finally:
            del self._keepers[name], self.workspaces[name]

    def _make_agent(self, name: str) -> WorkspaceAgent:
        settings = self.configuration.in_force
        return WorkspaceAgent(
            name,
            settings.workspaces[name],
            link=settings.link,
            state_dir=self.state_dir,
            journal=self.journal,
            permissions=self.permissions,
            writes=self.writes,
            broker=self.broker,
            feed=self._door.feed,
            tally=self.tally,
            on_output=self._on_output,
        )

    def _provide_threads(self, settings: config.Settings) -> None:
        """Slow disks hold up as many threads as calls may be executing, and no call of another workspace."""
        threads = max(8, sum(workspace.limits.calls_in_flight for workspace in settings.workspaces.values()))
        if threads > self._threads:
            self._threads = threads
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(threads, "client-agent"))

    @contextlib.asynccontextmanager
    async def _asking_on_screen(self, opener: PageOpener) -> AsyncIterator[None]:
        self.broker.attach(self.notifications, self.notifications.reaches)
        self.broker.attach(opener, opener.reaches)
        try:
            yield
        finally:
            self.broker.detach(opener)
            self.broker.detach(self.notifications)
            await self.notifications.close()

    def _wants_notifications(self, workspace: str) -> bool:
        settings = self.configuration.in_force.workspaces.get(workspace)
        return settings is not None and settings.approvals.notifications

    def _wants_page_opened(self, workspace: str) -> bool:
        settings = self.configuration.in_force.workspaces.get(workspace)
        return settings is not None and settings.approvals.open_page == "high"

    # For the door.

    @property
    def inside(self) -> Mapping[str, WorkspaceInside]:
        """The workspaces that run, and those that cannot."""
        known = self._unusable
        self._unusable = {
            name: known[name]
            if name in known and known[name].problem == problem
            else Unusable(self.configuration.named.workspaces[name], problem)
            for name, problem in self.configuration.problems.items()
            if name not in self.workspaces
        }
        return {**self.workspaces, **self._unusable}

    @property
    def sandboxes(self) -> Mapping[str, Mechanism | NoMechanism]:
        chosen = ((name, _confinement(workspace)) for name, workspace in self.configuration.in_force.workspaces.items())
        return {name: self._mechanisms[choice] for name, choice in chosen if choice in self._mechanisms}

    async def try_sandboxes(self) -> None:
        for choice in {_confinement(workspace) for workspace in self.configuration.in_force.workspaces.values()}:
            if choice not in self._mechanisms:
                self._mechanisms[choice] = await detect(choice)

    def waits_unattended(self, workspace: str) -> bool:
        settings = self.configuration.in_force.workspaces.get(workspace)
        return settings is not None and settings.approvals.unattended == "wait"

    async def reconnect(self) -> None:
        for agent in self.workspaces.values():
            await agent.connection.reload_credentials()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _confinement(workspace: config.Workspace) -> Confinement:
    return Confinement(workspace.sandbox.mechanism)


class Unusable:
    """A workspace that the configuration names and that cannot be run, as the door shows it."""

    calls_open = 0
    outbox: Outbox | None = None
    processes: Processes | None = None

    def __init__(self, workspace: config.Workspace, problem: str) -> None:
        self.server, self.project_id, self.root = workspace.server, workspace.project_id, workspace.root
        self.problem = problem
        self.status = LinkStatus(state=LinkState.FAILED, since=datetime.now(UTC), detail=problem)


async def _prune_daily(journal: Journal, permissions: Permissions, writes: Writes) -> None:
    """Forgets what is old enough; a day on which that fails is told and survived."""
    while True:
        try:
            await journal.prune()
            permissions.grant_store.prune(before=time.time() - DAY_S)
            await asyncio.to_thread(writes.prune)
        except JournalError as error:
            log.warning("old calls could not be forgotten: %s", error.message)
        except Exception:
            log.exception("old calls could not be forgotten")
        await asyncio.sleep(DAY_S)
