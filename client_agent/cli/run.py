"""`client-agent run`: the daemon in the foreground."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client_agent.cli.printing import fail

if TYPE_CHECKING:
    from client_agent.approvals.broker import Broker
    from client_agent.config import Settings


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
) -> None:
    """Run the daemon in the foreground; it asks in this terminal. Ctrl-C ends it.

    With --server, --project and --workspace, and the token in CLIENT_AGENT_TOKEN, no configuration file is needed.
    """
    import asyncio

    settings = _settings(server, project, workspace)
    _log_to_stderr("debug" if verbose else settings.log_level)
    asyncio.run(_run(settings))


async def _run(settings: Settings) -> None:
    import asyncio
    import signal

    from client_agent import config
    from client_agent.approvals.broker import Broker
    from client_agent.daemon import Daemon

    broker = Broker()
    daemon = Daemon(settings, config.state_dir(), broker)
    task = asyncio.current_task()
    assert task is not None  # noqa: S101
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    for name, workspace in settings.workspaces.items():
        typer.echo(f"{name}: {workspace.root} ⇄ project {workspace.project_id} on {workspace.server}")
    with answering(broker) if sys.stdin.isatty() and sys.stdout.isatty() else nullcontext():
        try:
            await daemon.run()
        except asyncio.CancelledError:
            typer.echo("stopped")


def answering(broker: Broker) -> AbstractContextManager[Any]:
    """This terminal as a channel, with its keys, for as long as the context is open."""
    from client_agent.approvals.terminal import Keyboard, TerminalChannel

    channel = TerminalChannel(broker)
    broker.attach(channel)
    return Keyboard(channel.press)


def _settings(server: str | None, project: str | None, workspace: Path | None) -> Settings:
    from client_agent import config

    given = [server is not None, project is not None, workspace is not None]
    if not any(given):
        settings = config.load(config.config_path())
        if not settings.workspaces:
            fail(f"{config.config_path()} has no workspaces: add a [workspaces.NAME] table")
        return settings
    if server is None or project is None or workspace is None:
        fail("--server, --project and --workspace go together")
    root = workspace.expanduser().absolute()
    return config.Settings(workspaces={"workspace": config.local_workspace(root, server=server, project_id=project)})


def _log_to_stderr(level: str) -> None:
    import logging

    from client_agent.approvals.honest import reveal

    class Honest(logging.Formatter):
        """What a server says must not paint over the question beside it."""

        def format(self, record: logging.LogRecord) -> str:
            return "\n".join(map(reveal, super().format(record).split("\n"))) if record.exc_info else self._line(record)

        def _line(self, record: logging.LogRecord) -> str:
            return reveal(super().format(record))

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Honest("%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for noisy in ("httpx", "httpcore", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
