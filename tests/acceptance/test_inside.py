"""The installed program, lived with: its configuration changed under it, two workspaces, and a look inside."""

from __future__ import annotations

import json
import socket
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.home import PROGRAM, Home, execute, wait_until


@pytest.fixture
def server(home: Home, server: str, tmp_path: Path) -> str:
    home.config.parent.chmod(0o700)
    home.config.chmod(0o600)
    (tmp_path / "ws" / "a.md").write_text("text")
    home.env["CLIENT_AGENT_TOKEN"] = home.token("ann")
    return server


class Agent:
    def __init__(self, home: Home, url: str) -> None:
        self._bearer = home.token("ann", "--agent", "robot")
        self._url = url

    def reads(self, project: str = "demo", path: str = "a.md") -> bool:
        return bool(execute(self._url, self._bearer, project, "read_file", path=path)["status"] == "completed")


def configuration(home: Home) -> dict[str, Any]:
    told: dict[str, Any] = home.told("status", code=None)["configuration"]
    return told


def test_a_tighter_a_broken_and_a_wider_configuration(home: Home, server: str) -> None:
    agent = Agent(home, server)
    plain = home.config.read_text()
    assert home.run("start", "--connected").returncode == 0
    assert agent.reads()
    assert home.run("config", "confirm").stdout.startswith("nothing waits")

    home.config.write_text(f'{plain}[workspaces.demo.policy]\ndeny = ["a.md"]\n')
    wait_until(lambda: not agent.reads())

    home.config.write_text(f"{plain}[workspaces.demo.policy\n")
    wait_until(lambda: configuration(home)["problem"])
    assert "the last good one stays in force" in home.run("status").stdout
    refused = home.run("config", "confirm")
    assert refused.returncode == 2
    assert "not valid TOML" in refused.stderr
    assert not agent.reads()

    home.config.write_text(plain)
    wait_until(lambda: configuration(home)["pending"])
    assert not agent.reads()
    assert "client-agent config confirm" in home.run("status").stdout
    no = home.run("config", "confirm", stdin="n\n")
    assert no.returncode == 1
    assert "workspaces.demo.policy.deny: no longer refused: a.md" in no.stdout
    assert not agent.reads()
    assert home.run("config", "confirm", stdin="y\n").returncode == 0
    assert agent.reads()
    assert configuration(home) == {"problem": None, "pending": None}
    assert "CONFIGURE" in home.run("audit", "show").stdout
    assert home.run("audit", "verify").returncode == 0


def test_what_waits_is_not_let_in_by_a_restart(home: Home, server: str) -> None:
    agent = Agent(home, server)
    plain = home.config.read_text()
    home.config.write_text(f'{plain}[workspaces.demo.policy]\ndeny = ["a.md"]\n')
    assert home.run("start", "--connected").returncode == 0
    home.config.write_text(plain)
    wait_until(lambda: configuration(home)["pending"])
    assert home.run("restart", "--connected").returncode == 0
    assert not agent.reads()
    assert home.run("config", "confirm", "--yes").returncode == 0
    assert agent.reads()


def test_two_workspaces_one_of_them_with_a_dead_server(home: Home, server: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}"
    home.configure(demo=(server, tmp_path / "ws"), other=(dead, tmp_path / "other"))
    assert home.run("start").returncode == 0
    agent = Agent(home, server)
    assert agent.reads()
    told = wait_until(lambda: _if_settled(home.told("status", code=4)))
    assert told["demo"]["state"] == "connected"
    assert told["other"]["state"] == "retrying"
    assert told["other"]["detail"]
    found = home.told("doctor", code=1)["findings"]
    failing = {finding["check"]: finding for finding in found if finding["level"] == "fail"}
    assert set(failing) == {"connection other", f"server {dead}"}
    assert all(finding["remedy"] for finding in failing.values())
    assert agent.reads()


def _if_settled(told: dict[str, Any]) -> dict[str, Any] | None:
    states = {name: each["state"] for name, each in told["workspaces"].items()}
    return told["workspaces"] if states == {"demo": "connected", "other": "retrying"} else None


def test_a_look_inside_as_a_user_takes_it(home: Home, server: str, tmp_path: Path) -> None:
    assert home.run("start", "--connected").returncode == 0
    agent = Agent(home, server)
    doctor = home.run("doctor")
    assert doctor.returncode == 0, doctor.stdout
    assert "✓ connection demo: connected" in doctor.stdout

    follow = [PROGRAM, "logs", "-f", "--json", "--workspace", "demo", "--level", "info"]
    with subprocess.Popen(follow, env=home.env, stdout=subprocess.PIPE, text=True) as following:
        try:
            assert following.stdout is not None
            assert "connected" in json.loads(following.stdout.readline())["message"]
            assert not agent.reads(path="none.md")
            line = json.loads(following.stdout.readline())
            assert (line["workspace"], line["level"]) == ("demo", "info")
            assert "none.md" in line["message"]
        finally:
            following.terminate()
    assert "connected to" in home.run("logs").stdout
    assert home.run("logs", "--level", "loud").returncode == 2
    assert home.run("logs", "--workspace", "nobody").stdout == ""

    metrics = home.run("metrics").stdout
    assert 'client_agent_connected{workspace="demo"} 1.0' in metrics
    assert 'client_agent_calls_decided_total{decision="run",tool="read_file",workspace="demo"} 1.0' in metrics

    made = home.run("report", str(tmp_path / "report.tar.gz"))
    assert made.returncode == 0, made.stderr
    assert "log.json" in made.stdout
    with tarfile.open(tmp_path / "report.tar.gz") as bundle:
        texts = [opened.read().decode() for each in bundle.getmembers() if (opened := bundle.extractfile(each))]
    assert len(texts) == 6
    assert all(home.env["CLIENT_AGENT_TOKEN"] not in text for text in texts)
    assert home.run("report", str(tmp_path / "report.tar.gz")).returncode == 2
