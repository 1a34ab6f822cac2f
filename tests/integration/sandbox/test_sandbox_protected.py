"""Knowing what must be hidden, exactly and at the price of one system call."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from client_agent.errors import Unavailable
from client_agent.policy.paths import Protection
from client_agent.sandbox import Access, Job, open_sandbox, placeholders, protected
from client_agent.sandbox.placeholders import Placeholders
from client_agent.sandbox.protected import ProtectedPaths
from tests.integration.sandbox.commands import OpenSandbox, run_python


@pytest.fixture
def paths(workspace: Path) -> Iterator[ProtectedPaths]:
    found = ProtectedPaths(workspace, Protection().find)
    found.refresh()
    yield found
    found.close()


def test_an_unchanged_workspace_has_no_news(paths: ProtectedPaths, workspace: Path) -> None:
    assert not paths.has_news
    (workspace / "plain").write_text("x")
    assert paths.has_news
    assert not paths.refresh()
    assert not paths.has_news


def test_names_that_come_and_go_are_followed(paths: ProtectedPaths, workspace: Path) -> None:
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "a" / "b" / ".env").write_text("x")
    assert paths.refresh()
    assert paths.hidden == {"a/b/.env"}
    (workspace / "a" / "b" / "deeper").mkdir()
    paths.refresh()
    (workspace / "a" / "b" / "deeper" / "key.pem").write_text("x")
    (workspace / "a" / "b" / ".env").unlink()
    assert paths.refresh()
    assert paths.hidden == {"a/b/deeper/key.pem"}


def test_a_secret_replaced_by_another_counts_as_a_change(paths: ProtectedPaths, workspace: Path) -> None:
    (workspace / ".env").write_text("x")
    paths.refresh()
    (workspace / "spare").write_text("y")
    (workspace / "spare").rename(workspace / ".env")
    assert paths.refresh()
    (workspace / ".env").write_text("in place")
    assert not paths.refresh()


def test_a_directory_that_moves_takes_its_secrets_along(paths: ProtectedPaths, workspace: Path) -> None:
    (workspace / "old").mkdir()
    (workspace / "old" / ".env").write_text("x")
    paths.refresh()
    (workspace / "old").rename(workspace / "new")
    assert paths.refresh()
    assert paths.hidden == {"new/.env"}
    (workspace / "new" / "key.pem").write_text("x")
    assert paths.refresh()
    assert paths.hidden == {"new/.env", "new/key.pem"}


def test_a_protected_directory_is_hidden_as_a_whole(paths: ProtectedPaths, workspace: Path) -> None:
    (workspace / ".ssh" / "deep").mkdir(parents=True)
    (workspace / ".ssh" / "deep" / "id_rsa").write_text("x")
    paths.refresh()
    assert paths.hidden == {".ssh"}


def test_changes_within_a_repository_count_only_where_they_matter(paths: ProtectedPaths, workspace: Path) -> None:
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (workspace / ".git" / "config").write_text("x")
    assert paths.refresh()
    assert paths.git == {".git"}
    (workspace / ".git" / "index").write_text("x")
    (workspace / ".git" / "branch.pem").write_text("x")
    assert not paths.refresh()
    (workspace / ".git" / "config.lock").write_text("y")
    (workspace / ".git" / "config.lock").rename(workspace / ".git" / "config")
    assert paths.refresh()


def test_a_flood_of_changes_is_answered_by_a_new_walk(paths: ProtectedPaths, workspace: Path) -> None:
    for number in range(20_000):
        (workspace / f"f{number % 50}").write_text("x")
        (workspace / f"f{number % 50}").unlink()
    (workspace / ".env").write_text("x")
    assert paths.refresh()
    assert paths.hidden == {".env"}


def test_without_watches_every_look_is_a_walk(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protected, "_WATCHED", 0)  # which the kernel refuses
    paths = ProtectedPaths(workspace, Protection().find)
    monkeypatch.setattr(ProtectedPaths, "_watch", lambda self, _: self.close())
    paths.refresh()
    assert paths.has_news
    (workspace / ".env").write_text("x")
    assert paths.refresh()
    assert paths.hidden == {".env"}


def test_placeholders_take_free_names_and_leave_no_trace(workspace: Path) -> None:
    places = Placeholders(workspace, (".git", "own.toml"))
    places.make()
    assert places.names == {".git", "own.toml"}
    assert (workspace / ".git").is_dir()
    assert (workspace / "own.toml").read_text() == ""
    places.remove()
    assert list(workspace.iterdir()) == []


def test_placeholders_leave_what_is_there_alone(workspace: Path) -> None:
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").write_text("x")
    (workspace / "own.toml").write_text("x")
    places = Placeholders(workspace, (".git", "own.toml"))
    places.make()
    places.remove()
    assert places.names == frozenset()
    assert (workspace / ".git" / "config").exists()
    assert (workspace / "own.toml").read_text() == "x"


def test_a_placeholder_that_somebody_filled_is_theirs(workspace: Path) -> None:
    places = Placeholders(workspace, (".git",))
    places.make()
    (workspace / ".git" / "config").write_text("made by the user")
    places.remove()
    assert (workspace / ".git" / "config").read_text() == "made by the user"


def test_a_placeholder_stays_as_long_as_anyone_needs_it(workspace: Path) -> None:
    first, second = Placeholders(workspace, (".git",)), Placeholders(workspace, (".git",))
    first.make()
    second.make()
    first.remove()
    assert (workspace / ".git").is_dir()
    second.remove()
    assert list(workspace.iterdir()) == []


def test_a_placeholder_in_a_repository_leads_to_the_repository_itself(workspace: Path) -> None:
    (workspace / "sub" / ".git").mkdir(parents=True)
    places = Placeholders(workspace, ())
    places.make(["sub/.git"])
    assert (workspace / "sub" / ".git" / "commondir").read_text() == "./\n"
    assert places.names == frozenset(), "nothing must take its place"
    other = Placeholders(workspace, ())
    other.make(["sub/.git"])
    places.remove()
    assert (workspace / "sub" / ".git" / "commondir").exists()
    other.remove()
    assert list((workspace / "sub" / ".git").iterdir()) == []


async def test_a_repository_that_cannot_be_guarded_stops_every_command_that_writes(
    open_here: OpenSandbox, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").write_text("[core]\n")
    monkeypatch.setattr(placeholders, "_make_file", lambda _: None)
    sandbox = await open_here()
    with pytest.raises(Unavailable, match="changes while it is to be guarded"):
        await run_python(sandbox, "pass", access=Access.WRITABLE)


def test_a_placeholder_that_a_killed_program_left_is_taken_over(workspace: Path) -> None:
    (workspace / "commondir").write_text("./\n")
    (workspace / "own.toml").touch()
    places = Placeholders(workspace, ("own.toml",))
    places.make(["."])
    places.remove()
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize("parent", [Path("/var/tmp"), Path("/dev/shm")])
async def test_a_workspace_may_lie_where_commands_otherwise_find_their_own_tmp(parent: Path) -> None:
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        sandbox = await open_sandbox(Path(directory), is_protected=Protection().find)
        try:
            assert sandbox.mechanism.name == "namespaces"
            outcome = await run_python(sandbox, "open('made', 'w').write('x')", access=Access.WRITABLE)
        finally:
            await sandbox.close()
        assert (outcome.exit_code, Path(directory, "made").read_text()) == (0, "x")


async def test_placeholders_are_gone_when_the_sandbox_is_closed(open_here: OpenSandbox, workspace: Path) -> None:
    sandbox = await open_here()
    outcome = await run_python(sandbox, "open('made', 'w').write('x')", access=Access.WRITABLE)
    assert outcome.exit_code == 0
    await sandbox.close()
    assert [path.name for path in workspace.iterdir()] == ["made"]


async def test_a_workspace_replaced_by_another_directory_is_seen_anew(open_here: OpenSandbox, workspace: Path) -> None:
    sandbox = await open_here()
    assert (await run_python(sandbox, "import os; print(os.listdir('.'))")).stdout == "[]\n"
    workspace.rename(workspace.with_name("old"))
    workspace.mkdir()
    (workspace / "new").write_text("x")
    (workspace / ".env").write_text("s3cr3t")
    assert (await run_python(sandbox, "import os; print(sorted(os.listdir('.')))")).stdout == "['.env', 'new']\n"
    assert (await run_python(sandbox, "open('.env').read()")).exit_code == 1


async def test_configured_toolchains_can_be_used_and_not_changed(open_here: OpenSandbox, tmp_path: Path) -> None:
    tools = tmp_path / "tools" / "bin"
    tools.mkdir(parents=True)
    (tools / "mytool").write_text("#!/bin/sh\necho used; touch $(dirname $0)/canary\n")
    (tools / "mytool").chmod(0o755)
    sandbox = await open_here(toolchains=[tmp_path / "tools"], search_path=str(tools))
    program = sandbox.find_program("mytool")
    assert program == str(tools / "mytool")
    outcome = await sandbox.run(Job(argv=(program,), access=Access.WRITABLE))
    assert outcome.stdout == "used\n"
    assert not (tools / "canary").exists()
    bare = await open_here(search_path=str(tools))
    assert bare.find_program("mytool") is None
