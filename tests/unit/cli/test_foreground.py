"""`client-agent run` reads its arguments without typer where they are plain: then both must read the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from client_agent.cli import run
from client_agent.cli.app import app
from client_agent.cli.foreground import read_plainly

PLAIN = [
    "",
    "--until-ready",
    "-v",
    "--server http://a --project p --workspace w",
    "--verbose -w /w/x --project 1 --server https://a/b --until-ready",
]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """With what the daemon was started."""
    taken: dict[str, Any] = {}

    def start(server: str | None, project: str | None, workspace: Path | None, **flags: bool) -> None:
        taken.update(server=server, project=project, workspace=workspace, **flags)

    monkeypatch.setattr(run, "run_daemon", start)
    return taken


@pytest.mark.parametrize("line", PLAIN)
def test_plain_arguments_are_read_as_typer_reads_them(line: str, taken: dict[str, Any]) -> None:
    read = read_plainly(line.split())
    assert read is not None
    assert CliRunner().invoke(app, ["run", *line.split()]).exit_code == 0
    assert {name: value for name, value in taken.items() if value} == read


@pytest.mark.parametrize(
    "line",
    ["--help", "--server", "--server=http://a", "--server -v", "--project p --project q", "-v --verbose", "-vw w", "x"],
)
def test_all_else_is_left_to_typer(line: str) -> None:
    assert read_plainly(line.split()) is None
    assert read_plainly(["--server", ""]) is None
