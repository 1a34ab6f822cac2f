"""`client-agent approvals`: open questions, answered from any terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client_agent.cli.calls import AsJson
from client_agent.cli.durations import read_seconds
from client_agent.cli.exits import Exit
from client_agent.cli.printing import fail, print_json

if TYPE_CHECKING:
    from client_agent.approvals.questions import Question

app = typer.Typer(help="Open questions: list, answer, watch.", invoke_without_command=True)

QuestionId = Annotated[str, typer.Argument(metavar="ID", help="As `approvals list` shows it; its beginning is enough.")]
Reason = Annotated[str, typer.Option(help="Why not; the agent is told.", show_default=False)]


@app.callback()
def approvals(context: typer.Context) -> None:
    """Open questions: list, answer, watch."""
    if context.invoked_subcommand is None:
        list_questions()


@app.command("list")
def list_questions(as_json: AsJson = False) -> None:
    """List what waits for an answer, with everything there is to know."""
    import shutil

    from client_agent import config
    from client_agent.approvals.broker import clock
    from client_agent.approvals.terminal import render
    from client_agent.local_api.client import connecting

    with connecting(config.state_dir()) as daemon:
        found = daemon.request("questions.list", packed=not as_json)["questions"]
    if as_json:
        print_json({"questions": found})
        return
    for each in found:
        question = _unpack(each)
        for line in render(question, shutil.get_terminal_size().columns):
            typer.echo(line)
        typer.echo(f"  approvals approve {question.id[:8]}   approvals reject {question.id[:8]}   "
                   f"{max(0, round(question.deadline - clock()))} s left")  # fmt: skip
    if not found:
        typer.echo("no question is open")


@app.command()
def approve(
    question: QuestionId,
    for_class: Annotated[bool, typer.Option("--class", help="Allow calls of this class, for the session.")] = False,
    for_session: Annotated[
        bool, typer.Option("--session", help="Allow everything this session asks for, HIGH risk too.")
    ] = False,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long that holds, such as 30m; 8h unless said.")
    ] = None,
) -> None:
    """Say yes, once unless told otherwise."""
    if for_class and for_session:
        fail("--class and --session: give one of them")
    if duration is not None and not (for_class or for_session):
        fail("--for goes with --class or --session")
    for_s = None if duration is None else read_seconds("--for", duration)
    if for_session:
        typer.echo("Everything this session asks for now runs unasked, HIGH risk too. "
                   "`client-agent grants revoke all` ends it.", err=True)  # fmt: skip
    scope = "session" if for_session else "class" if for_class else "once"
    _answer(question, answer="approve", scope=scope, for_s=for_s)


@app.command()
def reject(question: QuestionId, reason: Reason = "") -> None:
    """Say no; the agent is told not to try again."""
    _answer(question, answer="reject", reason=reason)


@app.command()
def resume() -> None:
    """Let sessions ask again that were paused after three refusals in a row."""
    from client_agent import config
    from client_agent.local_api.client import connecting

    with connecting(config.state_dir()) as daemon:
        paused = daemon.request("status")["paused"]
        for each in paused:
            daemon.request("sessions.resume", workspace=each["workspace"], session_id=each["session_id"])
    typer.echo(f"resumed: {len(paused)}")


@app.command()
def watch() -> None:
    """Watch for questions and answer them with single keys. Ctrl-C or q ends it."""
    import asyncio

    from client_agent import config
    from client_agent.cli.watching import watch_questions
    from client_agent.local_api.client import connecting

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        fail("watching needs a terminal; `approvals list --json` is for programs")
    with connecting(config.state_dir(), timeout_s=None) as daemon:
        asyncio.run(watch_questions(daemon))


def _answer(question_id: str, **args: Any) -> None:
    from client_agent import config
    from client_agent.errors import UserError
    from client_agent.local_api.client import NoDaemon, connecting

    with connecting(config.state_dir()) as daemon:
        try:
            shown = daemon.request("questions.show", id=question_id)
            told = daemon.request("questions.answer", id=shown["id"], binding=shown["binding"], **args)
        except NoDaemon:
            raise
        except UserError as error:
            fail(error.message, Exit.FAILED)
    typer.echo(f"{told['outcome']}  {told['id'][:8]}")


def _unpack(packed: dict[str, Any]) -> Question:
    import msgspec

    from client_agent.approvals.questions import Question

    return msgspec.convert(packed["question"], Question)
