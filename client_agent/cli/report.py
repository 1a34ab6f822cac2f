"""`client-agent report`: a bundle for a bug report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from client_agent.cli.calls import AsJson
from client_agent.cli.printing import fail, print_json


def report(
    target: Annotated[
        Path | None, typer.Argument(help="The file to make; one named by the time when left out.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a redacted bundle for a bug report: look into it before you send it.

    It holds versions, the configuration, what doctor and status say, counts of calls and the last of the log; no
    content of any file, no parameters of calls, no tokens.
    """
    from datetime import UTC, datetime

    from client_agent import config
    from client_agent.report import gather, write

    path = target or Path(f"client-agent-report-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz")
    parts = gather(config.config_path(), config.state_dir())
    try:
        write(parts, path)
    except OSError as error:
        fail(f"{path} cannot be made: {error.strerror}")
    if as_json:
        print_json({"file": str(path), "parts": {part.name: part.holds for part in parts}})
        return
    typer.echo(f"{path} holds")
    for part in parts:
        typer.echo(f"  {part.name:14} {part.holds} ({len(part.content)} bytes)")
