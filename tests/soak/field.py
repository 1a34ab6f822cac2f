"""A server, agents that ask for calls, and a daemon that is killed and started again; then what must hold."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from client_agent.journal.reader import reading
from client_agent.journal.verification import verify
from client_agent.protocol import routes
from client_agent.server.auth import issue_token
from client_agent.server.faults import FaultPlan
from client_agent.server.faulty import running_with_faults
from client_agent.server.settings import ServerSettings
from tests.soak.child import PROJECT

SECRET = "s" * 48
USER = "user-1"
FINAL = frozenset({"completed", "failed", "rejected", "timeout"})
SOURCE = Path(__file__).parents[2]
_PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Submitted:
    """A call that the server has taken, and where its executions can be counted."""

    tool_id: str
    kind: str
    trace: Path | None  # None: it leaves none
    ended: str = ""


@dataclass(frozen=True)
class Invariant:
    """One line of the table."""

    name: str
    checked: int
    broken: list[str]


@dataclass
class Field:
    """Everything of one run, beneath one directory."""

    base: Path
    url: str
    agent: httpx.AsyncClient
    chance: random.Random
    calls: list[Submitted] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    orphans: list[str] = field(default_factory=list)
    before: list[psutil.Process] = field(default_factory=psutil.Process().children)  # of the tests' own
    changed: list[str] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        return self.base / "workspace"

    @property
    def state(self) -> Path:
        return self.base / "state"

    @property
    def approvals(self) -> Path:
        return self.base / "approvals.log"

    @property
    def starts(self) -> Path:
        return self.base / "starts.log"

    # The agents.

    async def submit(self, kind: str) -> None:
        """Asks for one call. A server that is restarting right now has taken nothing."""
        name = f"{'no' if kind == 'refused' else kind}-{len(self.calls)}"
        trace = self.root / f"{name}.md"
        tool, params = _request(kind, trace.name)
        body = {"tool_name": tool, "tool_params": params, "session_id": name}
        path = routes.fill(routes.TOOLS_EXECUTE, project_id=PROJECT) + "?wait=false"
        with contextlib.suppress(httpx.HTTPError):
            response = await self.agent.post(path, json=body)
            if response.status_code == 200:
                leaves_trace = kind not in ("read", "look")
                self.calls.append(Submitted(response.json()["tool_id"], kind, trace if leaves_trace else None))

    async def submit_some(self, count: int) -> None:
        for _ in range(count):
            await self.submit(self.chance.choice(("write", "write", "read", "look", "refused", "command")))

    async def look(self) -> int:
        """How many calls have not ended at the server. One that has ended must stay as it is."""
        waiting = 0
        for call in self.calls:
            if call.ended:
                continue
            with contextlib.suppress(httpx.HTTPError):
                status = await self._status(call)
                call.ended = status if status in FINAL else ""
            waiting += not call.ended
        return waiting

    async def look_again(self) -> None:
        for call in self.calls:
            if (status := await self._known_status(call)) != call.ended:
                self.changed.append(f"{call.tool_id}: {call.ended}, then {status}")

    async def _known_status(self, call: Submitted) -> str:
        """What the server says, from as many tries as it takes: it may be restarting right now."""
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if status := await self._status(call):
                        return status
                await asyncio.sleep(0.1)

    async def _status(self, call: Submitted) -> str:
        response = await self.agent.get(f"/my/projects/{PROJECT}/tools/{call.tool_id}")
        return str(response.json()["status"]) if response.status_code == 200 else ""

    # The daemon.

    def start(self, point: str = "") -> subprocess.Popen[bytes]:
        places = [str(self.root), str(self.state), str(self.approvals)]
        env = {
            **os.environ,
            "CLIENT_AGENT_TOKEN": issue_token(SECRET, USER),
            "CLIENT_AGENT_STATE_DIR": str(self.state),
            "CLIENT_AGENT_CONFIG": str(self.base / "none.toml"),
        }
        with (self.base / "daemon.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.soak.child", self.url, *places, *([point] if point else [])],
                cwd=SOURCE,
                env=env,
                stdout=log,
                stderr=log,
            )
        return self.process

    async def die(self, timeout_s: float) -> bool:
        """Waits for the daemon to kill itself; whether it did."""
        assert self.process is not None
        until = time.monotonic() + timeout_s
        while self.process.poll() is None and time.monotonic() < until:
            await asyncio.sleep(0.02)
        return self.process.returncode == -signal.SIGKILL

    async def kill(self, why: str) -> None:
        """Kills the daemon, if it still runs, and looks for what it left behind."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.kills[why] += 1
        self.orphans += [f"{why}: {name}" for name in await _orphans(self.before)]
        self.process = None

    async def stop(self) -> int:
        """Ends the daemon politely."""
        assert self.process is not None
        self.process.terminate()
        return await asyncio.to_thread(self.process.wait, 30)

    async def settle(self, timeout_s: float = 60) -> None:
        """Runs the daemon undisturbed until the server knows the end of every call, then ends it."""
        self.start()
        until = time.monotonic() + timeout_s
        while await self.look() and time.monotonic() < until:
            await asyncio.sleep(0.1)
        await self.look_again()
        await self.kill("at the end")

    # What must hold.

    def failures(self) -> Counter[str]:
        """Why calls did not complete, by the daemon's own record."""
        with contextlib.closing(sqlite3.connect(self.state / "journal.sqlite3")) as connection:
            query = "SELECT failure_code FROM calls WHERE failure_code IS NOT NULL"
            return Counter(code for (code,) in connection.execute(query))

    def check(self) -> list[Invariant]:
        with_effects = [call for call in self.calls if call.trace is not None]
        runs = {call.tool_id: _count(call) for call in with_effects}
        started = Counter(self.starts.read_text().split() if self.starts.exists() else ())
        looks = {call.tool_id: started[call.tool_id] for call in self.calls if call.kind == "look"}
        approved = set(self.approvals.read_text().split()) if self.approvals.exists() else set()

        def row(name: str, checked: int, broken: list[str]) -> Invariant:
            return Invariant(name, checked, broken)

        return [
            row("executions per tool_id ≤ 1", len(runs), [f"{i}: {n}" for i, n in runs.items() if n > 1]),
            row(
                "and of commands that only look",
                len(looks),
                [f"{i}: {n}" for i, n in looks.items() if n > 1]
                + [
                    c.tool_id
                    for c in self.calls
                    if c.kind == "look" and c.ended == "completed" and not looks[c.tool_id]
                ],
            ),
            row(
                "completed at the server: executed exactly once",
                sum(call.ended == "completed" for call in with_effects),
                [call.tool_id for call in with_effects if call.ended == "completed" and runs[call.tool_id] != 1],
            ),
            row(
                "every accepted call ended in one terminal state",
                len(self.calls),
                [f"{c.tool_id} ({c.kind})" for c in self.calls if not c.ended] + self.changed,
            ),
            row("none ran unapproved", sum(runs.values()), [i for i, n in runs.items() if n and i not in approved]),
            row("no orphan process", sum(self.kills.values()), self.orphans),
            row("integrity_check ok", 2, _unsound(self.state)),
            row("audit log unbroken", 1, _broken_audit(self.state)),
        ]


