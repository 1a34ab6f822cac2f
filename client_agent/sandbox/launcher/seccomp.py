"""The system calls that no command may make, as a seccomp filter.

A deny list: what is taken away is what changes namespaces and mounts, looks into other processes, loads code into the
kernel, changes the machine, or reaches kernel parts with a long record of holes and no use to a build or a test.
What remains is still bounded by namespaces, Landlock and missing capabilities.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable
from typing import NamedTuple

from . import syscalls

EPERM = 1
ENOSYS = 38
EAFNOSUPPORT = 97

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_IF_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_IF_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_KILL = 0x80000000
_OFFSET_NUMBER = 0
_OFFSET_ARCH = 4
_X32 = 0x40000000

NAMESPACE_FLAGS = 0x7E020000  # every CLONE_NEW* that clone() takes
CLONE_PARENT = 0x8000  # a process beside the command instead of below it: it would outlive the command unseen
SET_ID_BITS = 0o6000
TERMINAL_REQUESTS = (0x5412, 0x541C, 0x541D)  # TIOCSTI, TIOCLINUX, TIOCCONS

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_STREAM, SOCK_SEQPACKET = 1, 5


class Architecture(NamedTuple):
    audit: int
    numbers: dict[str, int]


# Same number everywhere from 424 on.
_COMMON = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "openat2": 437, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447, "process_mrelease": 448,
    "fchmodat2": 452, "lsm_set_self_attr": 460, "open_tree_attr": 467, "file_setattr": 469,
}  # fmt: skip
_X86_64 = {
    "open": 2, "ioctl": 16, "socket": 41, "socketpair": 53, "clone": 56, "mkdir": 83, "creat": 85, "chmod": 90,
    "fchmod": 91, "ptrace": 101, "syslog": 103, "mknod": 133, "uselib": 134, "personality": 135, "ustat": 136,
    "sysfs": 139, "vhangup": 153, "modify_ldt": 154, "pivot_root": 155, "_sysctl": 156, "adjtimex": 159,
    "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168,
    "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "create_module": 174,
    "init_module": 175, "delete_module": 176, "quotactl": 179, "nfsservctl": 180, "lookup_dcookie": 212,
    "clock_settime": 227, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "migrate_pages": 256,
    "openat": 257, "mkdirat": 258, "mknodat": 259, "fchmodat": 268, "unshare": 272, "move_pages": 279,
    "perf_event_open": 298, "fanotify_init": 300, "name_to_handle_at": 303, "open_by_handle_at": 304,
    "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "finit_module": 313, "memfd_create": 319, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
    "shmget": 29, "semget": 64, "msgget": 68, "mq_open": 240,
}  # fmt: skip
_AARCH64 = {
    "ioctl": 29, "mknodat": 33, "mkdirat": 34, "umount2": 39, "mount": 40, "pivot_root": 41, "nfsservctl": 42,
    "chroot": 51, "fchmod": 52, "fchmodat": 53, "openat": 56, "vhangup": 58, "quotactl": 60, "lookup_dcookie": 18,
    "acct": 89, "personality": 92, "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106,
    "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142, "sethostname": 161, "setdomainname": 162,
    "settimeofday": 170, "adjtimex": 171, "socket": 198, "socketpair": 199, "add_key": 217, "request_key": 218,
    "keyctl": 219, "clone": 220, "swapon": 224, "swapoff": 225, "migrate_pages": 238, "move_pages": 239,
    "perf_event_open": 241, "fanotify_init": 262, "name_to_handle_at": 264, "open_by_handle_at": 265,
    "clock_adjtime": 266, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
    "finit_module": 273, "memfd_create": 279, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
    "shmget": 194, "semget": 190, "msgget": 186, "mq_open": 180,
}  # fmt: skip
ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, {**_X86_64, **_COMMON}),
    "aarch64": Architecture(0xC00000B7, {**_AARCH64, **_COMMON}),
}

# Refused as if the kernel did not have them, so that programs fall back on what is allowed. The last row
# holds memory that no limit counts, or that outlives the command.
_ABSENT = (
    "clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register",
    "memfd_create", "memfd_secret", "shmget", "semget", "msgget", "mq_open",
)  # fmt: skip
# Which argument holds a file mode. A setuid file made in the workspace would be a setuid file outside as well.
_MODE_ARGUMENT = {
    "open": 2, "openat": 3, "creat": 1, "mkdir": 1, "mkdirat": 2, "mknod": 1, "mknodat": 2,
    "chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2,
}  # fmt: skip
_JUDGED_BY_ARGUMENT = ("ioctl", "socket", "socketpair", "clone", "personality", *_MODE_ARGUMENT)

# What the launcher itself still needs when it makes a cell: taken away last, on the cell's own thread.
_NEEDED_FOR_CELLS = ("unshare", "mount", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount")

Instruction = tuple[int, int, int, int]


def build_filter(machine: str, *, internet: bool) -> bytes:
    """What is refused to the launcher and so to every command. Installing this takes a fifth of a millisecond.

    A Unix socket is a door to a process outside, wherever its file lies: none can be opened, only connected pairs.
    Without `internet` no socket can be made at all.
    """
    numbers = ARCHITECTURES[machine].numbers
    program = _begin(machine)
    for name, number in numbers.items():
        if name not in _JUDGED_BY_ARGUMENT and name not in _NEEDED_FOR_CELLS:
            program += [(_IF_EQUAL, 0, 1, number), _refuse(ENOSYS if name in _ABSENT else EPERM)]
    program += _only_for(numbers["clone"], _refuse_bits(0, NAMESPACE_FLAGS | CLONE_PARENT))
    program += _only_for(numbers["ioctl"], _refuse_values(1, TERMINAL_REQUESTS))
    program += _only_for(numbers["personality"], _allow_values(0, (0, 0xFFFFFFFF)))
    program += _only_for(numbers["socket"], _allow_sockets() if internet else [_refuse(EAFNOSUPPORT)])
    program += _only_for(numbers["socketpair"], _allow_pairs())
    for name, argument in _MODE_ARGUMENT.items():
        if name in numbers:
            program += _only_for(numbers[name], _refuse_bits(argument, SET_ID_BITS))
    return _finish(program)


def build_cell_filter(machine: str) -> bytes:
    """The rest: short, since it is installed anew for every command."""
    numbers = ARCHITECTURES[machine].numbers
    program = _begin(machine)
    for name in _NEEDED_FOR_CELLS:
        program += [(_IF_EQUAL, 0, 1, numbers[name]), _refuse(EPERM)]
    return _finish(program)


def _begin(machine: str) -> list[Instruction]:
    """Another architecture's calls have other numbers: a process that makes one is killed."""
    program = [
        (_LOAD, 0, 0, _OFFSET_ARCH),
        (_IF_EQUAL, 1, 0, ARCHITECTURES[machine].audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
    ]
    return [*program, (_IF_AT_LEAST, 0, 1, _X32), _refuse(ENOSYS)] if machine == "x86_64" else program


def _finish(program: list[Instruction]) -> bytes:
    return b"".join(struct.pack("HBBI", *instruction) for instruction in [*program, (_RETURN, 0, 0, _ALLOW)])


def _refuse(errno: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | errno)


def _load_argument(index: int) -> Instruction:
    return (_LOAD, 0, 0, 16 + 8 * index)  # the low half: every judged argument is an int to the kernel


def _only_for(number: int, body: list[Instruction]) -> list[Instruction]:
    """The body, which must end in a verdict, for one system call; the others pass by."""
    return [(_IF_EQUAL, 0, len(body), number), *body]


def _refuse_bits(argument: int, bits: int) -> list[Instruction]:
    return [_load_argument(argument), (_IF_ANY_BIT, 0, 1, bits), _refuse(EPERM), (_RETURN, 0, 0, _ALLOW)]


def _refuse_values(argument: int, values: Iterable[int]) -> list[Instruction]:
    tests = [step for value in values for step in ((_IF_EQUAL, 0, 1, value), _refuse(EPERM))]
    return [_load_argument(argument), *tests, (_RETURN, 0, 0, _ALLOW)]


def _allow_values(argument: int, values: Iterable[int]) -> list[Instruction]:
    tests: list[Instruction] = []
    for value in values:
        tests += [(_IF_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    return [_load_argument(argument), *tests, _refuse(EPERM)]


def _allow_sockets() -> list[Instruction]:
    """IPv4, IPv6, and netlink only to read routes and addresses."""
    return [
        _load_argument(0),
        (_IF_EQUAL, 5, 0, AF_INET),
        (_IF_EQUAL, 4, 0, AF_INET6),
        (_IF_EQUAL, 0, 2, AF_NETLINK),
        _load_argument(2),
        (_IF_EQUAL, 1, 0, 0),
        _refuse(EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _allow_pairs() -> list[Instruction]:
    """Only those that stay with each other: datagrams, which `raw` means too, can be sent to any socket's address."""
    return [
        _load_argument(1),
        (0x54, 0, 0, 0xF),  # BPF_ALU | BPF_AND: the type without its flags
        (_IF_EQUAL, 2, 0, SOCK_STREAM),
        (_IF_EQUAL, 1, 0, SOCK_SEQPACKET),
        _refuse(EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]


def enforce(instructions: bytes) -> None:
    """Puts the filter on the calling thread and everything it starts, for good."""
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    program = struct.pack("HxxxxxxQ", len(instructions) // 8, ctypes.addressof(buffer))
    syscalls.prctl(syscalls.PR_SET_SECCOMP, syscalls.SECCOMP_MODE_FILTER, program)
