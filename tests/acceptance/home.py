"""A home of its own for the installed program: configuration, state, a server to talk to, an agent that asks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

PROGRAM = str(Path(sys.executable).parent / "client-agent")
PATIENCE_S = 60


class Home:
    """Everything `client-agent` sees of one user."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.config = place / ".config" / "client-agent" / "config.toml"
        self.state = place / ".local" / "state" / "client-agent"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLIENT_AGENT_", "XDG_"))}
        self.env = {
            **kept,
            "HOME": str(place),
            "NO_COLOR": "1",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }
        place.mkdir(exist_ok=True)

    def run(self, *args: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *args],
            input=stdin,
            env={**self.env, **env},
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def told(self, *args: str, code: int | None = 0) -> dict[str, Any]:
        """What a command says with --json; it must end with this code, if one is given."""
        done = self.run(*args, "--json")
        assert code is None or done.returncode == code, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def configure(self, **workspaces: tuple[str, Path]) -> None:
        """Each workspace by name: its server, its directory."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        tables = []
        for name, (server, root) in workspaces.items():
            root.mkdir(exist_ok=True)
            tables.append(f'[workspaces.{name}]\nroot = "{root}"\nproject_id = "{name}"\nserver = "{server}"\n')
        self.config.write_text("\n".join(tables))

    def token(self, *args: str) -> str:
        return self.run("server", "token", *args).stdout.strip()

    @contextmanager
    def server(self) -> Iterator[str]:
        """A server of this home, and its address."""
        command = [PROGRAM, "server", "--port", "0"]
        with subprocess.Popen(
            command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                assert process.stdout is not None
                found = (re.search(r"listening on (http://\S+)", line) for line in process.stdout)
                yield next(match[1] for match in found if match)
            finally:
                process.terminate()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Whatever happens, no daemon is left behind."""
        try:
            yield
        finally:
            self.run("stop", "--force", "--timeout", "10")


def execute(url: str, bearer: str, project: str, tool: str, **params: Any) -> Any:
    """What an agent gets for a call."""
    response = requests.post(
        f"{url}/my/projects/{project}/tools/execute",
        json={"tool_name": tool, "tool_params": params, "session_id": "s"},
        headers={"Authorization": f"Bearer {bearer}"},
        timeout=PATIENCE_S,
    )
    assert response.status_code == 200, response.text
    return response.json()


def wait_until(holds: Any) -> Any:
    """The first true value; a minute is for ever."""
    until = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.05)
    return found
