"""The daemon as a service: the unit is what systemd understands, and systemd runs it, watches it and restarts it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.acceptance.home import PATIENCE_S, Home, wait_until

SYSTEMD = Path("/lib/systemd/systemd")

# A manager of its own: it only starts where the system looks booted by systemd, and /run is not ours to change. It
# takes every process of its cgroup under its limits, so it gets one of its own, or the whole machine would be bound.
_MANAGER = """
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system || exit 77
own=/sys/fs/cgroup/client-agent-test-$$
mount -t cgroup2 cgroup2 /sys/fs/cgroup && mkdir "$own" || exit 77
sh -c 'echo $$ > "$1"/cgroup.procs && exec "$0" --user --log-target=console --log-level=info' "$0" "$own" &
trap 'kill -TERM $!' TERM
while wait $!; ended=$?; kill -0 $! 2>/dev/null; do :; done
find "$own" -depth -type d -exec rmdir {} +
exit $ended
"""


class Session:
    """A home with a systemd user manager that serves nobody else."""

    def __init__(self, home: Home, process: subprocess.Popen[bytes]) -> None:
        self.home = home
        self.process = process

    def systemctl(self, *args: str) -> subprocess.CompletedProcess[str]:
        command = ["systemctl", "--user", *args]
        return subprocess.run(
            command, env=self.home.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    def fact(self, name: str) -> str:
        return self.systemctl("show", "client-agent.service", "--property", name, "--value").stdout.strip()


@pytest.fixture
def session(home: Home, tmp_path: Path) -> Iterator[Session]:
    runtime = tempfile.TemporaryDirectory(prefix="run-")  # a socket's path must be short
    home.env["XDG_RUNTIME_DIR"] = runtime.name
    home.env.pop("DBUS_SESSION_BUS_ADDRESS", None)
    apart = ["unshare", "--mount", "--cgroup", "--propagation", "private"] + (
        ["--map-root-user"] if os.geteuid() else []
    )
    log = (tmp_path / "manager.log").open("wb")
    with (
        runtime,
        log,
        subprocess.Popen([*apart, "sh", "-c", _MANAGER, str(SYSTEMD)], env=home.env, stdout=log, stderr=log) as process,
    ):
        made = Session(home, process)
        try:
            wait_until(
                lambda: process.poll() is not None or made.systemctl("show", "--property", "Version").returncode == 0
            )
            if process.poll() is not None:
                said = (tmp_path / "manager.log").read_text()
                pytest.skip(
                    f"no systemd manager of our own can run here, without the right to mount and cgroups: {said}"
                )
            yield made
        finally:
            made.systemctl("stop", "client-agent.service")
            process.terminate()


@pytest.fixture
def server(home: Home, server: str) -> str:
    home.run("login", "--token-stdin", stdin=home.token("ann"))
    return server


def test_the_unit_is_what_systemd_understands(home: Home, tmp_path: Path) -> None:
    odd = tmp_path / 'a "quoted" $HOME 100% home'
    odd.mkdir()
    unit = tmp_path / "client-agent.service"
    home.env["XDG_RUNTIME_DIR"] = str(tmp_path)
    printed = home.run("service", "install", "--print", CLIENT_AGENT_STATE_DIR=str(odd))
    assert printed.returncode == 0, printed.stderr
    unit.write_text(printed.stdout)
    verify = ["systemd-analyze", "--user", "verify", str(unit)]
    done = subprocess.run(verify, env=home.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    unit.write_text(printed.stdout.replace("Restart=on-failure", "Restart=now-and-then"))
    done = subprocess.run(verify, env=home.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert "now-and-then" in done.stderr  # it would have said so


def test_systemd_runs_it_watches_it_and_starts_it_again_after_a_failure(session: Session, server: str) -> None:
    home = session.home
    installed = home.run("service", "install")
    assert installed.returncode == 0, installed.stderr
    assert session.fact("ActiveState") == "active"  # it was ready when systemctl returned
    first = int(session.fact("MainPID"))
    assert home.told("status", code=None)["pid"] == first
    assert session.fact("WatchdogUSec") == "1min"
    assert session.fact("WatchdogTimestampMonotonic") != "0"
    assert psutil.Process(first).environ()["CLIENT_AGENT_STATE_DIR"] == str(home.state)
    assert home.told("service", "status")["running"]

    os.kill(first, signal.SIGKILL)
    wait_until(lambda: session.fact("ActiveState") == "active" and session.fact("MainPID") not in ("0", str(first)))
    assert session.fact("NRestarts") == "1"
    wait_until(lambda: home.run("status").returncode == 0)

    assert home.run("stop").returncode == 0
    wait_until(lambda: session.fact("ActiveState") == "inactive")
    assert session.fact("Result") == "success"  # a stop is no failure: nobody starts it again
    started = home.told("start", "--connected")
    assert started["pid"] == int(session.fact("MainPID"))  # by systemd, since the service is installed
    restarted = home.told("restart", "--connected")
    assert restarted["pid"] == int(session.fact("MainPID")) != started["pid"]

    removed = home.run("service", "uninstall")
    assert removed.returncode == 0, removed.stderr
    wait_until(lambda: home.run("status").returncode == 6)
    assert session.fact("LoadState") == "not-found"
    assert not list((home.place / ".config" / "systemd").rglob("*client-agent*"))
    assert home.run("service", "status").returncode == 6


def test_a_wrong_configuration_is_not_tried_over_and_over(session: Session, server: str) -> None:
    home = session.home
    assert home.run("service", "install", "--no-start").returncode == 0
    home.config.write_text("nonsense = 1\n")
    failed = session.systemctl("start", "client-agent.service")
    assert failed.returncode != 0
    assert (session.fact("ActiveState"), session.fact("ExecMainStatus")) == ("failed", "2")
    assert session.fact("NRestarts") == "0"
    refused = home.run("service", "install")
    assert (refused.returncode, "unknown key" in refused.stderr) == (2, True)


def test_one_that_hangs_is_ended_by_the_watchdog(session: Session, server: str) -> None:
    home = session.home
    assert home.run("service", "install", "--no-start").returncode == 0
    unit = home.place / ".config" / "systemd" / "user" / "client-agent.service"
    unit.write_text(unit.read_text().replace("WatchdogSec=60", "WatchdogSec=2"))
    session.systemctl("daemon-reload")
    assert session.systemctl("start", "client-agent.service").returncode == 0
    first = session.fact("MainPID")
    os.kill(int(first), signal.SIGSTOP)
    wait_until(lambda: session.fact("MainPID") not in ("0", first) and session.fact("ActiveState") == "active")
    assert session.fact("NRestarts") == "1"


def test_without_a_manager_it_is_said_why_and_the_daemon_goes_on_as_it_was(home: Home, server: str) -> None:
    home.env["XDG_RUNTIME_DIR"] = str(home.place / "nowhere")
    home.env.pop("DBUS_SESSION_BUS_ADDRESS", None)
    pid = home.told("start")["pid"]
    done = home.run("service", "install")
    assert done.returncode == 1
    assert "systemctl --user" in done.stderr
    assert "nothing was changed" in done.stderr
    assert home.run("service", "uninstall").stdout == "no service is installed\n"
    assert home.told("status", code=None)["pid"] == pid
    assert home.told("restart")["pid"] != pid  # by itself: there is no service to go through
