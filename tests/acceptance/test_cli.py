"""The installed program, as a person or a script uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(sys.executable).parent / "client-agent")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own: no configuration, no state, no token."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLIENT_AGENT_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("CLIENT_AGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("CLIENT_AGENT_TOKEN", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    root.mkdir()
    (root / "README.md").write_text("# hello\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("canary")
    (root / "out").symlink_to(outside)
    return root


def run(*args: str, stdin: str = "", timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *args], input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False, env=os.environ
    )


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_help_names_every_command(home: Path) -> None:
    done = run("--help")
    assert done.returncode == 0
    for command in ("run", "demo", "server", "call", "check", "tools", "config", "paths"):
        assert f"\n  {command} " in done.stdout
    assert "one a line" in run("check", "--help").stdout


def test_the_version_is_told(home: Path) -> None:
    from client_agent import __version__

    assert run("--version").stdout == f"client-agent {__version__}\n"


@pytest.mark.parametrize(
    ("tool", "params", "decision", "code"),
    [
        ("read_file", {"path": "README.md"}, "run", 0),
        ("list_directory", {}, "run", 0),
        ("write_file", {"path": "a.py", "content": "x"}, "ask", 3),
        ("write_file", {"path": "sub/.git/config", "content": "x"}, "ask", 3),
        ("read_file", {"path": "out/secret.txt"}, "refuse", 1),
        ("read_file", {"path": "../outside/secret.txt"}, "refuse", 1),
        ("write_file", {"path": "a.so", "content": ""}, "refuse", 1),
        ("nonsense", {}, "refuse", 1),
    ],
)
def test_check_says_what_would_happen(
    home: Path, workspace: Path, tool: str, params: dict[str, Any], decision: str, code: int
) -> None:
    done = run("check", tool, json.dumps(params), "--workspace", str(workspace), "--json")
    answer = json.loads(done.stdout)
    assert (answer["decision"], done.returncode) == (decision, code)
    assert set(answer) == {"decision", "risk", "reasons", "code"}
    assert answer["reasons"]
    assert not (workspace / "a.py").exists()


def test_check_for_people_gives_words(home: Path, workspace: Path) -> None:
    done = run("check", "write_file", '{"path": "a.py", "content": "x"}', "-w", str(workspace))
    assert done.stdout.startswith("ask  MEDIUM")
    assert "  · writes 'a.py'" in done.stdout


def test_many_requests_on_standard_input_are_answered_in_order(home: Path, workspace: Path) -> None:
    requests = [
        {"tool_name": "read_file", "tool_params": {"path": "README.md"}},
        {"tool_name": "read_file", "tool_params": {"path": "out/secret.txt"}},
        {"tool_name": "write_file", "tool_params": {"path": "b.md", "content": "b"}},
    ]
    text = "\n".join(map(json.dumps, requests)) + '\n\nnot json\n[]\n{"tool_name": 3}\n'
    done = run("check", "--stdin", "--workspace", str(workspace), stdin=text)
    answers = lines(done.stdout)
    assert [a["decision"] for a in answers] == ["run", "refuse", "ask", "refuse", "refuse", "refuse"]
    assert [a["code"] for a in answers[3:]] == ["invalid_request"] * 3
    done = run("call", "--stdin", "--approve", "--workspace", str(workspace), stdin=text)
    answers = lines(done.stdout)
    assert [a["status"] for a in answers] == ["completed", "failed", "completed", "failed", "failed", "failed"]
    assert answers[0]["result"]["content"] == "# hello\n"
    assert "canary" not in done.stdout
    assert (workspace / "b.md").read_text() == "b"
    assert done.returncode == 0


def test_call_asks_for_approval_before_it_writes(home: Path, workspace: Path) -> None:
    params = '{"path": "c.md", "content": "c"}'
    done = run("call", "write_file", params, "--workspace", str(workspace), "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["code"], answer["decision"]) == (3, "no_approver", "ask")
    assert not (workspace / "c.md").exists()
    done = run("call", "write_file", params, "--workspace", str(workspace), "--approve")
    assert (done.returncode, json.loads(done.stdout)["success"]) == (0, True)
    assert (workspace / "c.md").read_text() == "c"


def test_approval_does_not_override_a_refusal(home: Path, workspace: Path) -> None:
    done = run("call", "read_file", '{"path": "out/secret.txt"}', "--approve", "-w", str(workspace))
    assert done.returncode == 1
    assert "canary" not in done.stdout


def test_tools_lists_what_agents_may_ask_for(home: Path) -> None:
    listed = json.loads(run("tools", "--json").stdout)
    assert {tool["name"] for tool in listed["tools"]} >= {
        "read_file",
        "write_file",
        "list_directory",
        "execute_command",
    }
    assert "read_file" in run("tools").stdout


def test_paths_shows_where_things_are(home: Path) -> None:
    assert json.loads(run("paths", "--json").stdout) == {
        "config": str(home / "config.toml"),
        "state": str(home / "state"),
    }
    assert "(not there yet)" in run("paths").stdout


def test_the_example_configuration_can_be_printed_and_is_good(home: Path, workspace: Path) -> None:
    (home / "config.toml").write_text(run("config", "example").stdout.replace("~/src/example", str(workspace)))
    assert run("config", "check").returncode == 0


def test_config_check_names_what_is_wrong(home: Path, workspace: Path) -> None:
    done = run("config", "check")
    assert done.returncode == 2
    assert "there is no such file" in done.stderr
    (home / "config.toml").write_text(
        f'[workspaces.w]\nroot = "{workspace}"\nproject_id = "p"\nserver = "https://example.com"\n'
    )
    done = run("config", "check")
    assert (done.returncode, "w: " in done.stdout) == (0, True)
    done = run("check", "read_file", '{"path": "README.md"}')
    assert done.returncode == 0
    (home / "config.toml").write_text("lnk = 3\n")
    done = run("config", "check", "--json")
    assert done.returncode == 2
    assert "did you mean 'link'?" in json.loads(done.stdout)["problems"][0]
    (home / "config.toml").write_text('[link]\nproxy = "socks9://hush@x"\nca_file = "/no/such.pem"\n')
    done = run("config", "check", "--json")
    assert done.returncode == 2
    proxy, authority = json.loads(done.stdout)["problems"]
    assert ("link.proxy" in proxy, "hush" in proxy, "link.ca_file" in authority) == (True, False, True)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("check", "read_file", "{}"), "no such file"),
        (("check", "--workspace", "/no/such/dir", "read_file", "{}"), "directory that exists"),
        (("call", "--workspace", "."), "say which tool"),
        (("call", "read_file", "{not json", "--workspace", "."), "not a usable request"),
        (("run",), "no such file"),
        (("run", "--server", "http://127.0.0.1:1"), "go together"),
        (("server", "--port", "99999"), "--port"),
    ],
)
def test_a_mistake_gets_a_clear_word_and_exit_code_2(home: Path, args: tuple[str, ...], words: str) -> None:
    done = run(*args)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demo_answers_for_itself_and_shows_every_step(home: Path) -> None:
    done = run("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("▸") == done.stdout.count("✓") == 6
    assert "✗" not in done.stdout
    steps = lines(run("demo", "--json").stdout)
    assert [step["ok"] for step in steps] == [True] * 6


def test_help_imports_nothing_heavy(home: Path) -> None:
    code = (
        "import sys; sys.argv = ['client-agent', '--help']\n"
        "from client_agent.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted(m for m in sys.modules if m in "
        "{'httpx','aiohttp','pydantic','fastapi','sqlalchemy','rich','keyring','msgspec','asyncio','sqlite3'}))"
    )
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=plain)
    assert done.stdout.splitlines()[-1] == "[]"
