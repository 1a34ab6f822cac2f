"""`client-agent service`: the daemon as a service of your session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from client_agent.cli.calls import AsJson
from client_agent.cli.exits import Exit
from client_agent.cli.printing import print_json

if TYPE_CHECKING:
    from client_agent.service import Plan

app = typer.Typer(
    help="The daemon as a service: starts with your session, and again after a failure.", no_args_is_help=True
)


@app.command()
def install(
    start: Annotated[bool, typer.Option("--start/--no-start", help="Start it at once.")] = True,
    print_only: Annotated[bool, typer.Option("--print", help="Only print what would be written.")] = False,
) -> None:
    """Install and start the service of this user. It sees the PATH of your login shell. Exit code 1 when it cannot."""
    from client_agent import background, config
    from client_agent.service import find_manager

    manager, plan = find_manager(), _plan()
    if print_only:
        typer.echo(manager.render(plan), nl=False)
        return
    config.load(config.config_path())  # a service that cannot start is not worth installing
    _warn_of_what_it_does_not_see()
    manager.install(plan)  # before anything is stopped: where it cannot be installed, the daemon goes on as it is
    if start:
        if not manager.state().running and background.find(config.state_dir()) is not None:
            from client_agent.cli.lifecycle import stop

            stop()
        manager.start()
    typer.echo(f"{manager.file}: installed" + (" and started" if start else ""))


@app.command()
def uninstall() -> None:
    """Stop the service and remove it. Configuration, state and token stay."""
    from client_agent.service import find_manager

    manager = find_manager()
    typer.echo(f"{manager.file}: removed" if manager.uninstall() else "no service is installed")


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show what the service manager says. Exit code 0 when it runs, 6 when not."""
    import msgspec

    from client_agent.service import find_manager

    state = find_manager().state()
    if as_json:
        print_json(msgspec.to_builtins(state))
    else:
        words = "runs" if state.running else "installed, does not run" if state.installed else "not installed"
        typer.echo(f"{state.manager}: {words}{f' ({state.detail})' if state.detail else ''}")
    raise typer.Exit(Exit.OK if state.running else Exit.NOT_RUNNING)


def _plan() -> Plan:
    import asyncio

    from client_agent import config
    from client_agent.bundle import own_command
    from client_agent.sandbox import login_shell_path
    from client_agent.service import Plan

    path = asyncio.run(login_shell_path()) or os.environ.get("PATH", os.defpath)
    places = {"CLIENT_AGENT_CONFIG": config.config_path(), "CLIENT_AGENT_STATE_DIR": config.state_dir()}
    environment = {"PATH": path, **{name: str(place.absolute()) for name, place in places.items()}}
    return Plan(program=tuple(own_command()), environment=environment, state_dir=config.state_dir().absolute())


def _warn_of_what_it_does_not_see() -> None:
    from client_agent import config
    from client_agent.errors import LinkError
    from client_agent.link.credentials import TOKEN_VARIABLE, Credentials

    for server in {each.server for each in config.load(config.config_path()).workspaces.values()}:
        try:
            Credentials(server, config.state_dir(), env={}).token()
        except LinkError:
            typer.echo(f"! no token is kept for {server}: `client-agent login {server}`", err=True)
    if TOKEN_VARIABLE in os.environ:
        typer.echo(f"! {TOKEN_VARIABLE} is not seen by the service: it uses what `client-agent login` kept", err=True)
    if any(name.lower() in ("http_proxy", "https_proxy") for name in os.environ):
        typer.echo("! the proxy of your environment is not seen by the service: set link.proxy", err=True)
