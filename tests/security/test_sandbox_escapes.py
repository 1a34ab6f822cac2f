"""Programs inside the sandbox that try to get out. Each is run as if a person had approved it by mistake.

A machine without the full mechanism fails these tests: there is nothing here to skip.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from client_agent.errors import AccessRefused, Unavailable
from client_agent.policy.paths import Protection
from client_agent.sandbox import Access, Job, Network, Outcome, Sandbox, open_sandbox
from client_agent.sandbox.jobs import Stdin

SECRET = "s3cr3t-canary-8d1f"

# Every attempt prints its name and what held it. `tried` at the end shows that the program came that far.
ATTEMPTS = """
import ctypes, errno, fcntl, os, signal, socket, stat, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    result = libc.syscall(*(ctypes.c_long(a) if isinstance(a, int) else a for a in args))
    if result < 0: raise OSError(ctypes.get_errno(), "refused")
    return result
def attempt(name, function, *args):
    try: result = function(*args)
    except OSError as error: print(name, "held", errno.errorcode.get(error.errno, error.errno))
    else: print(name, "ESCAPED", result)
def write(path, text="canary"):
    with open(path, "w") as file: file.write(text)
def read(path):
    with open(path, "rb") as file: return file.read()
"""


class Place:
    """A workspace, what lies beside it, and a sandbox around what runs in it."""

    def __init__(self, workspace: Path, outside: Path, sandbox: Sandbox) -> None:
        self.workspace = workspace
        self.outside = outside
        self.sandbox = sandbox

    async def python(
        self, code: str, *args: str, access: Access = Access.WRITABLE, network: Network = Network.OFF
    ) -> Outcome:
        program = self.sandbox.find_program("python3")
        assert program is not None
        argv = (program, "-c", ATTEMPTS + code + "\nprint('tried')", *args)
        return await self.sandbox.run(Job(argv=argv, access=access, network=network, wall_s=20))

    async def attempt(
        self, code: str, *args: str, access: Access = Access.WRITABLE, network: Network = Network.OFF
    ) -> str:
        """Runs attempts and sees that every one of them was held."""
        outcome = await self.python(code, *args, access=access, network=network)
        assert outcome.stdout.endswith("tried\n"), (outcome.stdout, outcome.stderr)
        assert "ESCAPED" not in outcome.stdout
        assert " held " in outcome.stdout
        return outcome.stdout


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "ws"
    path.mkdir()
    return path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside"
    path.mkdir()
    (path / "secret.txt").write_text(SECRET)
    return path


@pytest.fixture
async def place(workspace: Path, outside: Path) -> AsyncIterator[Place]:
    sandbox = await open_sandbox(workspace, is_protected=Protection().find)
    assert sandbox.mechanism.name == "namespaces"
    assert sandbox.mechanism.gaps == ()
    yield Place(workspace, outside, sandbox)
    await sandbox.close()


# --- files ---------------------------------------------------------------------------------------------------------


async def test_files_outside_the_workspace_are_not_there(place: Place) -> None:
    home = os.path.expanduser("~")
    out = await place.attempt(
        """
attempt("secret", read, sys.argv[1] + "/secret.txt")
attempt("relative", read, "../outside/secret.txt")
attempt("root", read, "/proc/self/root" + sys.argv[1] + "/secret.txt")
attempt("cwd", read, "/proc/self/cwd/../outside/secret.txt")
attempt("shadow", read, "/etc/shadow")
attempt("sudoers", read, "/etc/sudoers")
attempt("host keys", os.listdir, "/etc/ssh")
attempt("home", read, sys.argv[2] + "/.bashrc")
attempt("sys", os.listdir, "/sys/kernel")
attempt("run", read, "/run/utmp")
attempt("handle", call, 304, 3, None, 0)
""",
        str(place.outside),
        home,
    )
    assert SECRET not in out
    assert out.count(" held ") == 11


async def test_nothing_can_be_written_outside_the_workspace(place: Place) -> None:
    await place.attempt(
        """
for target in (sys.argv[1] + "/canary", "/canary", "/usr/canary", "/etc/canary", "/etc/ld.so.preload", "/dev/canary",
               "/proc/canary", "/var/canary", "/run/canary", "/home/canary"):
    attempt(target, write, target)
