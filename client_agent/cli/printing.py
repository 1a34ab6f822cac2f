"""Output for people and for programs."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import typer

from client_agent.cli.exits import Exit


def print_json(value: Any) -> None:
    """One JSON value on one line, for programs."""
    import msgspec

    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def print_pretty_json(value: Any) -> None:
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def fail(message: str, code: Exit = Exit.USAGE) -> NoReturn:
    typer.echo(f"client-agent: {message}", err=True)
    raise typer.Exit(code)
