"""`client-agent pause` and `resume`: nothing runs until you say so."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from client_agent.cli.calls import AsJson
from client_agent.cli.durations import read_seconds
from client_agent.cli.printing import fail, print_json

Names = Annotated[
    list[str] | None, typer.Argument(metavar="WORKSPACE", help="These; all when left out.", show_default=False)
]


def pause(
    workspaces: Names = None,
    note: Annotated[str, typer.Option("--note", "-m", help="Why; the agent is told.", show_default=False)] = "",
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="Such as 30m or 2h; without it, until resume.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let nothing more begin: every call is refused, and the agent told why. Stays so across restarts.

    What is being executed goes on to its end; questions that are open go away. The connection stays.
    """
    for_s = read_seconds("--for", duration) if duration is not None else None
    told = _through_door_or_file("workspaces.pause", workspaces, note=note, for_s=for_s)
    if as_json:
        print_json(told)
        return
    from client_agent.cli.standing import describe_pause

    for each in told["paused"]:
        typer.echo(f"{each['workspace']}: {describe_pause(each)}")


def resume(workspaces: Names = None, as_json: AsJson = False) -> None:
    """End a pause."""
    told = _through_door_or_file("workspaces.resume", workspaces)
    if as_json:
        print_json(told)
        return
    typer.echo(f"resumed: {', '.join(told['resumed'])}" if told["resumed"] else "nothing was paused")


def _through_door_or_file(op: str, workspaces: list[str] | None, **args: Any) -> Any:
    """Asks the daemon; where none runs, changes the file that the next one reads."""
    from client_agent import config
    from client_agent.local_api.client import NoDaemon, connecting

    try:
        with connecting(config.state_dir()) as daemon:
            return daemon.request(op, workspaces=workspaces, **args)
    except NoDaemon:
        names = _configured(workspaces)
    from client_agent.cli.state import open_permissions
    from client_agent.local_api.shown import show_pause

    with open_permissions() as permissions:
        if op == "workspaces.resume":
            return {"resumed": [name for name in names if permissions.resume(name)]}
        return {"paused": [show_pause(permissions.pause(name, **args)) for name in names]}


def _configured(workspaces: list[str] | None) -> list[str]:
    from client_agent import config

    known = list(config.load(config.config_path()).workspaces)
    for name in workspaces or ():
        if name not in known:
            fail(f"there is no workspace {name!r}; there is: {', '.join(known)}")
    return known if workspaces is None else workspaces
