"""What a command is told, and which program it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from client_agent.errors import AccessRefused
from client_agent.policy.paths import Protection
from client_agent.sandbox import Access, Job, open_sandbox
from tests.security.sandbox.place import SECRET, Place

POISON = {
    "LD_PRELOAD": "/tmp/evil.so", "LD_LIBRARY_PATH": "/tmp", "LD_AUDIT": "/tmp/evil.so", "GCONV_PATH": "/tmp",
    "GIT_SSH_COMMAND": "evil", "GIT_CONFIG_COUNT": "1", "GIT_DIR": "/tmp", "GIT_EXTERNAL_DIFF": "evil",
    "npm_config_script_shell": "/tmp/evil", "NPM_CONFIG_REGISTRY": "http://evil", "NODE_OPTIONS": "--require /tmp/evil",
    "PYTHONPATH": "/tmp", "PYTHONSTARTUP": "/tmp/evil.py", "PYTHONWARNINGS": "evil", "PERL5OPT": "-Mevil",
    "RUBYOPT": "-revil", "BASH_ENV": "/tmp/evil", "ENV": "/tmp/evil", "PROMPT_COMMAND": "evil", "IFS": "x",
    "SHELLOPTS": "xtrace", "MAKEFLAGS": "-f /tmp/evil", "CC": "evil", "CFLAGS": "-fplugin=evil", "EDITOR": "evil",
    "PAGER": "evil", "LESSOPEN": "|evil", "HTTP_PROXY": "http://evil", "https_proxy": "http://evil",
    "SSLKEYLOGFILE": "/tmp/keys", "SSH_AUTH_SOCK": "/tmp/agent", "GITHUB_TOKEN": SECRET, "DATABASE_URL": SECRET,
    "AWS_SECRET_ACCESS_KEY": SECRET, "CLIENT_AGENT_TOKEN": SECRET, "XDG_RUNTIME_DIR": "/run/user/0",
    "DBUS_SESSION_BUS_ADDRESS": "unix:abstract=/tmp/x", "DISPLAY": ":0", "HOME": "/root", "LANG": "evil",
    "LC_ALL": "evil", "TERM": "evil", "TMPDIR": "/evil", "USER": "evil", "OLDPWD": "/evil", "TZ": "/etc/shadow",
    "BASH_FUNC_ls%%": "() { evil; }",
}  # fmt: skip


async def test_no_variable_of_the_daemon_reaches_a_command(workspace: Path) -> None:
    search_path = f"{workspace}:/usr/bin:relative:{workspace}/bin:/bin"
    sandbox = await open_sandbox(
        workspace, is_protected=Protection().find, search_path=search_path, environ={**os.environ, **POISON}
    )
    try:
        program = sandbox.find_program("env")
        assert program is not None
        outcome = await sandbox.run(Job(argv=(program, "-0"), access=Access.READ_ONLY))
    finally:
        await sandbox.close()
    got = dict(line.split("=", 1) for line in outcome.stdout.split("\0") if line)
    assert set(got) == {"PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SHELL", "LANG", "LC_CTYPE", "TERM"}
    assert (got["LANG"], got["LC_CTYPE"]) == ("C", "C.UTF-8")
    assert not any("evil" in value or SECRET in value for value in got.values())
    assert not any(entry.startswith(str(workspace)) or not entry.startswith("/") for entry in got["PATH"].split(":"))
    assert "HTTP_PROXY" in outcome.withheld
    assert not any(SECRET in name for name in outcome.withheld)


async def test_a_program_in_the_workspace_is_never_taken_for_one_of_the_machine(place: Place) -> None:
    impostor = place.workspace / "python3"
    impostor.write_text("#!/bin/sh\necho impostor\n")
    impostor.chmod(0o755)
    found = place.sandbox.find_program("python3")
    assert found is not None
    assert not found.startswith(str(place.workspace))
    assert place.sandbox.find_program("./python3") is None
    assert place.sandbox.find_program(str(impostor)) is None


async def test_a_command_cannot_be_started_in_a_directory_outside(place: Place) -> None:
    (place.workspace / "out").symlink_to(place.outside)
    for directory in ("..", str(place.outside), "out"):
        with pytest.raises(AccessRefused):
            await place.sandbox.run(Job(argv=("/bin/true",), access=Access.READ_ONLY, directory=directory))
