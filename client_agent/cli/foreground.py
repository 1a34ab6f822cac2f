"""The daemon in the foreground.

Without typer: this process stays for long, and would carry along what only parses arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from client_agent.cli.live import LiveLines
from client_agent.errors import UserError

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from client_agent.approvals.broker import Broker
    from client_agent.config import Settings
    from client_agent.reload import Source

_OPTIONS = {"--server": "server", "--project": "project", "--workspace": "workspace", "-w": "workspace"}
_FLAGS = {"--verbose": "verbose", "-v": "verbose", "--until-ready": "until_ready"}


def read_plainly(words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments of `run`, where each is spelled out, and once; None leaves all else, and mistakes, to typer."""
    read: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        name = _FLAGS.get(word) or _OPTIONS.get(word)
        if name is None or name in read:
            return None
        if word in _FLAGS:
            read[name] = True
            continue
        value = next(rest, "")
        if not value or value.startswith("-"):
            return None
        read[name] = Path(value) if name == "workspace" else value
    return read


def run_daemon(
    server: str | None = None,
    project: str | None = None,
    workspace: Path | None = None,
    *,
    verbose: bool = False,
    until_ready: bool = False,
) -> None:
    """Works until it is told to stop; asks in this terminal, if it is one."""
    import asyncio
    import logging
    from functools import partial

    source = _source(server, project, workspace)
    settings = source.read().settings
    handler = _log_to_stderr("debug" if verbose else settings.log_level)
    on_ready = partial(logging.getLogger().removeHandler, handler) if until_ready else lambda: None
    asyncio.run(_run(source, settings, on_ready))


async def _run(source: Source, settings: Settings, on_ready: Callable[[], None]) -> None:
    import asyncio
    import signal

    from client_agent import config
    from client_agent.approvals.broker import Broker
    from client_agent.daemon import Daemon
    from client_agent.readiness import Supervisor

    broker = Broker()
    in_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    live = LiveLines(sys.stdout, lambda: bool(broker.open_questions)) if in_terminal else None
    daemon = Daemon(source, config.state_dir(), broker, on_output=live)
    task = asyncio.current_task()
    assert task is not None  # noqa: S101
    for number in (signal.SIGINT, signal.SIGTERM) if sys.platform != "win32" else ():  # there Ctrl-C cancels by itself
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    for name, workspace in settings.workspaces.items():
        print(f"{name}: {workspace.root} ⇄ project {workspace.project_id} on {workspace.server}", flush=True)
    supervisor = Supervisor()

    def tell_ready() -> None:
        supervisor.tell("READY=1")
        on_ready()

    with supervisor.watching(), answering(broker) if in_terminal else nullcontext():
        try:
            await daemon.run(on_ready=tell_ready)
        except asyncio.CancelledError:
            print("stopped", flush=True)


def answering(broker: Broker) -> AbstractContextManager[Any]:
    """This terminal as a channel, with its keys, for as long as the context is open."""
    from client_agent.approvals.terminal import Keyboard, TerminalChannel

    channel = TerminalChannel(broker)
    broker.attach(channel)
    return Keyboard(channel.press)


def _source(server: str | None, project: str | None, workspace: Path | None) -> Source:
    from client_agent import config
    from client_agent.reload import FileSource, FixedSource

    given = [server is not None, project is not None, workspace is not None]
    if not any(given):
        return FileSource(config.config_path())
    if server is None or project is None or workspace is None:
        raise UserError("--server, --project and --workspace go together")
    root = workspace.expanduser().absolute()
    local = config.local_workspace(root, server=server, project_id=project)
    return FixedSource(config.Settings(workspaces={"workspace": local}))


def _log_to_stderr(level: str) -> logging.Handler:
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
    return handler
