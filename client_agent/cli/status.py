"""`client-agent status`: whether the daemon runs, and what the server has confirmed."""

from __future__ import annotations

import typer

from client_agent.cli.calls import AsJson


def status(as_json: AsJson = False) -> None:
    """Show the daemon, its workspaces and their connections, as the server confirmed them.

    Exit code: 0 every workspace is connected, 4 one is not, 6 no daemon is running, 1 one runs and does not answer.
    """
    from client_agent.cli.standing import show_status

    raise typer.Exit(show_status(as_json=as_json))
