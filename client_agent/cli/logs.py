"""`client-agent logs`: what the daemon said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from client_agent.cli.printing import fail, print_json

if TYPE_CHECKING:
    from client_agent.logbook import Line

SHOWN = 200


def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on showing what is said, until Ctrl-C.")] = False,
    workspace: Annotated[
        str | None, typer.Option("--workspace", "-w", metavar="NAME", help="Of this workspace alone.")
    ] = None,
    level: Annotated[str, typer.Option(help="From this level on: debug, info, warning or error.")] = "debug",
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="The last so many.")] = SHOWN,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")] = False,
) -> None:
    """Show the daemon's log; how much is in it is said by `log_level` in the configuration."""
    from collections import deque
    from contextlib import closing

    from client_agent import config, logbook

    if level not in logbook.LEVELS:
        fail(f"--level: found {level!r}, expected one of {', '.join(logbook.LEVELS)}")
    with closing(logbook.Reader(config.state_dir())) as reader:
        for line in deque(_chosen(reader.past(), workspace, level), maxlen=lines):
            _show(line, as_json=as_json)
        for line in _chosen(reader.coming() if follow else iter(()), workspace, level):
            _show(line, as_json=as_json)


def _chosen(lines: Iterator[Line], workspace: str | None, level: str) -> Iterator[Line]:
    from client_agent.logbook import LEVELS

    wanted = {*LEVELS[LEVELS.index(level) :], "critical"}
    return (line for line in lines if line.level in wanted and workspace in (None, line.workspace))


def _show(line: Line, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(line))
        return
    where = f"{line.workspace}: " if line.workspace and not line.message.startswith(f"{line.workspace}: ") else ""
    typer.echo(f"{line.time:%Y-%m-%d %H:%M:%S} {line.level:7} {where}{line.message}")
    for traced in line.trace:
        typer.echo(f"    {traced}")
