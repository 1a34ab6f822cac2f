"""`client-agent demo`: a scripted remote agent, a real server and this laptop in between, on throw-away files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client_agent.cli.exits import Exit
from client_agent.cli.foreground import answering
from client_agent.cli.printing import print_json

if TYPE_CHECKING:
    import asyncio
    from contextlib import AsyncExitStack

    import httpx

    from client_agent.approvals.broker import Broker
    from client_agent.approvals.questions import Answer, Question

USER, PROJECT = "demo-user", "demo"
_SAMPLE = {
    "workspace/README.md": "# Sample project\n\nA few files for a remote agent to work on.\n",
    "workspace/src/main.py": 'print("hello")\n',
    "workspace/src/greeting.py": 'GREETING = "hello"\n',
    "outside/secret.txt": "not for agents\n",
}


@dataclass(frozen=True)
class Step:
    """One thing the agent does, and what must come of it: the words to show, or None when it went wrong."""

    says: str
    tool: str
    params: dict[str, Any]
    outcome: Callable[[dict[str, Any]], str | None]


def demo(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a step, for programs.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Answer every question with yes.")] = False,
) -> None:
    """Watch a remote agent work in a sample workspace, through a real server.

    In a terminal you are asked about the write; with none attached the demo answers for itself. Exit code 1 when a step
    did not go as it should.
    """
    import asyncio

    by_person = sys.stdin.isatty() and sys.stdout.isatty() and not yes and not as_json
    good = asyncio.run(_demo(by_person=by_person, as_json=as_json))
    raise typer.Exit(Exit.OK if good else Exit.FAILED)


async def _demo(*, by_person: bool, as_json: bool) -> bool:
    import contextlib
    import tempfile

    from client_agent.approvals.broker import Broker

    with tempfile.TemporaryDirectory(prefix="client-agent-demo-") as scratch:
        workspace = _make_sample(Path(scratch))
        broker = Broker()
        async with contextlib.AsyncExitStack() as stack:
            url, agent = await _start(stack, Path(scratch), workspace, broker, by_person=by_person)
            answers = _Answers(broker, aloud=not as_json)
            broker.attach(answers)
            if by_person:
                stack.enter_context(answering(broker))
            else:
                answers.say_yes = True
            if not as_json:
                _introduce(workspace, url, by_person)
            results = [await _take(step, agent, answers, as_json) for step in _steps(workspace)]
    if not as_json:
        typer.echo(_verdict(results))
    return all(results)


async def _start(
    stack: AsyncExitStack, scratch: Path, workspace: Path, broker: Broker, *, by_person: bool
) -> tuple[str, httpx.AsyncClient]:
    """A server, a daemon connected to it, and the agent's client, all on loopback."""
    import asyncio
    import os
    import secrets

    import httpx

    from client_agent import config
    from client_agent.daemon import Daemon
    from client_agent.link.status import LinkState
    from client_agent.server.auth import issue_token
    from client_agent.server.runner import running
    from client_agent.server.settings import ServerSettings

    secret = secrets.token_urlsafe(48)
    server = ServerSettings(jwt_secret=secret, port=0, database_url=f"sqlite:///{scratch / 'server.db'}")
    url = await stack.enter_async_context(running(server))
    os.environ["CLIENT_AGENT_TOKEN"] = issue_token(secret, USER)
    settings = config.Settings(workspaces={"demo": config.local_workspace(workspace, server=url, project_id=PROJECT)})
    daemon = Daemon(settings, scratch / "state", broker)
    ready = asyncio.Event()
    task = asyncio.create_task(daemon.run(ready.set))
    stack.push_async_callback(_stop, task)
    async with asyncio.timeout(20):
        await ready.wait()
        await daemon.workspaces["demo"].connection.wait_until(lambda status: status.state is LinkState.CONNECTED)
    headers = {"Authorization": f"Bearer {issue_token(secret, USER, agent_id='demo-agent')}"}
    return url, await stack.enter_async_context(
        httpx.AsyncClient(base_url=url, headers=headers, timeout=660 if by_person else 30)
    )


async def _stop(task: asyncio.Task[None]) -> None:
    import asyncio

    task.cancel()
    await asyncio.wait([task])


