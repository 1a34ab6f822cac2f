"""`client-agent run`, for the command line's own help and for what is not spelled plainly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from client_agent.cli.foreground import run_daemon


def run(
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="The server's base address.", show_default=False)
    ] = None,
    project: Annotated[
        str | None, typer.Option(metavar="ID", help="The project on that server.", show_default=False)
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option("--workspace", "-w", metavar="DIR", help="The directory to work in.", show_default=False),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every step.")] = False,
    until_ready: Annotated[
        bool, typer.Option("--until-ready", help="Log here only until it is ready.", hidden=True)
    ] = False,
) -> None:
    """Run the daemon in the foreground; it asks in this terminal. Ctrl-C ends it.

    With --server, --project and --workspace, and the token in CLIENT_AGENT_TOKEN, no configuration file is needed.
    """
    run_daemon(server, project, workspace, verbose=verbose, until_ready=until_ready)
