"""The file system a command sees: built once for a launcher, from nothing, in the launcher's own mount namespace."""
# Nothing is imported that can be spared; /tmp is the one being made.
# ruff: noqa: PTH102, PTH103, PTH106, PTH110, PTH112, PTH114, PTH116, PTH120, PTH211, S108

from __future__ import annotations

import fcntl
import os
import struct
from typing import Any

from . import syscalls
from .syscalls import (
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_RDONLY,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
)

DEVICES = ("null", "zero", "full", "random", "urandom")
_OLD = "/.old"
_NOTHING_FILE = "/.nothing"  # unreadable: what takes the place of a hidden file
_NOTHING_DIRECTORY = "/.nothing.d"
_EMPTY_DIRECTORY = "/.empty.d"  # readable: what takes the place of a directory that must not come to be
_READ_ONLY = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def build_root(plan: dict[str, Any]) -> bool:
    """Replaces the root by one that holds what the plan names and nothing else. False when there can be no /proc."""
    syscalls.mount("none", "/", None, MS_REC | MS_PRIVATE)
    syscalls.mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=32m")
    os.mkdir("/tmp" + _OLD)
    syscalls.pivot_root("/tmp", "/tmp" + _OLD)
    os.chdir("/")
    _make_nothings()
    for path, data in plan["files"]:
        _write(path, data)
    for path, target in plan["links"]:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)
    workspace = plan["workspace"]
    for path in sorted({*plan["read_only"], workspace}):
        if path == workspace:
            _bind_workspace(plan)
        else:
            _bind(path, _READ_ONLY)
    _make_devices()
    for directory in ("/proc", "/tmp", "/run", "/var"):
        os.makedirs(directory, exist_ok=True)
    has_proc = plan["proc"] != "none" and _mount_proc()
    syscalls.detach(_OLD)
    os.rmdir(_OLD)
    return has_proc


def seal_root() -> None:
    """Makes the root itself read-only, once nothing is left to be made in it."""
    syscalls.restrict_mount("/", MOUNT_ATTR_RDONLY, recursive=False)


def _make_nothings() -> None:
    os.close(os.open(_NOTHING_FILE, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0))
    os.mkdir(_NOTHING_DIRECTORY, 0)
    os.mkdir(_EMPTY_DIRECTORY, 0o555)


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644)
    os.write(fd, data)
    os.close(fd)


def _bind(path: str, attributes: int) -> None:
    """Shows a file or directory of the machine at its own place."""
    source = _OLD + path
    if os.path.isdir(source):
        os.makedirs(path, exist_ok=True)
    elif not os.path.exists(path):
        _write(path, b"")
    syscalls.mount(source, path, None, MS_BIND | MS_REC)
    syscalls.restrict_mount(path, attributes)


def _bind_workspace(plan: dict[str, Any]) -> None:
    workspace = plan["workspace"]
    _bind(workspace, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
    found = os.stat(workspace)
    if (found.st_dev, found.st_ino) != tuple(plan["workspace_id"]):
        raise OSError(f"{workspace} is no longer the directory it was")
    for path in plan["pinned"]:  # a mount point can be neither renamed nor removed
        syscalls.mount(path, path, None, MS_BIND | MS_REC)
    for path in plan["locked"]:
        syscalls.mount(path, path, None, MS_BIND | MS_REC)
        syscalls.restrict_mount(path, _READ_ONLY)
    for path in plan["barred"]:
        _cover(path, _EMPTY_DIRECTORY)
    for path in plan["hidden"]:
        _cover(path, _NOTHING_DIRECTORY)
    if not plan["writable"]:
        syscalls.restrict_mount(workspace, _READ_ONLY)


def _cover(path: str, directory: str) -> None:
    """Puts nothing in the place of what is there. What has gone meanwhile needs no cover."""
    try:
        if os.path.islink(path):
            _cover_link(path)
        else:
            syscalls.mount(directory if os.path.isdir(path) else _NOTHING_FILE, path, None, MS_BIND)
        syscalls.restrict_mount(path, _READ_ONLY)
    except FileNotFoundError:
        return


def _cover_link(path: str) -> None:
    """On the link itself: if it could be removed, nothing would tell any more that what it leads to is a secret."""
    nothing = syscalls.clone_mounts(_NOTHING_FILE)
    syscalls.attach_mounts(nothing, path)
    os.close(nothing)


def _make_devices() -> None:
    os.makedirs("/dev", exist_ok=True)
    for name in DEVICES:
        _write("/dev/" + name, b"")
        syscalls.mount(f"{_OLD}/dev/{name}", "/dev/" + name, None, MS_BIND)
        syscalls.restrict_mount("/dev/" + name, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink("/proc/self/" + target, "/dev/" + name)
    if not os.path.exists("/dev/shm"):  # unless the workspace lies there
        os.symlink("/tmp", "/dev/shm")


def _mount_proc() -> bool:
    """The launcher's own /proc. No command sees it; without one here the kernel lets no other be mounted later."""
    try:
        syscalls.mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    except PermissionError:
        return False
    return True


def raise_loopback() -> None:
    """Lets programs in an empty network namespace talk to themselves."""
    import _socket

    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM, 0)
    request = struct.pack("16sH22x", b"lo", 0)
    flags = struct.unpack("16sH22x", fcntl.ioctl(probe.fileno(), _SIOCGIFFLAGS, request))[1]
    fcntl.ioctl(probe.fileno(), _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | _IFF_UP))
    probe.close()
