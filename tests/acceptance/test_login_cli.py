"""Logging in as a person or a script does it, and that the token goes nowhere else."""

from __future__ import annotations

import re
import subprocess

import psutil
import pytest

from tests.acceptance.home import PATIENCE_S, PROGRAM, Home, wait_until


def log_in_by_code(home: Home, server: str, *decision: str) -> tuple[int, str]:
    """What `login` ends with and says, when its code is decided on like this."""
    with subprocess.Popen(
        [PROGRAM, "login"], env=home.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = ""
        while not (code := re.search(r"[A-Z]{4}-[A-Z]{4}", said)):
            said += process.stdout.readline()
        confirmed = home.run("server", "confirm", code[0], "--user", "ann", "--url", server, *decision)
        assert confirmed.returncode == 0, confirmed.stderr
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, said + out + err


def test_a_login_by_code_connects_a_running_daemon_and_a_logout_disconnects_it(home: Home, server: str) -> None:
    home.told("start")
    assert home.told("status", code=4)["workspaces"]["demo"]["state"] == "unauthorized"
    code, said = log_in_by_code(home, server)
    assert code == 0, said
    assert f"logged in to {server} as ann" in said
    assert said.count(str(home.state / "tokens")) == 1  # there is no keyring here, and that is said once
    assert "unencrypted" in said
    wait_until(lambda: home.run("status").returncode == 0)
    told = home.told("whoami")
    assert (told["user"], told["accepted"], told["kept_in"], told["renewable"]) == ("ann", True, "file", True)
    assert home.run("logout").returncode == 0
    wait_until(lambda: home.told("status", code=None)["workspaces"]["demo"]["state"] == "unauthorized")
    missing = home.run("whoami")
    assert (missing.returncode, "client-agent login" in missing.stderr) == (4, True)
    told = home.told("whoami", code=4)
    assert (told["user"], told["kept_in"], "client-agent login" in told["problem"]) == (None, None, True)


def test_a_login_that_is_turned_down_leaves_nothing(home: Home, server: str) -> None:
    code, said = log_in_by_code(home, server, "--deny")
    assert (code, "turned down" in said) == (4, True)
    assert not (home.state / "tokens").exists()


def test_a_token_from_standard_input_is_tried_before_it_is_kept(home: Home, server: str) -> None:
    refused = home.run("login", "--token-stdin", stdin="not-a-token\n")
    assert (refused.returncode, "does not accept" in refused.stderr) == (4, True)
    assert not (home.state / "tokens").exists()
    assert home.run("login", "--token-stdin", stdin=home.token("bob") + "\n").returncode == 0
    assert home.told("whoami")["user"] == "bob"
    (kept,) = (home.state / "tokens").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["login"], "say which server"),
        (["login", "ftp://x"], "expected an http"),
        (["login", "http://127.0.0.1:9", "--token"], "--token-stdin"),
        (["login", "http://127.0.0.1:9", "--token-stdin"], "no token on standard input"),
        (["logout"], "say which server"),
    ],
)
def test_what_is_missing_is_said_and_not_asked_for_without_a_terminal(home: Home, args: list[str], words: str) -> None:
    done = home.run(*args)
    assert done.returncode == 2
    assert words in done.stderr


def test_the_token_is_in_no_argument_no_environment_and_no_log(home: Home, server: str) -> None:
    token = home.token("ann")
    home.run("login", "--token-stdin", stdin=token)
    pid = home.told("start", "--connected")["pid"]
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        assert token not in " ".join(process.cmdline())
        assert token not in " ".join(process.environ().values())
    home.run("stop")
    for path in home.place.rglob("*"):
        if path.is_file() and path.parent.name != "tokens":
            assert token.encode() not in path.read_bytes(), path
