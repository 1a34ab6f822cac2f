"""Our own server and our own daemon pass every case of the conformance kit; one that misbehaves does not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from client_agent import config
from client_agent.approvals.broker import Broker
from client_agent.approvals.questions import Answer, Outcome, Question
from client_agent.conformance import client_cases, server_call_cases, server_cases
from client_agent.conformance.cases import Outcome as CaseOutcome
from client_agent.conformance.cases import Verdict
from client_agent.conformance.client import ClientUnderTest
from client_agent.conformance.peer import Peer
from client_agent.conformance.runs import Tokens, try_server
from client_agent.daemon import Daemon
from client_agent.journal.ledger import Ledger
from client_agent.link import delivery
from client_agent.protocol.messages import Message
from client_agent.server.auth import issue_token
from client_agent.server.faults import Fault, FaultKind, FaultPlan
from client_agent.server.faulty import running_with_faults
from client_agent.server.runner import running
from client_agent.server.settings import ServerSettings
from client_agent.workspace_agent import WorkspaceAgent

SECRET = "s" * 48
PROGRAM = str(Path(sys.executable).parent / "client-agent")


def make_settings(tmp_path: Path) -> ServerSettings:
    return ServerSettings(
        jwt_secret=SECRET,
        port=0,
        database_url=f"sqlite:///{tmp_path / 'server.db'}",
        heartbeat_s=0.5,
        approvals=config.Approvals(high_timeout_s=1),
    )


def make_tokens() -> Tokens:
    return Tokens(issue_token(SECRET, "ann"), issue_token(SECRET, "ann", agent_id="robot"), issue_token(SECRET, "bob"))


async def gather(outcomes: AsyncIterator[CaseOutcome]) -> dict[str, CaseOutcome]:
    return {outcome.case: outcome async for outcome in outcomes}


def not_passed(outcomes: dict[str, CaseOutcome]) -> list[str]:
    return [f"{o.case}: {o.verdict}: {o.seen}" for o in outcomes.values() if o.verdict is not Verdict.PASSED]


async def test_our_server_passes_every_case(tmp_path: Path) -> None:
    async with running(make_settings(tmp_path)) as url:
        outcomes = await gather(try_server(url, "p", make_tokens()))
    assert not_passed(outcomes) == []
    assert len(outcomes) == len(server_cases.suite) + len(server_call_cases.suite)


async def test_a_server_that_answers_wrongly_fails_the_case_and_only_that(tmp_path: Path) -> None:
    plan = FaultPlan(faults=(Fault(kind=FaultKind.CODE, at="reject", status=200),))
    async with running_with_faults(make_settings(tmp_path), plan) as url:
        outcomes = await gather(try_server(url, "p", make_tokens(), only="unknown-*"))
    assert outcomes["unknown-ids-are-not-found"].verdict is Verdict.FAILED
    assert "200, expected 404" in outcomes["unknown-ids-are-not-found"].seen
    assert outcomes["unknown-id-loses-nothing"].verdict is Verdict.PASSED


async def test_a_server_that_cuts_its_stream_fails_cases_in_words(tmp_path: Path) -> None:
    plan = FaultPlan(faults=(Fault(kind=FaultKind.CUT, at="tool.execution_signal"),))
    async with running_with_faults(make_settings(tmp_path), plan) as url:
        outcomes = await gather(try_server(url, "p", make_tokens(), only="call-is-*", patience_s=5))
    assert outcomes["call-is-carried-out"].verdict is Verdict.FAILED
    assert "the stream ended before" in outcomes["call-is-carried-out"].seen


def answer(question: Question) -> Answer:
    refused = "say-no" in str(question.call.tool_params)
    return Answer(outcome=Outcome.REJECTED if refused else Outcome.APPROVED, by="person")


class Person:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def opened(self, question: Question) -> None:
        self._broker.answer(question.id, question.binding, answer(question))

    def closed(self, question: Question, answer: Answer) -> None: ...


@contextlib.asynccontextmanager
async def connected_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClientUnderTest]:
    """Our daemon, with a person at it, as the client of the kit."""
    token = issue_token(SECRET, "ann")
    monkeypatch.setenv("CLIENT_AGENT_TOKEN", token)
    monkeypatch.setenv("CLIENT_AGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CLIENT_AGENT_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setattr(delivery, "RETRY_MAX_S", 1.0)
    root = tmp_path / "workspace"
    root.mkdir()
    broker = Broker()
    broker.attach(Person(broker))
    async with Peer("p", token) as peer:
        workspace = config.local_workspace(root, server=peer.url, project_id="p")
        link = config.Link(heartbeat_deadline_s=2.5, reconnect_max_s=1)
        daemon = Daemon(config.Settings(workspaces={"w": workspace}, link=link), tmp_path / "state", broker)
        task = asyncio.create_task(daemon.run())
        try:
            await peer.wait_for_stream(20)
            yield ClientUnderTest(peer=peer, workspace=root, user_id="ann", patience_s=20, silence_s=20, settle_s=2.5)
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_our_daemon_passes_every_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected_daemon(tmp_path, monkeypatch) as client:
        outcomes = await gather(client_cases.suite.run(client))
    assert not_passed(outcomes) == []
    assert len(outcomes) == len(client_cases.suite)


async def break_memory(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(Ledger, "_find", lambda self, tool_id: None)
    return "repeated-signal-runs-once"


async def break_malformed(monkeypatch: pytest.MonkeyPatch) -> str:
    handle: Callable[..., object] = WorkspaceAgent._handle

    async def deaf(self: WorkspaceAgent, message: Message, event_id: str) -> None:
        if type(message).__name__ != "Malformed":
            await handle(self, message, event_id)  # type: ignore[misc]

    monkeypatch.setattr(WorkspaceAgent, "_handle", deaf)
    return "malformed-signal-is-answered"


@pytest.mark.parametrize("break_it", [break_memory, break_malformed])
async def test_a_client_that_is_broken_fails_its_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, break_it: Callable[..., object]
) -> None:
    case = await break_it(monkeypatch)  # type: ignore[misc]
    async with connected_daemon(tmp_path, monkeypatch) as client:
        client.patience_s = client.person_s = 2
        outcomes = await gather(client_cases.suite.run(client, only=case))
    assert outcomes[case].verdict is Verdict.FAILED, outcomes


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    state = {"CLIENT_AGENT_STATE_DIR": str(tmp_path / "state"), "CLIENT_AGENT_CONFIG": str(tmp_path / "none.toml")}
    return {**os.environ, **state, "NO_COLOR": "1"}


def run(env: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *args], env=env, capture_output=True, text=True, timeout=100, check=False)


def test_the_command_tests_a_client_that_it_starts(env: dict[str, str]) -> None:
    client = f"{PROGRAM} run --server {{url}} --project {{project}} --workspace {{workspace}}"
    done = run(env, "conformance", "--client", "--command", client, "--only", "*nown*", "--json")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    told = json.loads(done.stdout)
    assert told["failed"] == 0
    assert "unknown-things-are-ignored" in {case["case"] for case in told["cases"] if case["verdict"] == "passed"}


def test_the_command_tests_a_server_and_prints_a_table(tmp_path: Path, env: dict[str, str]) -> None:
    server = subprocess.Popen(
        [PROGRAM, "server", "--port", "0"], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert server.stdout is not None
        found = re.search(r"listening on (\S+)", server.stdout.readline())
        assert found is not None
        token = run(env, "server", "token", "ann").stdout.strip()
        done = run(env, "conformance", found[1], "--token", token, "--only", "*-result-*")
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"passed +same-result-again-is-taken", done.stdout)
        wrong = run(env, "conformance", found[1], "--token", "wrong", "--only", "tools-are-listed")
        assert wrong.returncode == 1
        assert "401, expected 200" in wrong.stdout
    finally:
        server.terminate()
        server.communicate(timeout=20)


def test_the_command_says_what_is_missing(env: dict[str, str]) -> None:
    assert run(env, "conformance").returncode == 2
    assert run(env, "conformance", "http://127.0.0.1:9", "--token", "t").returncode == 4
