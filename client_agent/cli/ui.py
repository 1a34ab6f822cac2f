"""`client-agent ui`: the daemon's page, in the browser."""

from __future__ import annotations

from typing import Annotated

import typer


def ui(
    print_url: Annotated[
        bool, typer.Option("--print-url", help="Only print the address; it works once, within a minute.")
    ] = False,
) -> None:
    """Open the page: questions, activity, rules and grants."""
    import webbrowser

    from client_agent import config
    from client_agent.local_api.client import connecting

    with connecting(config.state_dir()) as daemon:
        url = daemon.request("page.open")["url"]
    if print_url or not webbrowser.open(url):
        typer.echo(url)
