"""`client-agent init`, as a person at a terminal and a script without one use it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.acceptance.home import Home, execute, wait_until
from tests.acceptance.test_run import terminal

AWAY = "http://127.0.0.1:9"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path / "home")
    (made.place / "src" / "demo").mkdir(parents=True)
    with made.ending():
        yield made


def workspaces(home: Home) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = tomllib.loads(home.config.read_text())["workspaces"]
    return found


def test_from_nothing_to_a_written_file_and_back_to_nothing(home: Home) -> None:
    """init → login → start → a call → approve → status → stop, by the installed program alone."""
    root = home.place / "src" / "demo"
    with home.server() as url:
        made = home.run("init", "src/demo", "--server", url, "--project", "p")
        assert made.returncode == 0, made.stderr
        assert "next: `client-agent login`, then `client-agent start`" in made.stdout
        assert workspaces(home) == {"demo": {"root": str(root), "project_id": "p", "server": url}}
        assert "# The project on the server." in home.config.read_text()
        assert tomllib.loads(home.config.read_text())["version"] == 1
        assert home.run("config", "check").returncode == 0
        assert home.run("login", "--token-stdin", stdin=home.token("ann")).returncode == 0
        assert home.told("start", "--connected")["connected"]
        robot = home.token("ann", "--agent", "robot")
        with ThreadPoolExecutor() as pool:
            writing = pool.submit(execute, url, robot, "p", "write_file", path="hello.md", content="hi\n")
            (question,) = wait_until(lambda: home.told("approvals", "list")["questions"])
            assert home.run("approvals", "approve", question["id"][:8]).returncode == 0
            assert writing.result(60)["status"] == "completed"
        assert (root / "hello.md").read_text() == "hi\n"
        told = home.told("status")
        assert (told["connected"], told["questions"], told["workspaces"]["demo"]["outbox"]) == (True, 0, 0)
        assert home.run("stop").returncode == 0
        assert home.run("status").returncode == 6


def test_at_a_terminal_it_asks_and_offers_to_start(home: Home) -> None:
    env = {**home.env, "CLIENT_AGENT_TOKEN": ""}
    with home.server() as url, terminal("init", str(home.place / "src" / "demo"), env=env) as person:
        person.wait_for(r"Server \[http://127.0.0.1:8765\]")
        person.press("127.0.0.1\r")
        person.wait_for(r"expected an http")  # and asks again
        person.press(f"{url}\r")
        person.wait_for(r"Project on that server \[demo\]")
        person.press("\r")
        person.wait_for(r"Log in now\? \[Y/n\]")
        person.press("\r")
        code = person.wait_for(r"[A-Z]{4}-[A-Z]{4}")[0]
        assert home.run("server", "confirm", code, "--user", "ann", "--url", url).returncode == 0
        person.wait_for("logged in to")
        person.wait_for(r"Start it now\? \[Y/n\]")
        person.press("\r")
        person.wait_for("started")
        assert person.process.wait(60) == 0
        wait_until(lambda: home.run("status").returncode == 0)
    assert workspaces(home)["demo"]["project_id"] == "demo"


def test_a_second_one_is_added_and_what_was_there_stays_as_it_was(home: Home) -> None:
    (home.place / "other" / "demo").mkdir(parents=True)
    assert home.run("init", "src/demo", "--server", AWAY, "--project", "p").returncode == 0
    mine = home.config.read_text().replace("# The project", "# My own words.\n# The project") + "\n[link]\nproxy = ''\n"
    home.config.write_text(mine)
    home.config.chmod(0o600)
    added = home.run("init", "other/demo", "--server", AWAY + "/", "--project", "q")
    assert added.returncode == 0, added.stderr
    assert home.config.read_text().startswith(mine.split("[link]")[0].rstrip())
    assert "# My own words." in home.config.read_text()
    assert [each["project_id"] for each in workspaces(home).values()] == ["p", "q"]
    assert workspaces(home)["demo-2"]["server"] == AWAY
    assert home.config.stat().st_mode & 0o777 == 0o600

    before = home.config.read_text()
    again = home.run("init", "other/demo", "--server", AWAY, "--project", "q")
    assert (again.returncode, "is there already" in again.stdout) == (0, True)
    for args in (["--project", "another"], ["--project", "q", "--name", "demo"]):
        directory = "src/demo" if "--name" not in args else "."
        refused = home.run("init", directory, "--server", AWAY, *args)
        assert refused.returncode == 2
    assert home.config.read_text() == before


def test_beside_a_daemon_that_runs_it_says_that_the_workspace_waits_for_a_word(home: Home) -> None:
    (home.place / "other").mkdir()
    with home.server() as url:
        home.run("init", "src/demo", "--server", url, "--project", "p")
        home.run("login", "--token-stdin", stdin=home.token("ann"))
        pid = home.told("start")["pid"]
        added = home.run("init", "other", "--server", url, "--project", "q", "--start")
        assert added.returncode == 0, added.stderr
        assert added.stdout.endswith("next: `client-agent config confirm`\n")
        wait_until(lambda: home.told("status", code=None)["configuration"]["pending"])
        assert home.run("config", "confirm", "--yes").returncode == 0
        told = home.told("status", code=None)
        assert (told["pid"], set(told["workspaces"])) == (pid, {"demo", "other"})  # nothing was restarted for it
        (home.place / "third").mkdir()
        away = home.run("init", "third", "--server", AWAY, "--project", "r")
        assert away.stdout.endswith(f"next: `client-agent login {AWAY}`, then `client-agent config confirm`\n")


def test_a_linked_configuration_stays_a_link(home: Home) -> None:
    real = home.place / "dotfiles.toml"
    real.write_text('log_level = "info"\n')
    home.config.parent.mkdir(parents=True)
    home.config.symlink_to(real)
    assert home.run("init", "src/demo", "--server", AWAY, "--project", "p").returncode == 0
    assert home.config.is_symlink()
    assert "demo" in real.read_text()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["src/demo"], "give --server and --project"),
        (["src/demo", "--project", "p"], "give --server"),
        (["src/demo", "--server", "ftp://x", "--project", "p"], "expected an http"),
        (["nowhere", "--server", AWAY, "--project", "p"], "not a directory"),
        ([".", "--server", AWAY, "--project", "p"], "your whole home"),
        (["/", "--server", AWAY, "--project", "p"], "your whole home"),
        (["src/demo", "--server", AWAY, "--project", "p", "--name", "a b"], "letters, digits"),
    ],
)
def test_without_a_terminal_it_says_what_is_missing_or_wrong_and_writes_nothing(
    home: Home, args: list[str], words: str
) -> None:
    done = home.run("init", *args)
    assert done.returncode == 2
    assert words in done.stderr
    assert not home.config.exists()


@pytest.mark.parametrize("text", ["roof = 1\n", "version = 1000\n", "[workspaces\n"])
def test_a_configuration_that_cannot_be_used_is_not_extended(home: Home, text: str) -> None:
    home.config.parent.mkdir(parents=True)
    home.config.write_text(text)
    done = home.run("init", "src/demo", "--server", AWAY, "--project", "p")
    assert (done.returncode, home.config.read_text()) == (2, text)


def test_a_server_that_is_away_or_another_is_said_and_written_down_all_the_same(home: Home) -> None:
    done = home.run("init", "src/demo", "--server", AWAY, "--project", "p")
    assert (done.returncode, "does not answer" in done.stderr) == (0, True)
