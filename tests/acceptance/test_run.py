"""`client-agent server` and `client-agent run` as two programs, and an agent that is neither."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

PROGRAM = str(Path(sys.executable).parent / "client-agent")


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *args: str, env: dict[str, str]) -> None:
        self._primary, secondary = pty.openpty()
        self.process = subprocess.Popen(
            [PROGRAM, *args], stdin=secondary, stdout=secondary, stderr=secondary, env=env, start_new_session=True
        )
        os.close(secondary)
        self.text = ""

    def wait_for(self, pattern: str, timeout_s: float = 40) -> re.Match[str]:
        until = time.monotonic() + timeout_s
        while not (match := re.search(pattern, self.text)):
            left = until - time.monotonic()
            assert left > 0, f"{pattern!r} never came:\n{self.text}"
            if select.select([self._primary], [], [], left)[0]:
                try:
                    self.text += os.read(self._primary, 65536).decode("utf-8", "replace")
                except OSError:
                    raise AssertionError(f"ended before {pattern!r}:\n{self.text}") from None
        return match

    def press(self, key: str) -> None:
        os.write(self._primary, key.encode())

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(20)
        os.close(self._primary)
        return code


@contextmanager
def terminal(*args: str, env: dict[str, str]) -> Iterator[Terminal]:
    opened = Terminal(*args, env=env)
    try:
        yield opened
    finally:
        if opened.process.poll() is None:
            opened.process.kill()
            opened.process.wait()


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    state = {"CLIENT_AGENT_STATE_DIR": str(tmp_path / "state"), "CLIENT_AGENT_CONFIG": str(tmp_path / "none.toml")}
    return {**os.environ, **state, "NO_COLOR": "1"}


def token(env: dict[str, str], *args: str) -> str:
    done = subprocess.run([PROGRAM, "server", "token", *args], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def execute(url: str, bearer: str, tool: str, **params: Any) -> Any:
    response = requests.post(
        f"{url}/my/projects/p/tools/execute",
        json={"tool_name": tool, "tool_params": params, "session_id": "s"},
        headers={"Authorization": f"Bearer {bearer}"},
        timeout=60,
    )
    assert response.status_code == 200, response.text
    return response.json()


def test_an_agent_works_through_the_server_and_a_person_answers_with_one_key(
    tmp_path: Path, env: dict[str, str]
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    root = tmp_path / "ws"
    root.mkdir()
    (root / "a.txt").write_text("hello")
    with terminal("server", "--port", "0", env=env) as server:
        url = server.wait_for(r"listening on (http://\S+)")[1]
        agent = token(env, "ann", "--agent", "robot")
        daemon_env = {**env, "CLIENT_AGENT_TOKEN": token(env, "ann")}
        run = ("run", "--server", url, "--project", "p", "--workspace", str(root))
        with terminal(*run, env=daemon_env) as daemon, ThreadPoolExecutor() as pool:
            daemon.wait_for("connected")
            assert execute(url, agent, "read_file", path="a.txt")["result"]["content"] == "hello"
            for key, outcome, status in (("y", "approved", "completed"), ("n", "rejected", "rejected")):
                writing = pool.submit(execute, url, agent, "write_file", path=f"{key}.md", content="text")
                daemon.wait_for(r"Allow it\?")
                time.sleep(0.5)  # a person reads before they press
                daemon.press(key)
                daemon.wait_for(f"→ {outcome}")
                assert writing.result(30)["status"] == status
                daemon.text = ""
            assert (root / "y.md").read_text() == "text"
            assert not (root / "n.md").exists()
            second = [PROGRAM, *run]
            other = subprocess.run(second, env=daemon_env, capture_output=True, text=True, timeout=60, check=False)
            assert other.returncode == 5
            assert "Traceback" not in other.stderr
            assert daemon.end() == 0
        assert server.end(signal.SIGINT) == 0


def test_without_a_token_the_daemon_says_what_to_do(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "ws").mkdir()
    bare = {key: value for key, value in env.items() if key != "CLIENT_AGENT_TOKEN"}
    run = ("run", "--server", "http://127.0.0.1:9", "--project", "p", "--workspace", str(tmp_path / "ws"))
    with terminal(*run, env=bare) as daemon:
        daemon.wait_for("CLIENT_AGENT_TOKEN")
        assert daemon.end() == 0
