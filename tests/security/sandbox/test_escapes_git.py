"""What runs on its own account when the user next calls git, and the workspace's own configuration."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from pathlib import Path

import pytest

from client_agent.errors import Unavailable
from client_agent.sandbox import Access, Job
from client_agent.sandbox.jobs import Stdin
from tests.security.sandbox.place import ATTEMPTS, Place


async def test_git_hooks_and_configuration_cannot_be_changed(place: Place) -> None:
    git = place.workspace / ".git"
    (git / "hooks").mkdir(parents=True)
    (git / "config").write_text("[core]\n")
    (git / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    await place.attempt(
        """
attempt("config", write, ".git/config")
attempt("new hook", write, ".git/hooks/post-checkout")
attempt("hook", write, ".git/hooks/pre-commit")
attempt("remove config", os.unlink, ".git/config")
attempt("replace config", lambda: (write(".git/config.lock"), os.rename(".git/config.lock", ".git/config")))
attempt("move hooks", os.rename, ".git/hooks", ".git/old")
attempt("move git", os.rename, ".git", "old")
attempt("exchange", call, 316, -100, b".git/config.lock", -100, b".git/config", 2)
"""
    )
    assert (git / "config").read_text() == "[core]\n"
    assert (git / "hooks" / "pre-commit").read_text() == "#!/bin/sh\n"
    assert [path.name for path in (git / "hooks").iterdir()] == ["pre-commit"]
    assert not (place.workspace / "old").exists()


async def test_the_rest_of_a_repository_can_be_written(place: Place) -> None:
    (place.workspace / ".git").mkdir()
    (place.workspace / ".git" / "config").write_text("[core]\n")
    outcome = await place.python('write(".git/index.lock"); os.rename(".git/index.lock", ".git/index")')
    assert outcome.exit_code == 0
    assert (place.workspace / ".git" / "index").read_text() == "canary"


WAITS_TO_WRITE = """
print("begun", flush=True)
sys.stdin.readline()
for path in sys.argv[1:]: attempt(path, write, path)
write("beside")
print("tried")
"""


async def test_a_command_in_the_background_cannot_change_a_configuration_that_the_user_has_changed(
    place: Place,
) -> None:
    repositories = (place.workspace / ".git", place.workspace / "sub" / ".git")
    for repository in repositories:
        (repository / "hooks").mkdir(parents=True)
        (repository / "config").write_text("[core]\n")
    program = place.sandbox.find_program("python3")
    assert program is not None
    names = [f"{path}/{name}" for path in (".git", "sub/.git") for name in ("config", "hooks/pre-commit", "commondir")]
    argv = (program, "-c", ATTEMPTS + WAITS_TO_WRITE, *names)
    begun = asyncio.Event()
    process = await place.sandbox.launch(
        Job(argv=argv, access=Access.WRITABLE, stdin=Stdin.PIPE, is_lasting=True, wall_s=20), lambda *_: begun.set()
    )
    await begun.wait()
    for repository in repositories:
        (repository / "config.lock").write_text("[user]\n")  # as git does it
        (repository / "config.lock").rename(repository / "config")
    await process.write(b"go\n")
    outcome = await process.wait()
    assert outcome.stdout == "begun\n" + "".join(f"{name} held EROFS\n" for name in names) + "tried\n"
    assert [(repository / "config").read_text() for repository in repositories] == ["[user]\n"] * 2
    assert (place.workspace / "beside").read_text() == "canary", "all else can be written"


async def test_git_hooks_and_configuration_cannot_be_made_where_there_is_no_repository(place: Place) -> None:
    await place.attempt(
        """
