"""`client-agent undo`, with a daemon and without, as a person and as a script use it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.acceptance.test_approvals_cli import client, laptop
from tests.acceptance.test_cli import home, run, workspace
from tests.acceptance.test_run import env, terminal

__all__ = ["env", "home", "workspace"]


def write(root: Path, path: str, content: str) -> None:
    params = json.dumps({"path": path, "content": content})
    assert run("call", "write_file", params, "--workspace", str(root), "--approve").returncode == 0


def test_a_write_is_listed_shown_undone_and_redone_without_a_daemon(home: Path, workspace: Path) -> None:
    assert "nothing was written" in run("undo", "--list").stdout
    write(workspace, "README.md", "# bye\n")
    (listed,) = json.loads(run("undo", "--list", "--json").stdout)["writes"]
    assert listed["id"][:8] in run("undo", "--list").stdout

    shown = json.loads(run("undo", listed["id"], "--json").stdout)
    assert (shown["undone"], shown["action"]) == (False, "restore")
    assert (workspace / "README.md").read_text() == "# bye\n"

    asked = run("undo", listed["id"])
    assert (asked.returncode, "give --yes" in asked.stderr) == (3, True)
    assert "+# hello" in asked.stdout
    assert (workspace / "README.md").read_text() == "# bye\n"

    done = run("undo", listed["id"][:8], "--yes")
    assert done.returncode == 0, done.stderr
    assert (workspace / "README.md").read_text() == "# hello\n"
    again = json.loads(run("undo", "undo-", "--yes", "--json").stdout)
    assert again["undone"]
    assert (workspace / "README.md").read_text() == "# bye\n"
    assert "[UNDO]" in run("audit", "show").stdout
    assert run("audit", "verify").returncode == 0


def test_what_cannot_be_undone_is_said_with_exit_code_1(home: Path, workspace: Path) -> None:
    write(workspace, "new.md", "x")
    (workspace / "new.md").write_text("mine")
    (listed,) = json.loads(run("undo", "--list", "--json").stdout)["writes"]
    refused = run("undo", listed["id"], "--yes")
    assert (refused.returncode, "has changed since" in refused.stderr) == (1, True)
    told = json.loads(run("undo", listed["id"], "--yes", "--json").stdout)
    assert (told["undone"], told["code"]) == (False, "changed_since")
    assert run("undo").returncode == 2
    assert run("undo", "x", "--list").returncode == 2


def test_at_a_terminal_it_asks_and_a_running_daemon_does_it(env: dict[str, str], tmp_path: Path) -> None:
    with laptop(env, tmp_path / "w") as there:
        asking = there.ask("a.md")
        assert client(env, "approvals", "approve", there.question()["id"]).returncode == 0
        tool_id = asking.result(30)["tool_id"]
        with terminal("undo", tool_id[:10], env=env) as asked:
            asked.wait_for(r"Undo it\? \[y/N\]")
            assert (tmp_path / "w" / "a.md").exists()
            asked.press("y\n")
            asked.wait_for("undone")
        assert not (tmp_path / "w" / "a.md").exists()
