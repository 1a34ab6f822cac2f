"""What a command is told, and where its program is looked for."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from client_agent.sandbox.environment import (
    build_environment,
    find_program,
    login_shell_path,
    sane_path,
    withheld_names,
)


def build(environ: dict[str, str]) -> dict[str, str]:
    return build_environment(path=["/bin"], home="/h", tmp="/t", user="me", environ=environ)


def test_nothing_is_taken_over_but_a_plain_time_zone() -> None:
    fixed = {"PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SHELL", "LANG", "LC_CTYPE", "TERM"}
    assert set(build({"PATH": "/evil", "SECRET": "x", "TZ": "Europe/Berlin"})) == fixed | {"TZ"}
    for zone in ("/etc/shadow", "../../etc/shadow", ":/etc/passwd", "a b", "x" * 65, ""):
        assert set(build({"TZ": zone})) == fixed


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("/usr/bin/git", ("GIT_AUTHOR_NAME", "HTTPS_PROXY", "SSH_AUTH_SOCK")),
        ("/usr/bin/python3.11", ("HTTPS_PROXY", "PYTHONPATH", "VIRTUAL_ENV")),
        ("/usr/bin/npm", ("HTTPS_PROXY", "NODE_OPTIONS", "npm_config_registry")),
        ("/usr/bin/ls", ("HTTPS_PROXY",)),
    ],
)
def test_the_names_a_program_would_have_read_are_told(program: str, expected: tuple[str, ...]) -> None:
    environ = dict.fromkeys(
        [
            "GIT_AUTHOR_NAME",
            "HTTPS_PROXY",
            "SSH_AUTH_SOCK",
            "PYTHONPATH",
            "VIRTUAL_ENV",
            "NODE_OPTIONS",
            "EDITOR",
            "npm_config_registry",
            "AWS_SECRET_ACCESS_KEY",
        ],
        "value",
    )
    assert withheld_names(program, environ, {}) == expected
    assert "HTTPS_PROXY" not in withheld_names(program, environ, {"HTTPS_PROXY": "given"})


def test_a_path_holds_only_what_commands_may_use(tmp_path: Path) -> None:
    workspace, hidden = tmp_path / "ws", tmp_path / "hidden"
    (workspace / "bin").mkdir(parents=True)
    hidden.mkdir()
    link = tmp_path / "link"
    link.symlink_to(workspace / "bin")
    given = os.pathsep.join(
        ["", ".", "relative", str(workspace / "bin"), str(link), str(hidden), "/usr/bin", "/usr/bin/"]
    )
    path = sane_path(given, workspace, [Path("/usr"), Path("/bin"), tmp_path / "link"])
    assert path[0] == "/usr/bin"
    assert len(set(path)) == len(path)
    assert not any(str(tmp_path) in entry for entry in path)


def test_a_program_is_found_by_its_bare_name_outside_the_workspace_only(tmp_path: Path) -> None:
    workspace, machine = tmp_path / "ws", tmp_path / "machine"
    for directory in (workspace, machine):
        directory.mkdir()
        (directory / "tool").write_text("#!/bin/sh\n")
        (directory / "tool").chmod(0o755)
    (machine / "data").write_text("not executable")
    (machine / "inner").symlink_to(workspace / "tool")
    path = [str(workspace), str(machine)]
    assert find_program("tool", path, workspace) == str(machine / "tool")
    for name in ("data", "inner", "missing", "", ".", "..", "./tool", "../machine/tool", str(machine / "tool")):
        assert find_program(name, path, workspace) is None


def use_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str) -> None:
    shell = tmp_path / "shell"
    shell.write_text(f"#!/bin/sh\n{script}\n")
    shell.chmod(0o755)
    account = pwd.struct_passwd(("me", "x", os.getuid(), os.getgid(), "", str(tmp_path), str(shell)))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: account)


async def test_the_login_shells_path_is_read_past_its_greetings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_shell(monkeypatch, tmp_path, 'echo welcome; PATH=/opt/tools:/usr/bin; shift; eval "$1"; echo bye')
    assert await login_shell_path() == "/opt/tools:/usr/bin"


@pytest.mark.parametrize("script", ["exit 1", "sleep 60", "trap '' TERM; sleep 60 & wait"])
async def test_a_login_shell_that_does_not_answer_is_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
) -> None:
    use_shell(monkeypatch, tmp_path, script)
    assert await login_shell_path(timeout_s=0.3) is None


async def test_a_login_shell_that_does_not_exist_is_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_shell(monkeypatch, tmp_path, "")
    (tmp_path / "shell").unlink()
    assert await login_shell_path() is None
