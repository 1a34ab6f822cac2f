"""One workspace at work: its connection, its calls, its deliveries."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from client_agent import config, logbook
from client_agent.approvals.broker import Broker
from client_agent.approvals.honest import reveal
from client_agent.approvals.permissions import Permissions
from client_agent.assembly import Ground
from client_agent.dispatch import Dispatcher
from client_agent.errors import ClientAgentError, JournalError
from client_agent.intake import STOP_GRACE_S, Intake, end_tasks
from client_agent.journal.journal import Journal
from client_agent.journal.outbox import Outbox
from client_agent.journal.records import PostKind
from client_agent.journal.writes import Writes
from client_agent.link.backoff import Backoff
from client_agent.link.connection import ServerConnection
from client_agent.link.credentials import Credentials
from client_agent.link.delivery import Courier
from client_agent.link.status import LinkState, LinkStatus
from client_agent.link.stream import Received
from client_agent.local_api.feed import Feed, WatchedRecorder
from client_agent.metrics import CountedRecorder, Tally
from client_agent.protocol.messages import ApprovalRequest, Cancel, ExecutionSignal, Malformed, Message, ResultAck
from client_agent.recording import LedgerRecorder
from client_agent.sandbox import Processes
from client_agent.tools import TOOLS

JOURNAL_RETRY_S = 1.0
# How long a workspace that cannot work waits before it is tried again.
RETRY_MIN_S = 1.0
RETRY_MAX_S = 30.0
_LOOK_S = 0.05

OnWorkspaceOutput: TypeAlias = Callable[[str, str, str, str], None]  # workspace, tool_id, stream name, text

log = logging.getLogger(__name__)


class WorkspaceAgent:
    """One workspace: its connection, its calls, its deliveries. What fails here fails here alone."""

    def __init__(
        self,
        name: str,
        workspace: config.Workspace,
        *,
        link: config.Link,
        state_dir: Path,
        journal: Journal,
        permissions: Permissions,
        writes: Writes,
        broker: Broker,
        feed: Feed,
        tally: Tally,
        on_output: OnWorkspaceOutput | None = None,
    ) -> None:
        self.name = name
        self._workspace = workspace
        self._link = link
        self._journal = journal
        self._permissions = permissions
        self._writes = writes
        self._broker = broker
        self._feed = feed
        self._tally = tally
        self._on_output = on_output
        self.outbox: Outbox | None = None
        self._credentials = Credentials(workspace.server, state_dir)
        self.connection = self._make_connection()
        self._trouble: LinkStatus | None = None
        self._last_trouble: LinkStatus | None = None
        self._retired = asyncio.Event()
        self._hurry = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._courier: Courier | None = None
        self._listening: asyncio.Task[None] | None = None
        self._ground: Ground | None = None
        self._closing: dict[asyncio.Task[None], Ground] = {}  # what calls still end on, after a change

    @property
    def status(self) -> LinkStatus:
        return self._trouble or self.connection.status

    @property
    def server(self) -> str:
        return self._workspace.server

    @property
    def project_id(self) -> str:
        return self._workspace.project_id

    @property
    def root(self) -> str:
        return self._workspace.root

    @property
    def calls_open(self) -> int:
        """Those executing, and those that wait for an answer or a signal."""
        return len(self._intake.calls) if self.outbox is not None else 0

    @property
    def processes(self) -> Processes | None:
        """Those in the background; None until the workspace has started."""
        return self._ground.processes if self._ground is not None else None

    def serves(self, workspace: config.Workspace) -> bool:
        """Whether this is still the same project of the same server, and so the same calls."""
        ours = self._workspace
        return (workspace.server, workspace.project_id) == (ours.server, ours.project_id)

    def adopt(self, workspace: config.Workspace, link: config.Link) -> None:
        """Other settings, for calls that begin from now on: what has begun ends under the old ones."""
        if workspace != self._workspace:
            self._workspace = workspace
            self._change_ground()
        if link != self._link:
            self._link = link
            if self._serving is not None:
                self._serving.cancel()
        self._hurry.set()

    def retire(self) -> None:
        """Nothing new is taken in; `run` ends when what has begun has ended."""
        self._retired.set()

    async def run(self) -> None:
        """Works until cancelled or retired. What goes wrong is in `status`, and tried again: nothing is raised."""
        logbook.workspace.set(self.name)
        work = [asyncio.create_task(self._work()), asyncio.create_task(self._retired.wait())]
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            await self._wind_down()
        finally:
            await end_tasks(work)
            if self.outbox is not None:
                await self._intake.stop()
            grounds = [*self._closing.values(), *([self._ground] if self._ground is not None else [])]
            await end_tasks(self._closing)
            for ground in grounds:
                await ground.close()

    async def _work(self) -> None:
        """Serves, and serves again after whatever ended it."""
        backoff = Backoff(RETRY_MAX_S)
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            self._serving = asyncio.create_task(self._serve())
            try:
                await asyncio.wait([self._serving])
            finally:
                await end_tasks([self._serving])
            self.connection = self._make_connection()
            if self._serving.cancelled():
                continue  # the settings of the connection changed
            if clock() - began >= RETRY_MAX_S:  # it worked for a while: this is a trouble of its own
                backoff.reset()
                self._last_trouble = None
            self._trouble = self._last_trouble = self._explain(self._serving.exception())
            self._hurry.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(backoff.next_s(RETRY_MIN_S)):
                    await self._hurry.wait()

    async def _serve(self) -> None:
        if self._ground is None:
            self._ground = self._open_ground()
        async with self.connection:
            if self.outbox is None:
                await self._journal.turn_to(self.name, f"{self._workspace.server} {self._workspace.project_id}")
                self._take_up(self._ground)
            await self._intake.resume()
            async with asyncio.TaskGroup() as group:
                self._courier = Courier(self._ledger.outbox, self.connection)
                group.create_task(self._courier.run())
                self._listening = group.create_task(self._listen())
                group.create_task(self._hasten_when_connected())
                self._trouble = None

    def _make_connection(self) -> ServerConnection:
        workspace = self._workspace
        return ServerConnection(self._link, workspace.server, workspace.project_id, self._credentials)

    def _open_ground(self) -> Ground:
        return Ground(
            self.name,
            self._workspace,
            writes=self._writes,
            user_id=lambda: self._credentials.subject,
            on_output=self._pass_on,
        )

    def _take_up(self, ground: Ground) -> None:
        """Takes the ledger up where an earlier run left it. Once."""
        self._permissions.end_all(self.name)
        recovered = self._journal.recover(self.name)
        self._ledger = recovered.ledger
        watched = WatchedRecorder(self.name, LedgerRecorder(self._journal, self._ledger), self._feed)
        self._dispatcher = Dispatcher(
            self.name,
            ground.terms,
            broker=self._broker,
            recorder=CountedRecorder(self.name, watched, self._tally),
            tools=TOOLS,
            permissions=self._permissions,
        )
        self._intake = Intake(self.name, self._ledger, self._dispatcher, recovered.left_open, self._deliver_next)
        self.outbox = self._ledger.outbox

    async def _deliver_next(self) -> None:
        if self._courier is not None:
            await self._courier.deliver_next()

    def _change_ground(self) -> None:
        """New ground under the calls to come. Where there is none to be had, nothing new begins on the old one."""
        if self._ground is None:
            return  # the next try to serve opens it
        before = self._ground
        if before.bears(self._workspace):
            before.decide_by(self._workspace)
        else:
            try:
                self._ground = self._open_ground()
            except ClientAgentError:
                self.retire()
                return
        if self.outbox is not None:
            self._dispatcher.adopt(self._ground.terms)
        if before is not self._ground:
            self._leave(before)

    def _leave(self, before: Ground) -> None:
        closing = asyncio.create_task(before.close_when_unused())
        self._closing[closing] = before
        closing.add_done_callback(self._closing.pop)

    def _explain(self, error: BaseException | None) -> LinkStatus:
        """What ended the service of this workspace, for the status, and once for the log."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        foreseen = isinstance(error, ClientAgentError)
        detail = error.message if isinstance(error, ClientAgentError) else f"ended unexpectedly: {error!r}"
        if self._last_trouble is not None and self._last_trouble.detail == detail:
            return self._last_trouble
        log.error("%s: cannot work: %s", self.name, detail, exc_info=None if foreseen else error)
        return LinkStatus(state=LinkState.FAILED, since=datetime.now(UTC), detail=detail)

    async def _wind_down(self) -> None:
        """Takes nothing new, lets what has begun end, and gives its results a moment to leave."""
        if self._listening is not None:
            self._listening.cancel()
        if self.outbox is not None:
            await self._intake.finish_begun()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_GRACE_S):
                while self.outbox is not None and len(self.outbox):  # noqa: ASYNC110 - nothing tells of emptiness
                    await asyncio.sleep(_LOOK_S)

    def _pass_on(self, tool_id: str, stream: str, text: str) -> None:
        """What a command writes, to whoever watches."""
        self._feed.note_output(self.name, tool_id, stream, text)
        if self._on_output is not None:
            self._on_output(self.name, tool_id, stream, text)

    async def _hasten_when_connected(self) -> None:
        """What waits for its next try is tried at once when the server is back."""
        while True:
            await self.connection.wait_until(lambda status: status.state is LinkState.CONNECTED)
            self._ledger.outbox.hasten()
            await self.connection.wait_until(lambda status: status.state is not LinkState.CONNECTED)

    async def _listen(self) -> None:
        async with contextlib.aclosing(self.connection.events(self._ledger.last_event_id)) as events:
            async for received in events:
                await self._take(received)
                self._ledger.handled(received.event_id)

    async def _take(self, received: Received) -> None:
        """Handles one event. While the journal cannot record, the stream waits, and the server keeps the rest."""
        while True:
            try:
                return await self._handle(received.message, received.event_id)
            except JournalError as error:
                log.warning("%s: cannot take in what the server sends: %s", self.name, error.message)
            except Exception:
                log.exception("%s: an event could not be handled, and is passed by", self.name)
                return None
            await asyncio.sleep(JOURNAL_RETRY_S)

    async def _handle(self, message: Message, event_id: str) -> None:
        match message:
            case ExecutionSignal() | ApprovalRequest():
                await self._intake.take_in(message.to_call(), event_id)
            case ResultAck():
                self._ledger.outbox.mark_delivered(PostKind.RESULT, message.tool_id)
            case Cancel():
                self._dispatcher.cancel(message.tool_id, message.reason or "by the server")
            case Malformed():
                log.warning("%s: %s cannot be understood: %s", self.name, reveal(message.name), reveal(message.problem))
                if message.tool_id is not None:
                    self._intake.refuse(message.tool_id, "malformed_event", message.problem)
            case _:
                log.debug("%s: ignored %s", self.name, reveal(message.name))
