"""`client-agent conformance`: does a server, or a client, speak the protocol?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from client_agent.cli.calls import AsJson
from client_agent.cli.exits import Exit
from client_agent.cli.printing import fail, print_json

if TYPE_CHECKING:
    from client_agent.conformance.cases import Outcome
    from client_agent.conformance.runs import Meeting

Token = Annotated[
    str | None,
    typer.Option(metavar="JWT", help="The user's token for the server.", envvar="CLIENT_AGENT_TOKEN", show_envvar=True),
]


def conformance(
    url: Annotated[str | None, typer.Argument(metavar="URL", help="The server to test.", show_default=False)] = None,
    client: Annotated[bool, typer.Option("--client", help="Test a client: be its server.")] = False,
    project: Annotated[str, typer.Option(metavar="ID", help="The project to use.")] = "conformance",
    token: Token = None,
    agent_token: Annotated[
        str | None, typer.Option(metavar="JWT", help="An agent's token of the same user.", show_default=False)
    ] = None,
    other_token: Annotated[
        str | None, typer.Option(metavar="JWT", help="Another user's token.", show_default=False)
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option("--workspace", "-w", metavar="DIR", help="The client's directory; empty.", show_default=False),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Start the client so; {url}, {project} and {workspace} are put in.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="With --client, where to listen; 0 takes a free one.")] = 0,
    only: Annotated[str, typer.Option(metavar="PATTERN", help="Only the cases of these names (* and ?).")] = "*",
    as_json: AsJson = False,
) -> None:
    """Drive a server, or with --client a client, through the cases of the protocol, and print a table.

    Exit code: 0 nothing failed, 1 something did, 4 the other side was never there.
    """
    import asyncio

    from client_agent.conformance.runs import Tokens, try_client, try_server

    if client == (url is not None):
        fail("say which: the URL of a server, or --client to test a client")
    if client:
        outcomes = try_client(
            project, workspace, port=port, command=command, only=only, on_meeting=None if as_json else _tell_meeting
        )
    else:
        if token is None:
            fail("a server is tested as its user: --token JWT, or CLIENT_AGENT_TOKEN")
        outcomes = try_server(url or "", project, Tokens(token, agent_token, other_token), only=only)
    seen = asyncio.run(_show(outcomes, as_json))
    failed = [outcome for outcome in seen if outcome.verdict == "failed"]
    raise typer.Exit(Exit.FAILED if failed else Exit.OK)


async def _show(outcomes: AsyncIterator[Outcome], as_json: bool) -> list[Outcome]:
    import msgspec

    seen = []
    async for outcome in outcomes:
        seen.append(outcome)
        if not as_json:
            typer.echo(f"{outcome.verdict.value:8} {outcome.case:38} {_honest(outcome.seen)}")
    counts = {verdict: sum(each.verdict == verdict for each in seen) for verdict in ("passed", "failed", "skipped")}
    if as_json:
        print_json({**counts, "cases": [msgspec.to_builtins(each) for each in seen]})
    else:
        typer.echo(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return seen


def _tell_meeting(meeting: Meeting) -> None:
    typer.echo("Point the client here, and let it work in an empty directory that this program can see:")
    typer.echo(f"  server    {meeting.url}\n  project   {meeting.project_id}\n  workspace {meeting.workspace}")
    typer.echo(f"  token     {meeting.token}")
    typer.echo("Say yes to every question, except to those about a file called say-no. Waiting for it …")


def _honest(text: str) -> str:
    from client_agent.approvals.honest import reveal

    return reveal(text)