@contextlib.asynccontextmanager
async def playing(base: Path, seed: int, plan: FaultPlan | None = None) -> AsyncIterator[Field]:
    """A field with its server, which misbehaves by the plan. Whatever the daemon leaves becomes a child of ours."""
    (base / "workspace").mkdir(parents=True)
    (base / "workspace" / "read.txt").write_text("read me")
    settings = ServerSettings(jwt_secret=SECRET, port=0, database_url=f"sqlite:///{base / 'server.db'}", heartbeat_s=1)
    headers = {"Authorization": f"Bearer {issue_token(SECRET, USER, agent_id='agent')}"}
    with _adopting_orphans():
        async with running_with_faults(settings, plan or FaultPlan()) as url:
            async with httpx.AsyncClient(base_url=url, headers=headers, timeout=10) as agent:
                played = Field(base, url, agent, random.Random(seed))
                try:
                    yield played
                finally:
                    if played.process is not None and played.process.poll() is None:
                        played.process.kill()
                        played.process.wait()


def table(rows: list[Invariant]) -> str:
    width = max(len(row.name) for row in rows)
    lines = [f"{'invariant':{width}}  checked  broken"]
    lines += [f"{row.name:{width}}  {row.checked:7}  {len(row.broken):6}" for row in rows]
    lines += [f"  {row.name}: {what}" for row in rows for what in row.broken[:5]]
    return "\n".join(lines)


def _request(kind: str, name: str) -> tuple[str, dict[str, Any]]:
    match kind:
        case "read":
            return "read_file", {"path": "read.txt"}
        case "look":
            return "execute_command", {"command": "cat", "args": ["read.txt"]}
        case "command":
            code = f"import time; open({name!r}, 'a').write('ran\\n'); time.sleep(0.3)"
            return "execute_command", {"command": "python3", "args": ["-c", code]}
        case _:
            return "write_file", {"path": name, "content": "ran\n", "mode": "append"}


def _count(call: Submitted) -> int:
    assert call.trace is not None
    return call.trace.read_text().count("ran\n") if call.trace.exists() else 0


def _unsound(state: Path) -> list[str]:
    problems = []
    for path in sorted(state.glob("*.sqlite3")):
        with contextlib.closing(sqlite3.connect(path)) as connection:
            found = connection.execute("PRAGMA integrity_check").fetchall()
            problems += [] if found == [("ok",)] else [f"{path.name}: {found[:3]}"]
    return problems + [f"set aside: {path.name}" for path in state.glob("journal.sqlite3.*Z*")]


def _broken_audit(state: Path) -> list[str]:
    with reading(state) as reader:
        outcome = verify(state, reader.audit_head())
    return [] if outcome.problem is None else [outcome.problem]


@contextlib.contextmanager
def _adopting_orphans() -> Any:
    """On Linux, a process whose parent died becomes ours, where it can be found."""
    if sys.platform != "linux":
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


async def _orphans(before: list[psutil.Process], patience_s: float = 5) -> list[str]:
    """What is still there of the daemon's processes when it has been dead for a while."""
    until = time.monotonic() + patience_s
    while True:
        left = [child for child in psutil.Process().children() if child not in before and not _reap(child)]
        if not left or time.monotonic() > until:
            return [" ".join(child.cmdline()) for child in left]
        await asyncio.sleep(0.05)


def _reap(child: psutil.Process) -> bool:
    try:
        if child.status() == psutil.STATUS_ZOMBIE:
            os.waitpid(child.pid, os.WNOHANG)
            return True
    except (psutil.NoSuchProcess, ChildProcessError):
        return True
    return False
