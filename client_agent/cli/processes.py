"""`client-agent ps`: commands that go on in the background."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from client_agent.cli.calls import AsJson
from client_agent.cli.printing import print_json


def ps(
    end: Annotated[
        str | None,
        typer.Option(metavar="PROCESS", help="End this one; the beginning of its id is enough.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the commands that agents have left running in the background, and those that ended last."""
    from client_agent import config
    from client_agent.local_api.client import connecting

    with connecting(config.state_dir()) as daemon:
        told = daemon.request("processes.end", id=end) if end is not None else daemon.request("processes.list")
    if as_json:
        print_json(told)
    elif end is not None:
        typer.echo(f"ended {told['process_id']}")
    else:
        for row in told["processes"]:
            typer.echo(_line(row))
        if not told["processes"]:
            typer.echo("nothing runs in the background")


def _line(row: dict[str, Any]) -> str:
    import time

    now = time.time()
    since = f"{now - row['started_at']:.0f} s ago"
    left = f"running, {max(0.0, row['ends_at'] - now):.0f} s left" if row["running"] else row["ended_by"] or "failed"
    return f"{row['process_id'][:12]}  {row['workspace']}  {left}, started {since}  {row['command']}"
