"""Namespaces, mounts, devices, and parts of the kernel that no build or test needs."""

from __future__ import annotations

from tests.security.sandbox.place import Place


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