attempt("chmod", os.chmod, "/usr/bin/env", 0o777)
attempt("remove", os.unlink, "/usr/bin/env")
# Where the workspace lies in /tmp, its parents are directories of the command's own /tmp.
try: write("../canary"); os.makedirs(sys.argv[1]); write(sys.argv[1] + "/canary")
except OSError: pass
""",
        str(place.outside),
    )
    assert sorted(path.name for path in place.outside.iterdir()) == ["secret.txt"]
    assert not (place.workspace.parent / "canary").exists()


async def test_a_workspace_shown_read_only_cannot_be_changed(place: Place) -> None:
    (place.workspace / "kept.txt").write_text("kept")
    before = (place.workspace / "kept.txt").stat()
    await place.attempt(
        """
attempt("create", write, "new.txt")
attempt("overwrite", write, "kept.txt")
attempt("append", open, "kept.txt", "a")
attempt("truncate", os.truncate, "kept.txt", 0)
attempt("remove", os.unlink, "kept.txt")
attempt("rename", os.rename, "kept.txt", "moved.txt")
attempt("chmod", os.chmod, "kept.txt", 0o777)
attempt("times", os.utime, "kept.txt", (0, 0))
attempt("link", os.link, "kept.txt", "linked.txt")
attempt("symlink", os.symlink, "kept.txt", "linked.txt")
attempt("mkdir", os.mkdir, "made")
attempt("xattr", os.setxattr, "kept.txt", "user.x", b"1")
attempt("proc", write, "/proc/self/cwd/new.txt")
""",
        access=Access.READ_ONLY,
    )
    assert [path.name for path in place.workspace.iterdir()] == ["kept.txt"]
    assert (place.workspace / "kept.txt").stat() == before


async def test_a_hard_link_to_a_file_outside_cannot_be_made(place: Place) -> None:
    await place.attempt(
        """
attempt("outside", os.link, sys.argv[1] + "/secret.txt", "linked")
attempt("system", os.link, "/usr/bin/env", "linked")
attempt("etc", os.link, "/etc/passwd", "linked")
""",
        str(place.outside),
    )
    assert list(place.workspace.glob("linked")) == []


async def test_a_link_swapped_while_a_command_reads_it_never_leads_out(place: Place) -> None:
    inside, link = place.workspace / "inside.txt", place.workspace / "link"
    inside.write_text("harmless")
    link.symlink_to(inside)
    stop = threading.Event()

    def swap() -> None:
        targets = [place.outside / "secret.txt", inside]
        while not stop.is_set():
            for target in targets:
                spare = place.workspace / "spare"
                spare.symlink_to(target)
                spare.rename(link)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        outcome = await place.python(
            """
seen = set()
while len(seen) < 2:
    try: seen.add(read("link"))
    except OSError: seen.add(b"nothing")
for _ in range(3000):
    try: seen.add(read("link"))
    except OSError: seen.add(b"nothing")
print(sorted(seen))
""",
            access=Access.READ_ONLY,
        )
    finally:
        stop.set()
        swapper.join()
    assert outcome.stdout == "[b'harmless', b'nothing']\ntried\n"


async def test_a_link_to_outside_leads_nowhere(place: Place) -> None:
    (place.workspace / "file").symlink_to(place.outside / "secret.txt")
    (place.workspace / "directory").symlink_to(place.outside)
    await place.attempt(
        """
attempt("file", read, "file")
attempt("directory", os.listdir, "directory")
attempt("write", write, "directory/canary")
"""
    )
    assert not (place.outside / "canary").exists()


async def test_no_setuid_or_setgid_file_can_be_made(place: Place) -> None:
    (place.workspace / "tool").write_text("#!/bin/sh\n")
    (place.workspace / "directory").mkdir()
    await place.attempt(
        """
