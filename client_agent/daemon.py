"""The daemon: the parts of every workspace, built and run side by side."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from client_agent import config
from client_agent.approvals.broker import Broker
from client_agent.approvals.honest import reveal
from client_agent.approvals.permissions import Permissions
from client_agent.assembly import WorkspaceSandbox, assemble, check_settings, open_root
from client_agent.dispatch import Approval
from client_agent.errors import JournalError
from client_agent.journal.journal import Journal
from client_agent.journal.outbox import Outbox
from client_agent.journal.records import OpenCall, PostKind, Standing
from client_agent.link.connection import ServerConnection
from client_agent.link.credentials import Credentials
from client_agent.link.delivery import Courier
from client_agent.link.status import LinkState, LinkStatus
from client_agent.link.stream import Received
from client_agent.local_api.door import Door
from client_agent.local_api.feed import Feed, WatchedRecorder
from client_agent.policy.decision import Risk
from client_agent.protocol.calls import Call
from client_agent.protocol.messages import ApprovalRequest, Cancel, ExecutionSignal, Malformed, Message, ResultAck
from client_agent.protocol.results import failed
from client_agent.protocol.states import CallState
from client_agent.protocol.tools import find_spec
from client_agent.recording import POLICY, LedgerRecorder

# Calls taken in and not finished, questions included. Beyond it the stream is not read on: the server keeps the rest.
MAX_OPEN_CALLS = 2000
STOP_GRACE_S = 5.0
JOURNAL_RETRY_S = 1.0
DAY_S = 86_400.0

log = logging.getLogger(__name__)


class Daemon:
    """All workspaces of one state directory."""

    def __init__(self, settings: config.Settings, state_dir: Path, broker: Broker) -> None:
        self._settings = settings
        self.state_dir = state_dir
        self.broker = broker
        self.workspaces: dict[str, WorkspaceAgent] = {}
        self._task: asyncio.Task[None] | None = None

    async def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Works until cancelled. Raises ConfigError, and JournalError when the state directory cannot be used."""
        check_settings(self._settings)
        # Slow disks hold up as many threads as calls may be executing, and no call of another workspace.
        threads = sum(workspace.limits.calls_in_flight for workspace in self._settings.workspaces.values())
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max(threads, 8), "client-agent"))
        with (
            contextlib.closing(Journal(self.state_dir)) as self.journal,
            contextlib.closing(Permissions(self.state_dir)) as self.permissions,
        ):
            self._task = asyncio.current_task()
            door = Door(self)
            if self.journal.set_aside is not None:
                log.error("the journal was damaged: it is kept as %s, and a new one begun", self.journal.set_aside)
            for name, workspace in self._settings.workspaces.items():
                self.workspaces[name] = WorkspaceAgent(
                    name,
                    workspace,
                    link=self._settings.link,
                    state_dir=self.state_dir,
                    journal=self.journal,
                    permissions=self.permissions,
                    broker=self.broker,
                    feed=door.feed,
                )
            async with door.opened():
                on_ready()
                async with asyncio.TaskGroup() as group:
                    group.create_task(_prune_daily(self.journal, self.permissions))
                    for agent in self.workspaces.values():
                        group.create_task(agent.run())

    # For the door.

    @property
    def inside(self) -> Mapping[str, WorkspaceAgent]:
        return self.workspaces

    def waits_unattended(self, workspace: str) -> bool:
        return self._settings.workspaces[workspace].approvals.unattended == "wait"

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def _prune_daily(journal: Journal, permissions: Permissions) -> None:
    """Forgets what is old enough; a day on which that fails is told and survived."""
    while True:
        try:
            await journal.prune()
            permissions.grant_store.prune(before=time.time() - DAY_S)
        except JournalError as error:
            log.warning("old calls could not be forgotten: %s", error.message)
        await asyncio.sleep(DAY_S)


