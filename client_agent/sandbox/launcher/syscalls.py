"""System calls that Python does not offer, each as a function that raises OSError."""

from __future__ import annotations

import ctypes
import os
from typing import Any

CLONE_VM = 0x100
CLONE_FS = 0x200
CLONE_FILES = 0x400
CLONE_NEWNS = 0x20000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
SIGCHLD = 17

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_NOEXEC = 0x8

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
OPEN_TREE_CLONE = 0x1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 0x4
FSOPEN_CLOEXEC = 0x1
FSMOUNT_CLOEXEC = 0x1
FSCONFIG_SET_FD = 5
FSCONFIG_CMD_CREATE = 6

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2

# Numbers above 423 are the same on every architecture; the older ones are not.
_SAME = {
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "mount_setattr": 442,
    "landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446,
}  # fmt: skip
_OWN = {"x86_64": {"pivot_root": 155, "keyctl": 250}, "aarch64": {"pivot_root": 41, "keyctl": 219}}
MACHINE = os.uname().machine
_NONE = (None,) * 6
NUMBERS: dict[str, int] = {**_SAME, **_OWN.get(MACHINE, {})}

# PyDLL keeps the interpreter's lock: the launcher's threads take turns anyway, and passing it on costs too much.
libc = ctypes.PyDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.syscall.argtypes = (ctypes.c_long, *(ctypes.c_void_p,) * 6)  # wide enough for every number and pointer
libc.prctl.argtypes = (ctypes.c_int, *(ctypes.c_void_p,) * 4)
libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)


def check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(name: str, *args: Any) -> int:
    return check(libc.syscall(NUMBERS[name], *args, *_NONE[len(args) :]), name)


def unshare(flags: int) -> None:
    check(libc.unshare(flags), "unshare")


def prctl(option: int, value: int, pointer: bytes | None = None) -> None:
    check(libc.prctl(option, value, pointer, None, None), "prctl")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    check(libc.mount(encoded[0], encoded[1], encoded[2], flags, encoded[3]), f"mount on {target}")


def detach(target: str) -> None:
    check(libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    syscall("pivot_root", os.fsencode(new_root), os.fsencode(put_old))


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def restrict_mount(target: str, attributes: int, *, recursive: bool = True) -> None:
    """Adds read-only, nosuid … to a mount and, unless told otherwise, to every mount beneath it."""
    wanted = _MountAttributes(attributes, 0, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    syscall("mount_setattr", AT_FDCWD, os.fsencode(target), flags, ctypes.byref(wanted), ctypes.sizeof(wanted))


def clone_mounts(path: str) -> int:
    """A detached copy of the mounts at and beneath the path."""
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE
    return syscall("open_tree", AT_FDCWD, os.fsencode(path), flags)


def attach_mounts(detached_fd: int, target: str) -> None:
    syscall("move_mount", detached_fd, b"", AT_FDCWD, os.fsencode(target), MOVE_MOUNT_F_EMPTY_PATH)