attempt("chmod", os.chmod, "tool", 0o4755)
attempt("setgid", os.chmod, "tool", 0o2755)
attempt("directory", os.chmod, "directory", 0o2755)
fd = os.open("tool", os.O_RDONLY)
attempt("fchmod", os.fchmod, fd, 0o4755)
attempt("open", os.open, "made", os.O_CREAT | os.O_WRONLY, 0o4755)
attempt("mkdir", os.mkdir, "made", 0o2755)
attempt("mknod", os.mknod, "made", stat.S_IFREG | 0o4755)
attempt("fchmodat2", call, 452, -100, b"tool", 0o4755, 0)
attempt("openat2", call, 437, -100, b"made", b"\\0" * 24, 24)
"""
    )
    for path in place.workspace.iterdir():
        assert not path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)


# --- what runs on its own account ----------------------------------------------------------------------------------


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
    outcome = await place.python('write(".git/commondir", "../evil\\n")')
    assert outcome.exit_code == 0
    assert not (git / "commondir").exists()


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


# --- secrets in the workspace --------------------------------------------------------------------------------------

READ_SECRETS = """
for name in (".env", "sub/.env.local", "sub/key.pem", "sub/deep/id_rsa"):
    attempt(name, read, name)
    attempt(name + " by root", read, "/proc/self/root" + os.getcwd() + "/" + name)
attempt("directory", os.listdir, ".ssh")
attempt("in directory", read, ".ssh/id_ed25519")
"""


def put_secrets(workspace: Path) -> None:
    for name in (".env", "sub/.env.local", "sub/key.pem", "sub/deep/id_rsa", ".ssh/id_ed25519"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(SECRET)


@pytest.mark.parametrize("access", list(Access))
async def test_secrets_in_the_workspace_cannot_be_read(place: Place, access: Access) -> None:
    put_secrets(place.workspace)
    assert SECRET not in await place.attempt(READ_SECRETS, access=access)


async def test_secrets_cannot_be_reached_by_moving_or_linking_them(place: Place) -> None:
    put_secrets(place.workspace)
    out = await place.attempt(
        """
attempt("rename", os.rename, ".env", "readable")
attempt("link", os.link, ".env", "readable")
attempt("remove", os.unlink, ".env")
attempt("exchange", call, 316, -100, b".env", -100, b"sub/key.pem", 2)
attempt("move directory", os.rename, ".ssh", "readable")
os.rename("sub", "moved")
attempt("after move", read, "moved/.env.local")
attempt("chmod", os.chmod, ".env", 0o644)
attempt("open", read, ".env")
"""
    )
    assert SECRET not in out
    assert (place.workspace / ".env").read_text() == SECRET
    assert SECRET not in await place.attempt('attempt("moved", read, "moved/key.pem")')


async def test_a_secret_that_appears_later_is_hidden_from_the_next_command(place: Place) -> None:
    assert (await place.python("pass", access=Access.READ_ONLY)).exit_code == 0
    put_secrets(place.workspace)
    assert SECRET not in await place.attempt(READ_SECRETS, access=Access.READ_ONLY)


async def test_a_secret_saved_by_renaming_is_hidden_from_the_next_command(place: Place) -> None:
    put_secrets(place.workspace)
    await place.attempt(READ_SECRETS, access=Access.READ_ONLY)
    (place.workspace / "spare").write_text(SECRET)
    (place.workspace / "spare").rename(place.workspace / ".env")
    assert SECRET not in await place.attempt(READ_SECRETS, access=Access.READ_ONLY)


async def test_a_directory_with_secrets_moved_into_the_workspace_is_searched(place: Place) -> None:
    assert (await place.python("pass", access=Access.READ_ONLY)).exit_code == 0
    put_secrets(place.outside / "tree")
    (place.outside / "tree").rename(place.workspace / "tree")
    out = await place.attempt('os.chdir("tree")\n' + READ_SECRETS, access=Access.READ_ONLY)
    assert SECRET not in out


async def test_a_link_with_a_secrets_name_hides_what_it_points_to(place: Place) -> None:
    (place.workspace / "settings").write_text(SECRET)
    (place.workspace / ".env").symlink_to("settings")
    await place.attempt('attempt("link", read, ".env"); attempt("target", read, "settings")')


async def test_the_daemons_own_files_in_the_workspace_are_hidden(workspace: Path) -> None:
    state = workspace / "state"
    state.mkdir()
    (state / "token").write_text(SECRET)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(state / "door"))
        door.listen()
        sandbox = await open_sandbox(workspace, is_protected=Protection(own=["state"]).find)
        try:
            await Place(workspace, workspace, sandbox).attempt(
                """
