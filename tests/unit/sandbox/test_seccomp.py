"""The system call filters, judged by a small interpreter of the few instructions they use."""

from __future__ import annotations

import struct

import pytest

from client_agent.sandbox.launcher.seccomp import (
    ARCHITECTURES,
    EAFNOSUPPORT,
    ENOSYS,
    EPERM,
    build_cell_filter,
    build_filter,
)

ALLOW, KILL = 0x7FFF0000, 0x80000000
MACHINES = sorted(ARCHITECTURES)


def judge(program: bytes, machine: str, number: int, *arguments: int, audit: int | None = None) -> int:
    """What the kernel would do: an errno, ALLOW or KILL."""
    data = struct.pack(
        "=iIQ6Q",
        number,
        ARCHITECTURES[machine].audit if audit is None else audit,
        0,
        *arguments[:6],
        *(0,) * (6 - len(arguments)),
    )
    accumulator, position = 0, 0
    instructions = list(struct.iter_unpack("HBBI", program))
    while True:
        code, if_true, if_false, operand = instructions[position]
        position += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, operand)
        elif code == 0x54:
            accumulator &= operand
        elif code == 0x06:
            return operand & 0xFFFF if operand & 0x7FFF0000 == 0x00050000 else operand
        else:
            holds = {0x15: accumulator == operand, 0x35: accumulator >= operand, 0x45: bool(accumulator & operand)}[
                code
            ]
            position += if_true if holds else if_false


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def both(machine: str, name: str, *arguments: int) -> list[int]:
    """What the launcher's filter and the cell's say of a call."""
    number = ARCHITECTURES[machine].numbers[name]
    programs = build_filter(machine, internet=True), build_cell_filter(machine)
    return [judge(program, machine, number, *arguments) for program in programs]


def test_everything_named_is_refused_by_one_of_the_two(machine: str) -> None:
    by_argument = {"open", "openat", "creat", "mkdir", "mkdirat", "mknod", "mknodat", "chmod", "fchmod", "fchmodat"}
    by_argument |= {"fchmodat2", "ioctl", "socket", "socketpair", "clone", "personality"}
    for name in ARCHITECTURES[machine].numbers:
        if name not in by_argument:
            assert set(both(machine, name)) & {EPERM, ENOSYS}, name


def test_ordinary_calls_pass(machine: str) -> None:
    read_write_execve_exit_mmap = {"x86_64": (0, 1, 59, 231, 9), "aarch64": (63, 64, 221, 94, 222)}
    for number in read_write_execve_exit_mmap[machine]:
        assert judge(build_filter(machine, internet=True), machine, number) == ALLOW
        assert judge(build_cell_filter(machine), machine, number) == ALLOW


def test_the_launcher_may_still_make_cells(machine: str) -> None:
    for name in ("unshare", "mount", "fsopen", "fsconfig", "fsmount", "move_mount", "open_tree"):
        assert both(machine, name) == [ALLOW, EPERM]


def test_threads_may_be_made_and_namespaces_not(machine: str) -> None:
    assert both(machine, "clone", 0x3D0F00) == [ALLOW, ALLOW]
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert both(machine, "clone", flag | 17)[0] == EPERM
    assert both(machine, "clone3")[0] == ENOSYS


def test_set_id_bits_are_refused_wherever_a_mode_is_given(machine: str) -> None:
    places = {"openat": 3, "mkdirat": 2, "mknodat": 2, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
    if machine == "x86_64":
        places |= {"open": 2, "creat": 1, "mkdir": 1, "mknod": 1, "chmod": 1}
    for name, place in places.items():
        for mode, verdict in ((0o755, ALLOW), (0o1777, ALLOW), (0o4755, EPERM), (0o2755, EPERM), (0o6000, EPERM)):
            arguments = [0] * 6
            arguments[place] = mode
            assert both(machine, name, *arguments)[0] == verdict, name


def test_only_harmless_sockets_can_be_made(machine: str) -> None:
    for family, protocol, verdict in (
        (2, 0, ALLOW), (10, 0, ALLOW), (16, 0, ALLOW), (16, 12, EAFNOSUPPORT), (16, 15, EAFNOSUPPORT),
        (1, 0, EAFNOSUPPORT), (17, 0, EAFNOSUPPORT), (40, 0, EAFNOSUPPORT), (38, 0, EAFNOSUPPORT), (0, 0, EAFNOSUPPORT),
    ):  # fmt: skip
        assert both(machine, "socket", family, 1, protocol)[0] == verdict
    number = ARCHITECTURES[machine].numbers["socket"]
    assert judge(build_filter(machine, internet=False), machine, number, 2, 1, 0) == EAFNOSUPPORT


def test_pairs_must_be_connected_for_good(machine: str) -> None:
    assert both(machine, "socketpair", 1, 1 | 0o2000000)[0] == ALLOW
    assert both(machine, "socketpair", 1, 5)[0] == ALLOW
    assert both(machine, "socketpair", 1, 2 | 0o2000000)[0] == EPERM


def test_typing_into_terminals_is_refused(machine: str) -> None:
    assert both(machine, "ioctl", 0, 0x5401)[0] == ALLOW
    for request in (0x5412, 0x541C, 0x541D, 0xFFFFFFFF00005412):
        assert both(machine, "ioctl", 0, request)[0] == EPERM


def test_another_architectures_calls_kill(machine: str) -> None:
    for program in (build_filter(machine, internet=True), build_cell_filter(machine)):
        assert judge(program, machine, 0, audit=0x40000003) == KILL


def test_the_x32_calls_do_not_exist() -> None:
    assert judge(build_filter("x86_64", internet=True), "x86_64", 0x40000000 + 101) == ENOSYS


def test_filters_fit_the_kernel(machine: str) -> None:
    for program in (build_filter(machine, internet=True), build_cell_filter(machine)):
        assert len(program) // 8 < 4096
