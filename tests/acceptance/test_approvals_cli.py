"""Questions answered from another terminal, as a person does it, against the installed program."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_run import PROGRAM, Terminal, env, execute, terminal, token

__all__ = ["env"]


def client(env: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *args], env=env, capture_output=True, text=True, timeout=60, check=False)


class Laptop:
    """A daemon without a terminal, and an agent that asks in the background."""

    def __init__(self, env: dict[str, str], url: str, agent: str, pool: ThreadPoolExecutor) -> None:
        self.env = env
        self._url = url
        self._agent = agent
        self._pool = pool

    def execute(self, tool: str, **params: Any) -> Any:
        return execute(self._url, self._agent, tool, **params)

    def ask(self, path: str) -> Future[Any]:
        return self._pool.submit(execute, self._url, self._agent, "write_file", path=path, content="x")

    def question(self) -> dict[str, Any]:
        while True:
            told = json.loads(client(self.env, "approvals", "list", "--json").stdout)
            if told["questions"]:
                found: dict[str, Any] = told["questions"][0]
                return found


@contextmanager
def laptop(env: dict[str, str], root: Path) -> Iterator[Laptop]:
    root.mkdir()
    with terminal("server", "--port", "0", env=env) as server, ThreadPoolExecutor(2) as pool:
        url = server.wait_for(r"listening on (http://\S+)")[1]
        user, agent = token(env, "ada"), token(env, "ada", "--agent", "agent")
        command = [PROGRAM, "run", "--server", url, "--project", "p", "--workspace", str(root)]
        with subprocess.Popen(
            command, env={**env, "CLIENT_AGENT_TOKEN": user}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        ) as daemon:
            try:
                while client(env, "status").returncode != 0:
                    assert daemon.poll() is None
                yield Laptop(env, url, agent, pool)
            finally:
                daemon.terminate()
                daemon.wait(20)


def test_questions_are_listed_approved_and_rejected_from_elsewhere(env: dict[str, str], tmp_path: Path) -> None:
    with laptop(env, tmp_path / "w") as there:
        status = client(env, "status", "--json")
        assert status.returncode == 0
        assert json.loads(status.stdout)["workspaces"]["workspace"]["state"] == "connected"

        asking = there.ask("a.md")
        question = there.question()
        listed = client(env, "approvals")
        assert "write_file" in listed.stdout
        assert question["id"][:8] in listed.stdout
        assert client(env, "approvals", "approve", question["id"][:8]).returncode == 0
        assert asking.result(30)["status"] == "completed"

        asking = there.ask("b.md")
        question = there.question()
        assert client(env, "approvals", "reject", question["id"], "--reason", "not there").returncode == 0
        assert "not there" in asking.result(30)["error"]
        late = client(env, "approvals", "approve", question["id"])
        assert (late.returncode, "no open question" in late.stderr) == (1, True)

        url = client(env, "ui", "--print-url").stdout.strip()
        assert url.startswith("http://127.0.0.1:")


def test_watching_shows_a_question_and_takes_a_key_for_it(env: dict[str, str], tmp_path: Path) -> None:
    with laptop(env, tmp_path / "w") as there, terminal("approvals", "watch", env=env) as watching:
        watching.wait_for("questions appear here")
        asking = there.ask("a.md")
        watching.wait_for("yes, once")
        press_until_answered(watching, asking)
        assert asking.result(30)["status"] == "completed"
        watching.wait_for("approved")
        watching.press("q")
        watching.wait_for(re.escape("\x1b[?1049l"))  # the screen that was there before
        assert watching.process.wait(20) == 0


def test_ctrl_c_leaves_the_terminal_as_it_was(env: dict[str, str], tmp_path: Path) -> None:
    with laptop(env, tmp_path / "w"), terminal("approvals", "watch", env=env) as watching:
        watching.wait_for("questions appear here")
        watching.process.send_signal(signal.SIGINT)
        watching.wait_for(re.escape("\x1b[?25h\x1b[?1049l"))
        assert watching.process.wait(20) == 130


def press_until_answered(watching: Terminal, asking: Future[Any]) -> None:
    """A key that comes too soon after the question is no answer, so it may take two."""
    while not asking.done():
        watching.press("y")
        try:
            asking.result(0.5)
        except TimeoutError:
            continue


@pytest.mark.parametrize("command", [["approvals"], ["ui"], ["status"], ["approvals", "approve", "x"]])
def test_without_a_daemon_it_is_said(env: dict[str, str], command: list[str]) -> None:
    done = client(env, *command)
    assert done.returncode != 0
    assert "no daemon is running" in done.stdout + done.stderr
