"""`client-agent start`, `stop` and `restart`: the daemon in the background."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client_agent.cli.calls import AsJson
from client_agent.cli.exits import Exit
from client_agent.cli.printing import fail, print_json

if TYPE_CHECKING:
    from client_agent.background import Found

READY_S = 30.0
STOP_S = 20.0
_MAY_HEAL = ("connected", "connecting", "retrying")

Connected = Annotated[
    bool, typer.Option("--connected", help="Return when the server has confirmed every workspace, or with 4.")
]
ReadyTimeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait.")]
Force = Annotated[bool, typer.Option("--force", help="Kill it when it does not answer, or not stop in time.")]
StopTimeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds it may take to stop.")]


def start(connected: Connected = False, timeout: ReadyTimeout = READY_S, as_json: AsJson = False) -> None:
    """Start the daemon in the background; returns when it is ready to be asked.

    One that runs already is left as it is. Exit code: as of `run` when it cannot start; with --connected 4 when a
    workspace is not connected in time.
    """
    from client_agent import background, config

    found = background.find(config.state_dir())
    if found is not None and found.told is None:
        fail(f"{_silent(found)}; `client-agent stop --force` ends it", Exit.FAILED)
    told = _start(timeout) if found is None else found.told
    assert told is not None  # noqa: S101
    if connected:
        told = _wait_connected(config.state_dir(), told, timeout)
    told = background.ask_status(config.state_dir(), glance=False) or told
    _report(told, started=found is None, as_json=as_json)
    if connected and not _is_connected(told):
        raise typer.Exit(Exit.SERVER)


def stop(force: Force = False, timeout: StopTimeout = STOP_S) -> None:
    """Stop the daemon: commands under way are ended, writes are finished, results not yet delivered are kept.

    Exit code: 0 when none runs any more, 1 when it has not stopped in time.
    """
    from client_agent import background, config

    found = background.find(config.state_dir())
    if found is None:
        typer.echo("no daemon is running")
        return
    _stop(found, force=force, timeout_s=timeout)


def restart(
    force: Force = False, connected: Connected = False, timeout: ReadyTimeout = READY_S, as_json: AsJson = False
) -> None:
    """Stop the daemon where one runs, and start it again."""
    from client_agent import background, config

    if (found := background.find(config.state_dir())) is not None:
        _stop(found, force=force, timeout_s=STOP_S)
    start(connected=connected, timeout=timeout, as_json=as_json)


def _start(timeout_s: float) -> dict[str, Any]:
    """By the service manager where a service of this state directory is installed, so that it is watched over."""
    from client_agent import background, config
    from client_agent.service import find_manager

    state_dir, manager = config.state_dir(), find_manager()
    if not manager.serves(state_dir):
        return background.start(state_dir, config.config_path(), timeout_s=timeout_s)
    manager.start()
    return background.wait_until_ready(state_dir, timeout_s=timeout_s)


def _stop(found: Found, *, force: bool, timeout_s: float) -> None:
    from client_agent import background, config
    from client_agent.local_api.client import NoDaemon

    state_dir, problem = config.state_dir(), f"{_silent(found)}; `client-agent stop --force` ends it"
    if found.told is not None:
        try:
            background.stop(state_dir, timeout_s=timeout_s, on_wait=_tell_progress)
            typer.echo("stopped", err=True)
        except (NoDaemon, background.NotStopped) as error:
            problem = error.message
        else:
            return
    if not force:
        fail(problem, Exit.FAILED)
    ended = background.kill(state_dir, timeout_s=timeout_s)
    typer.echo(f"killed process {ended}; what it was doing is reported as interrupted at the next start", err=True)


def _tell_progress(told: dict[str, Any]) -> None:
    calls = sum(each["calls_open"] for each in told["workspaces"].values())
    typer.echo(f"stopping; calls under way: {calls}", err=True)


def _silent(found: Found) -> str:
    return f"a daemon (process {found.pid}) is there and does not answer"


def _is_connected(told: dict[str, Any]) -> bool:
    return all(each["state"] == "connected" for each in told["workspaces"].values())


def _is_hopeless(told: dict[str, Any]) -> bool:
    """Whether a server has answered, and said no: that does not heal by waiting."""
    return any(each["state"] not in _MAY_HEAL for each in told["workspaces"].values())


def _wait_connected(state_dir: Path, told: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    import time

    from client_agent import background
    from client_agent.local_api.client import NoDaemon

    until = time.monotonic() + timeout_s
    while not _is_connected(told) and not _is_hopeless(told) and time.monotonic() < until:
        time.sleep(0.02)
        now = background.ask_status(state_dir)
        if now is None:
            raise NoDaemon("the daemon ended while it was connecting: see `client-agent run`")
        told = now
    return told


def _report(told: dict[str, Any], *, started: bool, as_json: bool) -> None:
    from client_agent.cli.standing import describe

    if as_json:
        print_json({"started": started, "connected": _is_connected(told), **told})
        return
    typer.echo("started" if started else "runs already")
    for line in describe(told):
        typer.echo(line)