attempt("git", os.makedirs, ".git/hooks")
attempt("hook", write, ".git/hooks/pre-commit")
attempt("config", write, ".git/config")
attempt("file", lambda: (os.rmdir(".git"), write(".git")))
attempt("move", os.rename, ".git", "elsewhere")
attempt("own", write, ".client-agent.toml")
attempt("remove own", os.unlink, ".client-agent.toml")
attempt("replace own", lambda: (write("spare"), os.rename("spare", ".client-agent.toml")))
"""
    )
    await place.sandbox.close()
    assert {path.name for path in place.workspace.iterdir()} <= {"spare"}


async def test_the_workspaces_own_configuration_cannot_be_read_or_changed(place: Place) -> None:
    own = place.workspace / ".client-agent.toml"
    own.write_text("[limits]\n")
    await place.attempt(
        """
attempt("read", read, ".client-agent.toml")
attempt("write", write, ".client-agent.toml")
attempt("remove", os.unlink, ".client-agent.toml")
attempt("rename", os.rename, ".client-agent.toml", "moved")
"""
    )
    assert own.read_text() == "[limits]\n"


async def test_the_repositories_in_subdirectories_are_guarded_too(place: Place) -> None:
    git = place.workspace / "vendor" / "library" / ".git"
    git.mkdir(parents=True)
    (git / "config").write_text("[core]\n")
    await place.attempt(
        """
os.chdir("vendor/library")
attempt("config", write, ".git/config")
attempt("hook", write, ".git/hooks/pre-commit")
attempt("move", os.rename, ".git", "old")
"""
    )
    assert (git / "config").read_text() == "[core]\n"


async def test_a_guarded_repository_cannot_be_moved_away_with_its_directory(place: Place) -> None:
    git = place.workspace / "vendor" / "library" / ".git"
    git.mkdir(parents=True)
    (git / "config").write_text("[core]\n")
    await place.attempt(
        """
attempt("repository", os.rename, "vendor/library", "vendor/other")
attempt("above", os.rename, "vendor", "other")
"""
    )
    outcome = await place.python(
        'write("vendor/library/file"); os.rename("vendor/library/file", "vendor/library/moved")'
    )
    assert outcome.exit_code == 0
    assert (git / "config").read_text() == "[core]\n"


async def test_the_repositories_of_submodules_are_guarded(place: Place) -> None:
    module = place.workspace / ".git" / "modules" / "group" / "part"
    (module / "objects").mkdir(parents=True)
    (module / "HEAD").write_text("ref: refs/heads/main\n")
    (module / "config").write_text("[core]\n")
    (place.workspace / "part").mkdir()
    (place.workspace / "part" / ".git").write_text("gitdir: ../.git/modules/group/part\n")
    await place.attempt(
        """
attempt("config", write, ".git/modules/group/part/config")
attempt("hook", write, ".git/modules/group/part/hooks/post-checkout")
attempt("move", os.rename, ".git/modules/group", ".git/modules/other")
attempt("move all", os.rename, ".git/modules", ".git/other")
attempt("link file", write, "part/.git")
attempt("move part", os.rename, "part", "other")
"""
    )
    assert (module / "config").read_text() == "[core]\n"
    assert not list((module / "hooks").iterdir())


async def test_git_in_another_worktree_cannot_be_led_past_its_configuration(place: Place) -> None:
    def add(name: str) -> Path:
        known = place.workspace / ".git" / "worktrees" / name
        known.mkdir(parents=True)
        (known / "commondir").write_text("../..\n")
        return known

    attempts = """
for name in sys.argv[1:]:
    known = ".git/worktrees/" + name
    write("elsewhere", "/evil")
    attempt("write", write, known + "/commondir")
    attempt("replace", os.rename, "elsewhere", known + "/commondir")
    attempt("remove", os.unlink, known + "/commondir")
    attempt("move", os.rename, known, ".git/worktrees/moved")
    write(known + "/index.lock"); os.rename(known + "/index.lock", known + "/index")
