"""`client-agent config` and `client-agent paths`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from client_agent.cli.exits import Exit
from client_agent.cli.printing import fail, print_json

if TYPE_CHECKING:
    from client_agent.config import Link

app = typer.Typer(help="Check the configuration, and confirm what a change of it allows.", no_args_is_help=True)

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
    from client_agent.errors import ConfigError

    path = file or config.config_path()
    try:
        settings = config.load(path)
        check_settings(settings)
        _check_link(path, settings.link)
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
        typer.echo("  no workspaces yet: `client-agent init` adds one (see `client-agent config example`)")


@app.command()
def example() -> None:
    """Print a configuration with every key there is, each with a comment."""
    name = "config.example.toml"
    package = Path(__file__).parents[1]
    installed = package / name
    typer.echo((installed if installed.exists() else package.parent / name).read_text(encoding="utf-8"), nl=False)


def _check_link(path: Path, link: Link) -> None:
    """A proxy or authority that cannot be used: the daemon only finds out when it connects. Raises ConfigError."""
    from yarl import URL

    from client_agent.errors import ConfigError
    from client_agent.link.proxy import choose_proxy
    from client_agent.link.trust import make_trust

    problems = []
    try:
        choose_proxy(link, URL("http://server.invalid"), env={})
    except ConfigError as error:
        problems.append(f"{path}: {error.message}")
    try:
        if link.ca_file:
            make_trust(link)
    except ConfigError as error:
        problems.append(f"{path}: {error.message}")
    if problems:
        raise ConfigError("\n".join(problems))


@app.command()
def confirm(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; for scripts of your own.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a changed configuration would allow beyond what is in force, and put it in force."""
    from client_agent import config
    from client_agent.local_api.client import connecting

    with connecting(config.state_dir()) as daemon:
        told = daemon.request("config.show")
        if told["problem"]:
            fail(f"{told['problem']}\nThe last good configuration stays in force.")
        pending = told["pending"]
        if as_json and not yes:
            print_json(told)
            return
        if pending is None:
            typer.echo("nothing waits to be confirmed: the configuration is in force as it is")
            return
        if not as_json:
            typer.echo("The changed configuration allows more than is in force:")
            for widening in pending["widenings"]:
                typer.echo(f"  {widening['key']}: {widening['text']}")
        if not yes and not typer.confirm("Put it in force?"):
            daemon.request("config.decline", digest=pending["digest"])
            typer.echo("declined; put the file back to forget the change")
            raise typer.Exit(Exit.FAILED)
        daemon.request("config.confirm", digest=pending["digest"])
    if as_json:
        print_json({"confirmed": pending["digest"]})
    else:
        typer.echo("in force")


def paths(as_json: AsJson = False) -> None:
    """Show where configuration and state are kept."""
    from client_agent import config

    places = {"config": str(config.config_path()), "state": str(config.state_dir())}
    if as_json:
        print_json(places)
        return
    for name, place in places.items():
        typer.echo(f"{name:7} {place}{'' if Path(place).exists() else '   (not there yet)'}")
