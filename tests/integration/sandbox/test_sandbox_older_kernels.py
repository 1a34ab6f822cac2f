"""What is used where the kernel offers less: forked cells before Linux 6.17, Landlock alone without user namespaces."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from client_agent.errors import Unavailable
from client_agent.policy.paths import Protection
from client_agent.sandbox import Access, Ending, Limits, Network, Sandbox, detection, namespaces
from client_agent.sandbox.landlocked import Landlocked, split_tree
from client_agent.sandbox.namespaces import Namespaces
from tests.integration.sandbox.commands import (
    FORKING,
    Listener,
    OpenSandbox,
    processes_marked,
    python_job,
    run_python,
    wait_until_gone,
)

HANG = "import time; time.sleep(120)"
SECRET = "s3cr3t-canary"


@pytest.fixture(params=["by_fork", "none"])
async def older(open_here: OpenSandbox, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Sandbox:
    """A sandbox that uses no newer way to a /proc than this one."""
    compose = namespaces.compose_plan

    def compose_older(*args: Any, **options: Any) -> dict[str, Any]:
        return {**compose(*args, **options), "proc": request.param}

    monkeypatch.setattr(namespaces, "compose_plan", compose_older)
    return await open_here()


async def test_cells_are_made_without_newer_mounts(older: Sandbox) -> None:
    code = "import os; print(os.getpid(), [name for name in os.listdir('/proc') if name.isdigit()])"
    assert (await run_python(older, code)).stdout in ("2 ['1', '2']\n", "2 []\n")


async def test_older_cells_end_as_a_whole(older: Sandbox) -> None:
    mark = uuid.uuid4().hex
    outcome = await run_python(older, FORKING + HANG, mark, wall_s=1)
    assert (outcome.ended_by, outcome.stdout) == (Ending.TIMEOUT, "forked\n")
    assert processes_marked(mark) == []


async def test_older_cells_leave_no_pipe_open(older: Sandbox) -> None:
    outcomes = await asyncio.gather(*(run_python(older, "print('done')") for _ in range(10)))
    assert [outcome.stdout for outcome in outcomes] == ["done\n"] * 10


@pytest.fixture
async def alone(workspace: Path) -> AsyncIterator[Sandbox]:
    backend = Landlocked(workspace, limits=Limits(), toolchains=(), is_protected=Protection().find)
    sandbox = Sandbox(workspace, backend, limits=Limits(), search_path="")
    await sandbox.open()
    yield sandbox
    await sandbox.close()


async def test_landlock_alone_runs_commands_that_read(alone: Sandbox, workspace: Path) -> None:
    (workspace / "file").write_text("content")
    outcome = await run_python(alone, "print(open('file').read()); open('/dev/null', 'w').write('x')")
    assert (outcome.stdout, outcome.exit_code) == ("content\n", 0)


async def test_landlock_alone_is_not_used_for_commands_that_write(alone: Sandbox) -> None:
    assert alone.mechanism.accesses == (Access.READ_ONLY,)
    with pytest.raises(Unavailable, match="cannot be confined"):
        await run_python(alone, "pass", access=Access.WRITABLE)
    with pytest.raises(Unavailable):
        await run_python(alone, "pass", network=Network.ON)


async def test_a_machine_that_forbids_namespaces_is_told_why_commands_cannot_write(
    open_here: OpenSandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def refuse(_: Namespaces) -> None:
        raise Unavailable("unshare: Operation not permitted")

    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "max_user_namespaces").write_text("0\n")
    monkeypatch.setattr(detection, "_SYSCTL", tmp_path)
    monkeypatch.setattr(Namespaces, "open", refuse)
    sandbox = await open_here()
    assert sandbox.mechanism.name == "landlock"
    assert (await run_python(sandbox, "print('read')")).stdout == "read\n"
    with pytest.raises(Unavailable, match=r"unshare: Operation not permitted\..*sysctl -w user\.max_user_namespaces"):
        await run_python(sandbox, "pass", access=Access.WRITABLE)


async def test_landlock_alone_holds_files_network_and_signals(alone: Sandbox, workspace: Path) -> None:
    (workspace.parent / "secret.txt").write_text(SECRET)
    (workspace / ".env").write_text(SECRET)
    (workspace / "sub").mkdir()
    (workspace / "sub" / "key.pem").write_text(SECRET)
    (workspace / "sub" / "plain").write_text("plain")
    code = """
import os, signal, socket, sys
def attempt(function, *args):
    try: print("ESCAPED", function(*args))
    except OSError: print("held")
attempt(open, "../secret.txt")
attempt(open, "/etc/shadow")
attempt(open, ".env")
attempt(open, "sub/key.pem")
attempt(os.listdir, os.path.expanduser("~root"))
attempt(open, "new", "w")
attempt(open, "../new", "w")
attempt(open, "/tmp/new", "w")
attempt(os.listdir, "/proc")
attempt(open, f"/proc/{os.getppid()}/environ")
attempt(os.kill, int(sys.argv[1]), 0)
attempt(socket.socket)
attempt(socket.socket, socket.AF_UNIX)
print(open("sub/plain").read())
with open(os.path.expanduser("~/mine"), "w") as file: file.write("x")
"""
    with socket.create_server(("127.0.0.1", 0)):
        outcome = await run_python(alone, code, str(os.getpid()))
    assert outcome.stdout == "held\n" * 13 + "plain\n", outcome.stderr


async def test_landlock_alone_leaves_nothing_behind(alone: Sandbox) -> None:
    for code, ending in ((FORKING, Ending.EXITED), (FORKING + HANG, Ending.TIMEOUT)):
        mark = uuid.uuid4().hex
        outcome = await run_python(alone, code, mark, wall_s=1)
        assert outcome.ended_by is ending
        assert await wait_until_gone(mark) == []


async def test_landlock_alone_ends_with_the_sandbox(alone: Sandbox) -> None:
    mark, listener = uuid.uuid4().hex, Listener("forked")
    process = await alone.launch(python_job(alone, FORKING + HANG, mark), listener)
    await listener.heard.wait()
    await alone.close()
    assert (await process.wait()).ended_by is Ending.STOPPED
    assert await wait_until_gone(mark) == []


def test_a_tree_is_taken_apart_only_where_it_must_be(workspace: Path) -> None:
    for name in ("a/b/secret", "a/b/plain", "a/other/file", "top"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("x")
    assert split_tree(workspace, set()) == ([str(workspace)], [])
    readable, listed = split_tree(workspace, {"a/b/secret"})
    assert sorted(readable) == sorted(str(workspace / name) for name in ("a/b/plain", "a/other", "top"))
    assert listed == [str(workspace / name) for name in ("", "a", "a/b")]