class _Answers:
    """The demo's own channel: remembers the last answer, and says yes where nobody is there to."""

    def __init__(self, broker: Broker, *, aloud: bool) -> None:
        self._broker = broker
        self._aloud = aloud
        self.say_yes = False
        self.last: Answer | None = None

    def opened(self, question: Question) -> None:
        from client_agent.approvals.questions import Answer, Outcome
        from client_agent.approvals.terminal import render

        if self.say_yes:
            for line in render(question) if self._aloud else ():
                typer.echo(f"   {line}" if line else "")
            self._broker.answer(question.id, question.binding, Answer(outcome=Outcome.APPROVED, by="the demo itself"))

    def closed(self, question: Question, answer: Answer) -> None:
        self.last = answer


def _steps(workspace: Path) -> list[Step]:
    text = "# Notes\n\nWritten by an agent far away.\n"
    more = "Appended later.\n"

    def wrote(expected: str) -> Callable[[dict[str, Any]], str | None]:
        def check(response: dict[str, Any]) -> str | None:
            on_disk = (workspace / "notes.md").read_text() if (workspace / "notes.md").exists() else ""
            if response["status"] != "completed" or on_disk != expected:
                return None
            return f"written: notes.md now has {response['result']['size']} bytes"

        return check

    return [
        Step("lists the workspace", "list_directory", {"path": ".", "recursive": True}, _listed),
        Step("reads README.md", "read_file", {"path": "README.md"}, _read),
        Step("writes notes.md, which needs a yes", "write_file", {"path": "notes.md", "content": text}, wrote(text)),
        Step(
            "appends to notes.md, which needs another",
            "write_file",
            {"path": "notes.md", "content": more, "mode": "append"},
            wrote(text + more),
        ),
        Step("reaches outside with ../", "read_file", {"path": "../outside/secret.txt"}, _refused),
        Step("reaches outside through a link", "read_file", {"path": "shortcut/secret.txt"}, _refused),
    ]


def _listed(response: dict[str, Any]) -> str | None:
    if response["status"] != "completed":
        return None
    names = sorted(entry["path"] for entry in response["result"]["files"])
    return f"{len(names)} entries: {', '.join(names)}" if "src/main.py" in names else None


def _read(response: dict[str, Any]) -> str | None:
    if response["status"] != "completed" or response["result"]["content"] != _SAMPLE["workspace/README.md"]:
        return None
    return f"{response['result']['size']} bytes, {response['result']['encoding']}"


def _refused(response: dict[str, Any]) -> str | None:
    return f"refused: {response['error']}" if response["status"] == "failed" and response["error"] else None


async def _take(step: Step, agent: httpx.AsyncClient, answers: _Answers, as_json: bool) -> bool:
    """Lets the agent do one step; whether it went as it should, given what the user answered."""
    from client_agent.protocol import routes

    if not as_json:
        typer.echo(f"\n ▸ the agent {step.says}")
    answers.last = None
    path = routes.fill(routes.TOOLS_EXECUTE, project_id=PROJECT)
    body = {"tool_name": step.tool, "tool_params": step.params, "session_id": "demo"}
    response = await _ask_server(agent, path, body)
    last: Answer | None = answers.last
    declined = last is not None and not last.approved
    words = "not done, as you wished" if declined and response["status"] == "rejected" else step.outcome(response)
    if as_json:
        good = words is not None
        print_json({"step": step.says, "tool": step.tool, "ok": good, "outcome": words, "response": response})
    else:
        typer.echo(f"   ✓ {words}" if words else f"   ✗ {response['status']}: {response.get('error')}")
    return words is not None


async def _ask_server(agent: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    import httpx

    try:
        response: dict[str, Any] = (await agent.post(path, json=body)).json()
    except (httpx.HTTPError, ValueError) as error:
        return {"status": "no answer", "error": f"{type(error).__name__} {error}"}
    return response


def _make_sample(scratch: Path) -> Path:
    for name, content in _SAMPLE.items():
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (scratch / "workspace" / "shortcut").symlink_to(scratch / "outside")
    return scratch / "workspace"


def _introduce(workspace: Path, url: str, by_person: bool) -> None:
    typer.echo("A remote agent, a real server, and this laptop in between.")
    typer.echo(f"   workspace  {workspace}  (thrown away at the end)")
    typer.echo(f"   server     {url}  (SQLite; its API is at {url}/docs)")
    if not by_person:
        typer.echo("   no terminal to ask in: the demo answers for itself")


def _verdict(results: list[bool]) -> str:
    bad = results.count(False)
    return f"\n{len(results)} steps, {'all as they should be' if not bad else f'{bad} not as they should be'}."
