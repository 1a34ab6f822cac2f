"""`client-agent status`: whether the daemon runs, and what the server has confirmed."""

from __future__ import annotations

from typing import Any

import typer

from client_agent.cli.calls import AsJson
from client_agent.cli.exits import Exit
from client_agent.cli.printing import print_json

_CONNECTED = "connected"


def status(as_json: AsJson = False) -> None:
    """Show the daemon and its connections. Exit code 0 only when every workspace is connected; 4 when one is not."""
    from client_agent import config
    from client_agent.local_api.client import NoDaemon, connecting

    try:
        with connecting(config.state_dir()) as daemon:
            told = daemon.request("status")
    except NoDaemon as error:
        if as_json:
            print_json({"running": False})
        else:
            typer.echo(error.message)
        raise typer.Exit(Exit.FAILED) from None
    up = all(each["state"] == _CONNECTED for each in told["workspaces"].values())
    if as_json:
        print_json({"running": True, "connected": up, **told})
    else:
        for line in _lines(told):
            typer.echo(line)
    raise typer.Exit(Exit.OK if up else Exit.SERVER)


def _lines(told: dict[str, Any]) -> list[str]:
    from client_agent.approvals.honest import reveal

    lines = [f"client-agent {told['version']} runs (process {told['pid']})"]
    for name, each in told["workspaces"].items():
        detail = f": {reveal(each['detail'])}" if each["detail"] else ""
        heard = f", last heard {each['last_byte_at']}" if each["last_byte_at"] else ""
        lines.append(f"  {name}: {each['state']}{detail} since {each['since']}{heard}")
        lines.append(f"    {each['server']}  open calls: {each['calls_open']}  not delivered yet: {each['outbox']}")
    if told["questions"]:
        lines.append(f"  {told['questions']} questions wait for you: `client-agent approvals watch`, `client-agent ui`")
    lines += [
        f"  session {reveal(pause['session_id'] or '-')} in {pause['workspace']} is paused: you refused "
        f"{pause['what']} three times; `client-agent approvals resume` lets it ask again"
        for pause in told["paused"]
    ]
    if told["dead_posts"]:
        lines.append(f"  the server refused {told['dead_posts']} results for good: `client-agent outbox list`")
    if told["journal_trouble"]:
        lines.append(f"  ! nothing can be recorded, so nothing runs: {told['journal_trouble']}")
    return lines