attempt("list", os.listdir, "state")
attempt("token", read, "state/token")
attempt("door", lambda: socket.socket(socket.AF_UNIX).connect("state/door"))
attempt("write", write, "state/canary")
"""
            )
        finally:
            await sandbox.close()
    assert not (state / "canary").exists()


# --- processes -----------------------------------------------------------------------------------------------------


async def test_a_command_sees_no_process_but_its_own(place: Place) -> None:
    outcome = await place.python(
        """
print(sorted(int(name) for name in os.listdir("/proc") if name.isdigit()) == [1, os.getpid()], os.getpid())
print(sorted(os.listdir("/proc/self/fd")))
""",
        access=Access.READ_ONLY,
    )
    seen, fds, _ = outcome.stdout.splitlines()
    assert seen == "True 2"
    assert fds == "['0', '1', '2', '3']"  # the fourth is the listing itself


async def test_commands_at_the_same_time_see_nothing_of_each_other(place: Place) -> None:
    code = """
import time
write("/tmp/mine", sys.argv[1]); write(os.path.expanduser("~/mine"), sys.argv[1])
time.sleep(0.3)
print(read("/tmp/mine").decode(), sorted(os.listdir("/tmp")), os.listdir(os.path.expanduser("~")), end=" ")
print(len([name for name in os.listdir("/proc") if name.isdigit()]))
"""
    outcomes = await asyncio.gather(*(place.python(code, name) for name in ("a", "b", "c")))
    for name, outcome in zip("abc", outcomes, strict=True):
        mine, *_, processes = outcome.stdout.splitlines()[0].split()
        assert (mine, processes) == (name, "2")


async def test_tmp_and_home_are_fresh_for_every_command(place: Place) -> None:
    leave = 'write("/tmp/left"); write(os.path.expanduser("~/left")); write("/dev/shm/left")'
    assert (await place.python(leave)).exit_code == 0
    look = 'print(os.path.exists("/tmp/left"), os.listdir(os.path.expanduser("~")), os.path.exists("/dev/shm/left"))'
    assert (await place.python(look)).stdout == "False [] False\ntried\n"


async def test_no_process_can_be_put_beside_a_command_to_outlive_it(place: Place) -> None:
    await place.attempt(
        """
numbers = {"x86_64": 56, "aarch64": 220}
def put_beside():
    pid = call(numbers[os.uname().machine], 0x8000 | signal.SIGCHLD, 0, 0, 0, 0)  # CLONE_PARENT
    if pid == 0:
        for fd in range(3): os.close(fd)
        signal.pause()
    return pid
attempt("beside", put_beside)
"""
    )
    out = (await place.python("print(sum(name.isdigit() for name in os.listdir('/proc')))")).stdout
    assert out == "2\ntried\n"


async def test_other_processes_cannot_be_looked_into(place: Place) -> None:
    # On x86-64 and ARM alike: the numbers are looked up by machine.
    await place.attempt(
        """
arm = os.uname().machine == "aarch64"
attempt("environment", read, "/proc/1/environ")
attempt("memory", read, "/proc/1/mem")
attempt("maps", read, "/proc/1/maps")
attempt("root", os.listdir, "/proc/1/root")
attempt("directory", os.listdir, "/proc/1/cwd")
attempt("files", os.readlink, "/proc/1/fd/0")
attempt("open file", read, "/proc/1/fd/0")
attempt("namespaces", os.readlink, "/proc/1/ns/mnt")
attempt("ptrace", call, 117 if arm else 101, 16, 1, 0, 0)
attempt("traceme", call, 117 if arm else 101, 0, 0, 0, 0)
attempt("read memory", call, 270 if arm else 310, 1, None, 0, None, 0, 0)
attempt("write memory", call, 271 if arm else 311, 1, None, 0, None, 0, 0)
attempt("compare", call, 272 if arm else 312, 1, 2, 0, 0, 0)
attempt("take file", lambda: call(438, os.pidfd_open(1), 0, 0))
"""
    )


async def test_a_process_outside_cannot_be_signalled(place: Place) -> None:
    bystander = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        await place.attempt(
            """
