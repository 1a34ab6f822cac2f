"""Landlock: which files a command may reach, by what it may do with them, whatever the mounts say."""

from __future__ import annotations

import os
import stat
import struct

from . import syscalls

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
TRUNCATE = 1 << 14
MAKE_CHAR = 1 << 6
MAKE_SOCK = 1 << 9
MAKE_BLOCK = 1 << 11

_FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE  # the kernel refuses others for a single file

READ = EXECUTE | READ_FILE | READ_DIR
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many file rights each version knows
_SCOPE_ABSTRACT_SOCKETS = 1
_SCOPE_SIGNALS = 2
_CREATE_VERSION = 1
_RULE_PATH_BENEATH = 1
ABI_REFER = 2  # before it no file could be moved between directories
ABI_SCOPE = 6


def supported_abi() -> int:
    """The version the kernel offers; 0 when there is none."""
    try:
        return syscalls.syscall("landlock_create_ruleset", None, 0, _CREATE_VERSION)
    except OSError:
        return 0


def all_rights(abi: int) -> int:
    return (1 << _RIGHTS_BY_ABI[min(abi, 5)]) - 1


def write_rights(abi: int) -> int:
    """Everything but making devices and sockets."""
    return all_rights(abi) & ~(MAKE_CHAR | MAKE_BLOCK | MAKE_SOCK)


class Ruleset:
    """Rights for whole trees of files. Nothing is restricted until `enforce`."""

    def __init__(self, abi: int) -> None:
        self._abi = abi
        attributes = struct.pack("Q", all_rights(abi))
        if abi >= ABI_SCOPE:
            attributes = struct.pack("QQQ", all_rights(abi), 0, _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS)
        self._fd = syscalls.syscall("landlock_create_ruleset", attributes, len(attributes), 0)

    def allow(self, path_fd: int, rights: int) -> None:
        """Allows these rights on what is open here and, for a directory, on everything beneath."""
        rule = struct.pack("=Qi", rights & all_rights(self._abi), path_fd)
        syscalls.syscall("landlock_add_rule", self._fd, _RULE_PATH_BENEATH, rule, 0)

    def allow_path(self, path: str, rights: int) -> None:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            self.allow(fd, rights if stat.S_ISDIR(os.fstat(fd).st_mode) else rights & _FILE_RIGHTS)
        finally:
            os.close(fd)

    def enforce(self) -> None:
        """Restricts the calling thread and everything it starts, for good."""
        syscalls.syscall("landlock_restrict_self", self._fd, 0)
        os.close(self._fd)
