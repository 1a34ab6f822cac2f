"""Commands in the background, as a person sees them from a terminal; and a daemon that is killed with some running."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.acceptance.test_approvals_cli import client, laptop
from tests.acceptance.test_run import env

__all__ = ["env"]


def marked(mark: str) -> list[int]:
    return [
        each.pid
        for each in psutil.process_iter(["cmdline", "status"])
        if mark in (each.info["cmdline"] or []) and each.info["status"] != psutil.STATUS_ZOMBIE
    ]


def test_ps_lists_what_runs_in_the_background_and_ends_it(env: dict[str, str], tmp_path: Path) -> None:
    with laptop(env, tmp_path / "w") as there:
        assert "nothing runs" in client(env, "ps").stdout
        handle = there.execute("execute_command", command="grep", args=["some pattern"], background=True)["result"][
            "process_id"
        ]
        (row,) = json.loads(client(env, "ps", "--json").stdout)["processes"]
        assert (row["process_id"], row["running"]) == (handle, True)
        listed = client(env, "ps").stdout
        assert handle[:12] in listed
        assert "grep 'some pattern'" in listed
        assert "in the background: 1" in client(env, "status").stdout
        assert client(env, "ps", "--end", "nothing-of-the-kind").returncode != 0
        assert client(env, "ps", "--end", handle[:8]).returncode == 0
        until = time.monotonic() + 20
        while "cancelled" not in client(env, "ps").stdout:
            assert time.monotonic() < until


def test_nothing_in_the_background_outlives_a_daemon_that_is_killed(env: dict[str, str], tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-killed"
    with laptop(env, tmp_path / "w") as there:
        until = time.monotonic() + 20
        there.execute("execute_command", command="grep", args=[mark], background=True)
        while not marked(mark):  # the answer is there before the program is
            assert time.monotonic() < until, "it was not started"
        os.kill(json.loads(client(env, "status", "--json").stdout)["pid"], signal.SIGKILL)
        while marked(mark):
            assert time.monotonic() < until, "it is still running"


@pytest.mark.parametrize("arguments", [["ps"], ["ps", "--end", "x"]])
def test_without_a_daemon_ps_says_so(env: dict[str, str], arguments: list[str]) -> None:
    done = client(env, *arguments)
    assert done.returncode != 0
    assert "no daemon is running" in done.stderr
