"""The daemon in the background: started, looked at, paused, stopped, killed, started again."""

from __future__ import annotations

import os
import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.acceptance.home import Home, execute, wait_until


@pytest.fixture
def server(home: Home, server: str) -> str:
    home.env["CLIENT_AGENT_TOKEN"] = home.token("ann")
    return server


def agent(home: Home) -> str:
    return home.token("ann", "--agent", "robot")


def has_ended(pid: int) -> bool:
    """Whether nothing is left of it but, where nobody collects them, its entry in the process table."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_it_starts_connects_and_stops(home: Home, server: str, tmp_path: Path) -> None:
    assert home.told("status", code=6) == {"running": False, "connected": False, "pid": None}
    started = home.told("start", "--connected")
    assert (started["started"], started["connected"]) == (True, True)
    workspace = started["workspaces"]["demo"]
    assert (workspace["root"], workspace["project_id"], workspace["server"]) == (str(tmp_path / "ws"), "demo", server)
    assert workspace["sandbox"]["name"] in ("namespaces", "landlock")

    process = psutil.Process(started["pid"])
    assert process.cwd() == "/"
    assert process.terminal() is None
    assert os.getsid(process.pid) == process.pid
    again = home.told("start")
    assert (again["started"], again["pid"]) == (False, started["pid"])

    told = home.run("status")
    assert told.returncode == 0
    assert "connected" in told.stdout
    assert home.run("stop").returncode == 0
    wait_until(lambda: has_ended(process.pid))
    assert home.run("stop").stdout == "no daemon is running\n"
    assert home.run("status").returncode == 6


def test_the_daemon_waits_without_what_it_has_no_use_for_yet(home: Home, server: str) -> None:
    assert home.run("start", "--connected", PYTHONPROFILEIMPORTTIME="1").returncode == 0
    told = (home.state / "start.log").read_text()
    loaded = {line.rpartition("|")[2].strip() for line in told.splitlines() if line.startswith("import time:")}
    assert {"client_agent.daemon", "aiohttp", "httpx"} <= loaded
    unused = {
        "desktop_notifier",
        "fastapi",
        "keyring",
        "psutil",
        "pydantic",
        "rich",
        "tree_sitter",
        "typer",
        "websockets",
    }
    assert loaded & unused == set()


def test_restart_gives_another_process(home: Home, server: str) -> None:
    first = home.told("start")
    second = home.told("restart", "--connected")
    assert second["started"]
    assert second["pid"] != first["pid"]
    wait_until(lambda: has_ended(first["pid"]))


def test_why_it_cannot_start_is_said_with_the_daemons_own_exit_code(home: Home, tmp_path: Path) -> None:
    missing = home.run("start")
    assert (missing.returncode, "there is no such file" in missing.stderr) == (2, True)
    home.configure(demo=("http://127.0.0.1:9", tmp_path / "ws"))
    home.config.write_text(home.config.read_text().replace("root", "roof"))
    broken = home.run("start")
    assert (broken.returncode, "did you mean 'root'?" in broken.stderr) == (2, True)
    assert home.run("status").returncode == 6


def test_what_a_newer_program_wrote_is_refused_in_words_that_no_supervisor_tries_again(home: Home, server: str) -> None:
    home.told("start")
    home.run("stop")
    with closing(sqlite3.connect(home.state / "journal.sqlite3")) as journal:
        journal.execute("PRAGMA user_version = 1000")
    refused = home.run("start")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"client-agent: {home.state / 'journal.sqlite3'} was written by a newer")


def test_a_server_that_is_not_there_is_not_called_connected(home: Home, tmp_path: Path) -> None:
    home.configure(demo=("http://127.0.0.1:9", tmp_path / "ws"))
    home.env["CLIENT_AGENT_TOKEN"] = "t"
    assert not home.told("start")["connected"]
    told = home.told("status", code=4)
    assert (told["running"], told["connected"]) == (True, False)
    assert told["workspaces"]["demo"]["state"] in ("connecting", "retrying")


def test_a_dead_server_disturbs_no_other_workspace(home: Home, server: str, tmp_path: Path) -> None:
    home.configure(demo=(server, tmp_path / "ws"), dead=("http://127.0.0.1:9", tmp_path / "dead"))
    (tmp_path / "ws" / "a.txt").write_text("hello")
    home.told("start")
    wait_until(lambda: home.told("status", code=4)["workspaces"]["demo"]["state"] == "connected")
    assert execute(server, agent(home), "demo", "read_file", path="a.txt")["result"]["content"] == "hello"
    told = home.told("status", code=4)["workspaces"]
    assert (told["demo"]["state"], told["dead"]["state"]) == ("connected", "retrying")
    assert "demo: connected" in home.run("status").stdout
    assert home.run("stop").returncode == 0


def test_a_token_that_the_server_does_not_take_ends_the_wait(home: Home, server: str) -> None:
    home.env["CLIENT_AGENT_TOKEN"] = "not-a-token"
    started = home.told("start", "--connected", code=4)
    assert started["workspaces"]["demo"]["state"] == "unauthorized"


def test_one_that_hangs_is_found_by_its_lock_and_ended_by_force(home: Home, server: str) -> None:
    pid = home.told("start")["pid"]
    os.kill(pid, signal.SIGSTOP)
    told = home.run("stop", "--timeout", "1")
    assert (told.returncode, f"process {pid}" in told.stderr) == (1, True)
    assert not has_ended(pid)
    forced = home.run("stop", "--force", "--timeout", "1")
    assert (forced.returncode, f"killed process {pid}" in forced.stderr) == (0, True)
    assert home.run("status").returncode == 6


def test_a_number_in_the_lock_that_is_somebody_elses_ends_nobody(home: Home, server: str) -> None:
    pid = home.told("start")["pid"]
    os.kill(pid, signal.SIGSTOP)
    (home.state / "daemon.lock").write_text(f"{os.getpid()}\n")
    forced = home.run("stop", "--force", "--timeout", "1")
    assert (forced.returncode, "nothing was ended" in forced.stderr) == (1, True)
    (home.state / "daemon.lock").write_text(f"{pid}\n")


def test_after_a_kill_the_next_start_takes_up_what_was_asked(home: Home, server: str, tmp_path: Path) -> None:
    robot = agent(home)
    pid = home.told("start", "--connected")["pid"]
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(execute, server, robot, "demo", "write_file", path="a.md", content="text")
        wait_until(lambda: home.told("approvals", "list")["questions"])
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: home.run("status").returncode == 6)
        assert home.told("start", "--connected")["pid"] != pid
        (question,) = wait_until(lambda: home.told("approvals", "list")["questions"])
        assert home.run("approvals", "approve", question["id"]).returncode == 0
        assert asking.result(60)["status"] == "completed"
    assert (tmp_path / "ws" / "a.md").read_text() == "text"


def test_a_pause_refuses_every_call_outlives_the_daemon_and_is_shown(home: Home, server: str, tmp_path: Path) -> None:
    robot = agent(home)
    (tmp_path / "ws" / "a.txt").write_text("hello")
    home.told("start", "--connected")
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(execute, server, robot, "demo", "write_file", path="b.md", content="x")
        wait_until(lambda: home.told("approvals", "list")["questions"])
        home.told("pause", "--note", "at lunch")
        assert "at lunch" in asking.result(60)["error"]
    assert home.told("approvals", "list")["questions"] == []
    home.told("restart", "--connected")
    assert home.told("status")["workspaces"]["demo"]["pause"]["note"] == "at lunch"
    refused = execute(server, robot, "demo", "read_file", path="a.txt")
    assert (refused["status"], "(at lunch)" in refused["error"]) == ("failed", True)
    assert home.told("resume") == {"resumed": ["demo"]}
    assert execute(server, robot, "demo", "read_file", path="a.txt")["result"]["content"] == "hello"
    assert home.told("resume") == {"resumed": []}


def test_a_pause_needs_no_daemon_and_a_workspace_that_exists(home: Home, tmp_path: Path) -> None:
    home.configure(a=("http://127.0.0.1:9", tmp_path / "a"), b=("http://127.0.0.1:9", tmp_path / "b"))
    home.env["CLIENT_AGENT_TOKEN"] = "t"
    assert [each["workspace"] for each in home.told("pause", "b", "--for", "2h")["paused"]] == ["b"]
    for wrong in (["pause", "c"], ["pause", "--for", "soon"], ["resume", "c"]):
        assert home.run(*wrong).returncode == 2
    home.told("start")
    workspaces = home.told("status", code=4)["workspaces"]
    assert workspaces["a"]["pause"] is None
    assert workspaces["b"]["pause"]["until"] - workspaces["b"]["pause"]["since"] == 7200
    for wrong in (["pause", "c"], ["resume", "c"], ["pause", "--for", "31d"]):
        assert home.run(*wrong).returncode == 2
