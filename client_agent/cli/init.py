"""`client-agent init`: a directory becomes a workspace, in a minute."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from client_agent.cli.printing import fail

if TYPE_CHECKING:
    from client_agent.config import Settings
    from client_agent.config_edit import NewWorkspace


def init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The directory agents may work in; this one when left out.")
    ] = Path(),
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="The server's base address.", show_default=False)
    ] = None,
    project: Annotated[
        str | None, typer.Option(metavar="ID", help="The project on that server.", show_default=False)
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What you call the workspace; after its directory when left out.")
    ] = None,
    login: Annotated[bool | None, typer.Option("--login/--no-login", help="Log in; asked when left out.")] = None,
    start: Annotated[bool | None, typer.Option("--start/--no-start", help="Start; asked when left out.")] = None,
) -> None:
    """Make a directory a workspace: ask for what is needed, write it down, offer to log in and to start.

    What is in the configuration already stays as it is. Without a terminal nothing is asked: --server and --project
    must be given, and --login and --start where they are wanted.
    """
    from client_agent import background, config
    from client_agent.config_edit import add_workspace

    path = config.config_path()
    known = _known(path)
    new = _gather(directory, server, project, name, known)
    _try_server(new, known)
    added = add_workspace(path, new)
    typer.echo(f"{path}: workspace {new.name!r} {'added' if added else 'is there already'}")
    typer.echo(f"  {new.root} ⇄ project {new.project_id} on {new.server}")
    if _wanted(login, "Log in now?"):
        _log_in(new.server)
    if start is None and background.find(config.state_dir()) is not None:
        start = False  # it runs, and sees the change by itself
    if _wanted(start, "Start it now?"):
        from client_agent.cli import lifecycle

        lifecycle.start()
    _say_next(new, [each.server for each in known.workspaces.values()])


def _gather(
    directory: Path, server: str | None, project: str | None, name: str | None, known: Settings
) -> NewWorkspace:
    """Everything that is needed: given, or asked for in a terminal."""
    from client_agent import config
    from client_agent.config_edit import NewWorkspace, suggest_name

    root = _check_directory(directory)
    suggested = suggest_name(root, known.workspaces)
    if not sys.stdin.isatty():
        missing = [flag for flag, value in (("--server", server), ("--project", project)) if not value]
        if missing:
            fail(f"there is no terminal to ask in: give {' and '.join(missing)}")
    servers = [each.server for each in known.workspaces.values()]
    server = config.check_server(server) if server else _ask_server(servers[-1] if servers else "http://127.0.0.1:8765")
    project = project or _ask("Project on that server", suggested)
    return NewWorkspace(name=name or suggested, root=str(root), project_id=project, server=server)


def _check_directory(directory: Path) -> Path:
    root = directory.expanduser().absolute().resolve()
    if not root.is_dir():
        fail(f"{root} is not a directory")
    if Path.home().resolve().is_relative_to(root):
        fail(f"{root} holds your whole home: choose the directory of one project")
    return root


def _known(path: Path) -> Settings:
    from client_agent import config
    from client_agent.errors import ConfigError

    try:
        return config.load(path)
    except ConfigError as error:
        if error.code != "config_missing":
            raise
        return config.Settings()


def _try_server(new: NewWorkspace, known: Settings) -> None:
    """Says what is wrong with the server as far as can be seen; it may be away today and right all the same."""
    import asyncio

    from client_agent.cli.login import talking_to
    from client_agent.errors import LinkError

    async def ask() -> int:
        async with talking_to(new.server, known) as endpoint:
            return await endpoint.check(new.project_id, "none")

    try:
        status = asyncio.run(ask())
    except LinkError as error:
        typer.echo(f"! {error.message}; written down all the same", err=True)
        return
    if status not in (200, 401, 403):
        typer.echo(f"! {new.server} answers with status {status}: is it the right address?", err=True)


def _wanted(given: bool | None, question: str) -> bool:
    if given is not None:
        return given
    return sys.stdin.isatty() and typer.confirm(question, default=True)


def _ask(what: str, default: str) -> str:
    answer: str = typer.prompt(what, default=default)
    return answer.strip()


def _ask_server(default: str) -> str:
    """An address that can be one: a slip of the finger is asked about again."""
    from client_agent import config
    from client_agent.errors import ConfigError

    while True:
        try:
            return config.check_server(_ask("Server", default))
        except ConfigError as error:
            typer.echo(error.message, err=True)


def _log_in(server: str) -> None:
    import asyncio

    from client_agent.cli.login import log_in

    asyncio.run(log_in(server, _known_now(), None))


def _known_now() -> Settings:
    from client_agent import config

    return config.load(config.config_path())


def _say_next(new: NewWorkspace, servers: list[str]) -> None:
    from client_agent import background, config
    from client_agent.link.credentials import Credentials

    steps = []
    try:
        Credentials(new.server, config.state_dir()).token()
    except Exception:  # noqa: BLE001
        others = set(servers) - {new.server}
        steps.append(f"client-agent login {new.server}" if others else "client-agent login")
    found = background.find(config.state_dir())
    if found is None:
        steps.append("client-agent start")
    elif found.told is not None and new.name not in found.told["workspaces"]:
        steps.append("client-agent config confirm")  # a daemon that runs lets nobody in without the user's word
    if steps:
        typer.echo(f"next: {', then '.join(f'`{step}`' for step in steps)}")
