"""Other processes: seeing, touching and outliving them."""

from __future__ import annotations

import asyncio
import os

from client_agent.sandbox import Access
from tests.security.sandbox.place import Place


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
