"""`client-agent config` and `client-agent paths`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from client_agent.cli.printing import print_json

app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]


@app.callback()
def _group() -> None:
    pass


@app.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(help="The file to check; the one in force when left out.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the configuration and say what is wrong with it, key by key. Exit code 2 when anything is."""
    from client_agent import config
    from client_agent.assembly import check_settings
    from client_agent.cli.exits import Exit
    from client_agent.errors import ConfigError

    path = file or config.config_path()
    try:
        settings = config.load(path)
        check_settings(settings)
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"ok": False, "file": str(path), "code": error.code, "problems": error.message.split("\n")})
        raise typer.Exit(Exit.USAGE) from None
    if as_json:
        print_json({"ok": True, "file": str(path), "workspaces": sorted(settings.workspaces)})
        return
    typer.echo(f"{path}: good")
    for name, workspace in settings.workspaces.items():
        typer.echo(f"  {name}: {workspace.root} → project {workspace.project_id} on {workspace.server}")
    if not settings.workspaces:
        typer.echo("  no workspaces yet: add a [workspaces.NAME] table (see config.example.toml)")


def paths(as_json: AsJson = False) -> None:
    """Show where configuration and state are kept."""
    from client_agent import config

    places = {"config": str(config.config_path()), "state": str(config.state_dir())}
    if as_json:
        print_json(places)
        return
    for name, place in places.items():
        typer.echo(f"{name:7} {place}{'' if Path(place).exists() else '   (not there yet)'}")