attempt("bystander", os.kill, int(sys.argv[1]), signal.SIGKILL)
attempt("parent", os.kill, os.getppid() or -99999, signal.SIGKILL)
attempt("test", os.kill, int(sys.argv[2]), 0)
""",
            str(bystander.pid),
            str(os.getpid()),
        )
        await place.python("signal.signal(signal.SIGTERM, signal.SIG_IGN); os.kill(-1, signal.SIGTERM)")
        assert bystander.returncode is None
    finally:
        bystander.kill()
        await bystander.wait()


async def test_there_is_no_way_to_privileges(place: Place) -> None:
    outcome = await place.python(
        """
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
print(*(status[name] for name in names))
print(os.getuid() != 0, os.geteuid() != 0, len(set(os.getresuid())))
"""
    )
    capabilities, ids, _ = outcome.stdout.splitlines()
    assert capabilities == f"{'0000000000000000 ' * 5}1 2"
    assert ids == "True True 1"
    await place.attempt(
        """
attempt("setuid", os.setuid, 0)
attempt("setgid", os.setgid, 0)
attempt("groups", os.setgroups, [0])
attempt("chown", lambda: (write("mine"), os.chown("mine", 0, 0)))
attempt("chroot", os.chroot, ".")
attempt("nice", os.setpriority, os.PRIO_PROCESS, 0, -20)
"""
    )


async def test_setuid_bits_of_programs_count_for_nothing(place: Place) -> None:
    code = 'print(*(bool(os.statvfs(path).f_flag & os.ST_NOSUID) for path in ("/usr", ".", "/tmp", "/", "/proc")))'
    assert (await place.python(code)).stdout == "True True True True True\ntried\n"


# --- the kernel ----------------------------------------------------------------------------------------------------


async def test_no_namespace_and_no_mount_can_be_made(place: Place) -> None:
    await place.attempt(
        """
arm = os.uname().machine == "aarch64"
for name, flag in (("mount", 0x20000), ("uts", 0x4000000), ("ipc", 0x8000000), ("user", 0x10000000),
                   ("pid", 0x20000000), ("network", 0x40000000), ("cgroup", 0x2000000), ("time", 0x80)):
    attempt("unshare " + name, call, 97 if arm else 272, flag)
    if flag != 0x80: attempt("clone " + name, call, 220 if arm else 56, flag | 17, 0, 0, 0, 0)
attempt("clone3", call, 435, b"\\0" * 88, 88)
attempt("setns", lambda: call(268 if arm else 308, os.open("/proc/self/ns/mnt", 0), 0))
attempt("mount", call, 40 if arm else 165, b"none", b"/tmp", b"tmpfs", 0, None)
attempt("unmount", call, 39 if arm else 166, b"/proc", 2)
attempt("pivot", call, 41 if arm else 155, b"/tmp", b"/tmp")
attempt("fsopen", call, 430, b"tmpfs", 0)
attempt("open_tree", call, 428, -100, b"/", 1)
attempt("move_mount", call, 429, -100, b"/tmp", -100, b"/tmp", 0)
attempt("mount_setattr", call, 442, -100, b"/usr", 0, b"\\0" * 32, 32)
attempt("limit", write, "/proc/sys/user/max_user_namespaces", "100")
"""
    )


async def test_dangerous_parts_of_the_kernel_are_closed(place: Place) -> None:
    await place.attempt(
        """
arm = os.uname().machine == "aarch64"
numbers = {"keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "kexec_load": (246, 104),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "swapon": (167, 224), "acct": (163, 89), "quotactl": (179, 60), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "syslog": (103, 116), "sethostname": (170, 161), "settimeofday": (164, 170),
    "fanotify_init": (300, 262), "memfd_create": (319, 279), "shmget": (29, 194), "mq_open": (240, 180)}
for name, pair in numbers.items():
    attempt(name, call, pair[arm], 0, 0, 0, 0, 0)