attempt("move all", os.rename, ".git/worktrees", ".git/moved")
"""
    (place.workspace / ".git").mkdir()
    (place.workspace / ".git" / "config").write_text("[core]\n")
    await place.python("")  # the sandbox is open before there are any
    first = add("first")
    await place.attempt(attempts, "first")
    second = add("second")
    await place.attempt(attempts, "first", "second")
    assert [(known / "commondir").read_text() for known in (first, second)] == ["../..\n"] * 2
    assert not (first / "hooks").exists()


async def test_no_worktree_can_be_given_a_configuration_of_its_own(place: Place) -> None:
    repository = place.workspace / ".git"
    other = repository / "worktrees" / "other"
    other.mkdir(parents=True)
    (repository / "config").write_text("[extensions]\n\tworktreeConfig = true\n")
    await place.attempt(
        """
for path in (".git", ".git/worktrees/other"):
    write("made")
    attempt("write", write, path + "/config.worktree")
    attempt("replace", os.rename, "made", path + "/config.worktree")
    attempt("remove", os.unlink, path + "/config.worktree")
"""
    )
    assert [(path / "config.worktree").read_text() for path in (repository, other)] == ["", ""]


async def test_a_worktree_that_the_user_adds_while_a_command_runs_stays_whole(place: Place) -> None:
    (place.workspace / ".git").mkdir()
    (place.workspace / ".git" / "config").write_text("[core]\n")
    program = place.sandbox.find_program("python3")
    assert program is not None
    argv = (program, "-c", "input()")
    process = await place.sandbox.launch(Job(argv=argv, access=Access.WRITABLE, stdin=Stdin.PIPE, wall_s=20))
    known = place.workspace / ".git" / "worktrees" / "added"
    known.mkdir(parents=True)
    (known / "commondir").write_text("../..\n")
    await place.python("", access=Access.READ_ONLY)
    await process.write(b"\n")
    assert (await process.wait()).exit_code == 0
    assert (known / "commondir").read_text() == "../..\n"


async def test_git_cannot_be_led_past_its_configuration(place: Place) -> None:
    git = place.workspace / ".git"
    git.mkdir()
    (git / "config").write_text("[core]\n")
    await place.attempt(
        """
write("evil", "../evil\\n")
attempt("write", write, ".git/commondir")
attempt("replace", os.rename, "evil", ".git/commondir")
attempt("remove", os.unlink, ".git/commondir")
"""
    )
    assert (git / "commondir").read_text() == "./\n", "it leads to the repository itself while a command could make one"
    await place.sandbox.close()
    assert not (git / "commondir").exists()


async def test_git_works_as_ever_while_nothing_can_lead_it_away(place: Place) -> None:
    def git(*args: str) -> str:
        return subprocess.check_output(["/usr/bin/git", "-C", place.workspace, *args], text=True)

    git("init", "-q", "-b", "main")
    git("config", "user.name", "someone")
    git("config", "user.email", "someone@example.org")
    assert (await place.python('write("file")')).exit_code == 0
    assert (place.workspace / ".git" / "commondir").exists()
    git("add", "file")
    git("commit", "-q", "-m", "first")
    git("worktree", "add", "-q", "other")
    assert git("-C", "other", "log", "--format=%s") == "first\n"
    assert [line.split()[-1] for line in git("worktree", "list").splitlines()] == ["[main]", "[other]"]
    program = place.sandbox.find_program("git")
    assert program is not None
    outcome = await place.sandbox.run(Job(argv=(program, "log", "--format=%s"), access=Access.WRITABLE))
    assert outcome.stdout == "first\n"


@pytest.mark.parametrize("name", [".git", "sub/.git"])
async def test_a_repository_without_configuration_cannot_be_given_one(place: Place, name: str) -> None:
    git = place.workspace / name
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    await place.attempt(
        'attempt("config", write, sys.argv[1]); attempt("remove", os.unlink, sys.argv[1])', f"{name}/config"
    )
    assert (git / "config").read_text() == ""


@pytest.mark.parametrize("name", ["hooks", "config", "commondir"])
async def test_what_git_reads_through_a_link_stops_every_command_that_writes(place: Place, name: str) -> None:
    git = place.workspace / ".git"
    git.mkdir()
    (git / "config").write_text("[core]\n")
    (git / name).unlink(missing_ok=True)
    (git / name).symlink_to("../elsewhere")
    with pytest.raises(Unavailable, match=f"'.git/{name}' is a symbolic link"):
        await place.python("pass")
    assert (await place.python("pass", access=Access.READ_ONLY)).exit_code == 0


@pytest.mark.parametrize("known", [[], ["first"]])
async def test_a_submodule_added_later_is_guarded(place: Place, known: list[str]) -> None:
    def add(name: str) -> Path:
        module = place.workspace / ".git" / "modules" / "group" / name
        module.mkdir(parents=True)
        return module

    def complete(module: Path) -> None:
        (module / "objects").mkdir()
        (module / "HEAD").write_text("ref: refs/heads/main\n")
        (module / "config").write_text("[core]\n")

    (place.workspace / ".git").mkdir()
    (place.workspace / ".git" / "config").write_text("[core]\n")
    for name in known:
        complete(add(name))
    assert (await place.python("pass")).exit_code == 0
    module = add("later")
    assert (await place.python("pass")).exit_code == 0, "git has just begun to make it"
    complete(module)
    await place.attempt(
        """