class WorkspaceAgent:
    """One workspace: its connection, its calls, its deliveries."""

    def __init__(
        self,
        name: str,
        workspace: config.Workspace,
        *,
        link: config.Link,
        state_dir: Path,
        journal: Journal,
        permissions: Permissions,
        broker: Broker,
        feed: Feed,
    ) -> None:
        self.name = name
        self._workspace = workspace
        self._journal = journal
        self._permissions = permissions
        self._broker = broker
        self._feed = feed
        self.outbox: Outbox | None = None
        self._credentials = Credentials(workspace.server, state_dir)
        self.connection = ServerConnection(link, workspace.server, workspace.project_id, self._credentials)
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._signals: dict[str, asyncio.Event] = {}
        self._room = asyncio.Semaphore(MAX_OPEN_CALLS)

    @property
    def status(self) -> LinkStatus:
        return self.connection.status

    @property
    def server(self) -> str:
        return self._workspace.server

    @property
    def calls_open(self) -> int:
        """Those executing, and those that wait for an answer or a signal."""
        return len(self._calls)

    async def run(self) -> None:
        """Works until cancelled."""
        with contextlib.closing(open_root(self._workspace)) as root:
            async with self.connection:
                recovered = self._journal.recover(self.name)
                self._permissions.end_all(self.name)
                self._ledger = recovered.ledger
                self.outbox = self._ledger.outbox
                sandbox = WorkspaceSandbox(self._workspace, root)
                self._dispatcher = assemble(
                    self.name,
                    self._workspace,
                    root,
                    sandbox=sandbox,
                    broker=self._broker,
                    recorder=WatchedRecorder(self.name, LedgerRecorder(self._journal, self._ledger), self._feed),
                    permissions=self._permissions,
                    user_id=lambda: self._credentials.subject,
                )
                try:
                    await self._resume(recovered.left_open)
                    async with asyncio.TaskGroup() as group:
                        group.create_task(Courier(self._ledger.outbox, self.connection).run())
                        group.create_task(self._listen())
                        group.create_task(self._hasten_when_connected())
                finally:
                    await self._stop_calls()
                    await sandbox.close()

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
            case ExecutionSignal():
                await self._take_in(message.to_call(), event_id)
            case ApprovalRequest():
                call = message.to_call()
                if call is not None:
                    await self._take_in(call, event_id)
                else:
                    await self._ask_blind(message)
            case ResultAck():
                self._ledger.outbox.mark_delivered(PostKind.RESULT, message.tool_id)
            case Cancel():
                self._dispatcher.cancel(message.tool_id, message.reason or "by the server")
            case Malformed():
                log.warning("%s: %s cannot be understood: %s", self.name, reveal(message.name), reveal(message.problem))
                if message.tool_id is not None:
                    self._refuse(message.tool_id, "malformed_event", message.problem)
            case _:
                log.debug("%s: ignored %s", self.name, reveal(message.name))

    async def _take_in(self, call: Call, event_id: str) -> None:
        """Starts a new call; a known one is signalled, answered again, or refused, and never run twice."""
        spec = find_spec(call.tool_name)
        admission = self._ledger.admit(call, effects=spec is None or spec.effects, event_id=event_id)
        match admission.standing:
            case Standing.NEW:
                await self._start(call)
            case Standing.UNFINISHED if not call.awaits_signal and call.tool_id in self._signals:
                self._signals[call.tool_id].set()
            case Standing.CONFLICT:
                self._refuse(call.tool_id, "conflict", "this tool_id was used before, with other parameters")
            case _:
                log.debug("%s: %s is known: %s", self.name, call.tool_id, admission.standing)

    async def _start(self, call: Call, before: Approval | None = None) -> None:
        await self._room.acquire()
        signal = None
        if call.awaits_signal:
            signal = self._signals[call.tool_id] = asyncio.Event()
        task = asyncio.create_task(self._carry_out(call, signal, before), name=call.tool_id)
        self._calls[call.tool_id] = task

    async def _carry_out(self, call: Call, signal: asyncio.Event | None, before: Approval | None) -> None:
        try:
            result = await self._dispatcher.carry_out(call, signal, before)
            spec = find_spec(call.tool_name)
            if result.failure is not None:
                log.info("%s: %s: %s (%s)", self.name, call.tool_name, reveal(result.failure.message), call.tool_id[:8])
            elif spec is not None and spec.effects:
                log.info("%s: %s: done (%s)", self.name, call.tool_name, call.tool_id[:8])
        except JournalError as error:
            log.warning("%s: what became of %s could not be recorded: %s", self.name, call.tool_name, error.message)
        except Exception:
            log.exception("%s: %s was lost on its way", self.name, call.tool_name)
        finally:
            self._room.release()
            self._calls.pop(call.tool_id, None)
            self._signals.pop(call.tool_id, None)

    async def _ask_blind(self, request: ApprovalRequest) -> None:
        """A server that does not say with which parameters gets an answer, and for that answer nothing runs."""
        key = f"approval/{request.approval_id}"  # no tool_id has a slash
        if key in self._calls:
            return
        await self._room.acquire()
        self._calls[key] = asyncio.create_task(self._answer_blind(request, key), name=key)

    async def _answer_blind(self, request: ApprovalRequest, key: str) -> None:
        try:
            answer = await self._dispatcher.ask_blind(request)
            if answer.approved:
                await self.connection.approve(request.approval_id)
            else:
                await self.connection.reject(request.approval_id, answer.reason or answer.outcome.value)
        finally:
            self._room.release()
            self._calls.pop(key, None)

    async def _resume(self, left_open: list[OpenCall]) -> None:
        """Takes up what an earlier run had not started; a yes given then still counts."""
        for item in left_open:
            record, before = item.record, None
            if record.state is CallState.APPROVED and record.risk is not None:
                before = Approval(Risk[record.risk], by_person=record.approver not in (None, POLICY))
            await self._start(item.call, before)

    def _refuse(self, tool_id: str, code: str, message: str) -> None:
        body = msgspec.json.encode(failed(code, message, type="ValidationError").to_wire())
        self._ledger.refuse(tool_id, body)

    async def _stop_calls(self) -> None:
        """Calls under way may end; those that wait for somebody stay open in the journal and are asked again."""
        for task in self._calls.values():
            task.cancel()
        if self._calls:
            await asyncio.wait(self._calls.values(), timeout=STOP_GRACE_S)