attempt("personality", call, 92 if arm else 135, 0x0400000)
attempt("sysrq", write, "/proc/sysrq-trigger", "h")
attempt("sysctl", write, "/proc/sys/kernel/core_pattern", "|/bin/false")
attempt("oom", write, "/proc/1/oom_score_adj", "-1000")
"""
    )


async def test_devices_and_terminals_are_out_of_reach(place: Place) -> None:
    outcome = await place.python('print(sorted(os.listdir("/dev"))); print(os.isatty(0), os.getsid(0) == os.getpid())')
    names, terminal, _ = outcome.stdout.splitlines()
    assert names == str(sorted(["null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout", "stderr", "shm"]))
    assert terminal == "False True"
    await place.attempt(
        """
attempt("tty", read, "/dev/tty")
attempt("character", os.mknod, "device", stat.S_IFCHR | 0o600, os.makedev(1, 1))
attempt("block", os.mknod, "device", stat.S_IFBLK | 0o600, os.makedev(8, 0))
for fd in (0, 1, 2):
    attempt("TIOCSTI", fcntl.ioctl, fd, 0x5412, b"x")
    attempt("TIOCLINUX", fcntl.ioctl, fd, 0x541C, b"x")
"""
    )


# --- network and sockets -------------------------------------------------------------------------------------------


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def was_reached(server: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError):
        server.accept()[0].close()
        return True
    return False


CONNECT = """
port = int(sys.argv[1])
attempt("tcp", lambda: socket.create_connection(("127.0.0.1", port), 2))
attempt("any", lambda: socket.create_connection(("192.0.2.1", 80), 2))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)))
attempt("raw", socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
attempt("packet", socket.socket, 17, socket.SOCK_RAW, 0)
attempt("vsock", socket.socket, 40, socket.SOCK_STREAM, 0)
attempt("netlink", socket.socket, 16, socket.SOCK_RAW, 12)
"""


@pytest.mark.parametrize("access", list(Access))
async def test_the_network_is_off(place: Place, listener: socket.socket, access: Access) -> None:
    await place.attempt(CONNECT, str(listener.getsockname()[1]), access=access)
    assert not was_reached(listener)


async def test_the_network_is_there_when_it_was_asked_for(place: Place, listener: socket.socket) -> None:
    code = 'socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5).close()'
    outcome = await place.python(code, str(listener.getsockname()[1]), network=Network.ON)
    assert outcome.exit_code == 0, outcome.stderr
    assert was_reached(listener)


async def test_programs_can_talk_to_themselves_without_network(place: Place) -> None:
    code = """
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).sendall(b"hello")
print(server.accept()[0].recv(9))
a, b = socket.socketpair(); a.send(b"pair"); print(b.recv(9))
"""
    assert (await place.python(code)).stdout == "b'hello'\nb'pair'\ntried\n"


async def test_no_kind_of_socket_pair_reaches_a_datagram_socket_outside(place: Place) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as outside:
        outside.bind(str(place.workspace / "door"))
        outside.setblocking(False)
        await place.attempt(
            """
def turn(kind): return socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b"x", "door")
for kind in socket.SocketKind: attempt(kind.name, turn, kind)
"""
        )
        with pytest.raises(BlockingIOError):
            outside.recv(9)


@pytest.mark.parametrize("network", list(Network))
async def test_unix_sockets_are_no_way_out(place: Place, network: Network) -> None:
    name = f"\0client-agent-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as by_path, socket.socket(socket.AF_UNIX) as abstract:
        by_path.bind(str(place.workspace / "door"))
        abstract.bind(name)
        for server in (by_path, abstract):
            server.listen()
            server.setblocking(False)
        await place.attempt(
            """
def connect(address): socket.socket(socket.AF_UNIX).connect(address)
def turn(address): socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", address)
def reconnect(address): socket.socketpair()[0].connect(address)
for kind, address in (("path", "door"), ("abstract", "\\0" + sys.argv[1])):
    attempt("connect " + kind, connect, address)
    attempt("datagram " + kind, turn, address)
    attempt("reconnect " + kind, reconnect, address)
attempt("bind", lambda: socket.socket(socket.AF_UNIX).bind("made"))
""",
            name[1:],
            network=network,
        )
        assert not was_reached(by_path)
        assert not was_reached(abstract)


# --- what a command is told ----------------------------------------------------------------------------------------

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