attempt("config", write, ".git/modules/group/later/config")
attempt("hook", write, ".git/modules/group/later/hooks/post-checkout")
attempt("move", os.rename, ".git/modules/group/later", ".git/modules/group/moved")
"""
    )
    assert (module / "config").read_text() == "[core]\n"


async def test_a_repository_that_a_command_made_unreadable_is_guarded_still(place: Place) -> None:
    module = place.workspace / ".git" / "modules" / "part"
    (module / "objects").mkdir(parents=True)
    (module / "HEAD").write_text("ref: refs/heads/main\n")
    (module / "config").write_text("[core]\n")
    code = """
os.mkdir("a"); os.rename("a", "b")  # by which everything is looked at again
os.chmod(sys.argv[1], 0o300)
"""
    for name in (".git/modules", ".git/modules/part"):
        assert (await place.python(code, name)).exit_code == 0
        with contextlib.suppress(Unavailable):  # it is known all the same to a user who may read everything
            await place.python(f'os.chmod({name!r}, 0o700); write(".git/modules/part/config")')
        assert (module / "config").read_text() == "[core]\n"
        (place.workspace / name).chmod(0o700)
        (place.workspace / "b").rmdir()


async def test_the_link_file_of_a_worktree_cannot_be_turned_elsewhere(place: Place) -> None:
    (place.workspace / ".git").write_text("gitdir: /nowhere\n")
    await place.attempt('attempt("write", write, ".git"); attempt("replace", os.unlink, ".git")')
    assert (place.workspace / ".git").read_text() == "gitdir: /nowhere\n"


async def test_a_git_that_is_a_link_stops_every_command_that_writes(place: Place) -> None:
    (place.workspace / "real").mkdir()
    (place.workspace / ".git").symlink_to("real")
    with pytest.raises(Unavailable, match="symbolic link"):
        await place.python("pass")
    assert (await place.python("pass", access=Access.READ_ONLY)).exit_code == 0


async def test_a_repository_made_after_the_sandbox_was_opened_is_guarded(place: Place) -> None:
    assert (await place.python("pass")).exit_code == 0
    git = place.workspace / "later" / ".git"
    git.mkdir(parents=True)
    (git / "config").write_text("[core]\n")
    await place.attempt('attempt("config", write, "later/.git/config")')


async def test_a_configuration_put_in_the_old_ones_place_is_guarded(place: Place) -> None:
    git = place.workspace / ".git"
    git.mkdir()
    (git / "config").write_text("[core]\n")
    assert (await place.python("pass")).exit_code == 0
    (git / "config.lock").write_text("[user]\n")
    (git / "config.lock").rename(git / "config")
    await place.attempt('attempt("config", write, ".git/config")')
    assert (git / "config").read_text() == "[user]\n"
