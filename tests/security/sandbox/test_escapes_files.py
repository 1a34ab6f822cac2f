"""Ways out through files: paths, links, hard links, setuid bits."""

from __future__ import annotations

import os
import stat
import threading

from client_agent.sandbox import Access
from tests.security.sandbox.place import SECRET, Place


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
