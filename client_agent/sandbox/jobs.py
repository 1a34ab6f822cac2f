"""What is to be run, how far it may go, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

MEGABYTE = 1_000_000
GIBIBYTE = 1 << 30


class Access(StrEnum):
    """What a command may do to the workspace."""

    READ_ONLY = "read_only"
    WRITABLE = "writable"


class Network(StrEnum):
    OFF = "off"
    ON = "on"


class Stdin(StrEnum):
    EMPTY = "empty"
    PIPE = "pipe"  # for a process in the background, which is written to


class Ending(StrEnum):
    """Why a command is no longer running."""

    EXITED = "exited"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    STOPPED = "stopped"  # the sandbox was closed
    MEMORY = "memory"
    PROCESSES = "processes"
    CPU = "cpu"
    FILE_SIZE = "file_size"
    OUTPUT = "output"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Upper bounds for every command of a workspace. `processes` and `memory_bytes` hold for a command as a whole."""

    wall_s: float = 30
    output_bytes: int = MEGABYTE  # kept for the result, both streams together
    output_total_bytes: int = 8 * GIBIBYTE  # written before the command is ended
    spool_bytes: int = 64 * MEGABYTE
    memory_bytes: int = 4 * GIBIBYTE
    tmp_bytes: int = GIBIBYTE
    processes: int = 512
    open_files: int = 4096
    file_bytes: int = 2 * GIBIBYTE
    cpu_s: int = 300


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One command. `argv[0]` is the absolute path that `Sandbox.find_program` gave; `directory` lies in the workspace.

    `environment` adds to the few variables every command gets; nothing of the daemon's own is passed on.
    """

    argv: tuple[str, ...]
    access: Access
    network: Network = Network.OFF
    directory: str = "."
    wall_s: float | None = None
    environment: Mapping[str, str] = {}
    stdin: Stdin = Stdin.EMPTY
    is_lasting: bool = False  # goes on while the user does other things: git's own directories are read-only to it
    spool: Path | None = None  # files begin with this name when the output is more than fits the result


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a command. The texts are valid UTF-8 and within the limit, whatever was written."""

    ended_by: Ending
    exit_code: int | None  # None when it did not exit by itself
    signal: str | None  # the name of the signal that ended it, where one did
    stdout: str
    stderr: str
    truncated: bool
    duration_s: float
    spooled: tuple[Path, ...] = ()
    withheld: tuple[str, ...] = ()  # variables of the user's that the program might miss


class Ended(msgspec.Struct, frozen=True):
    """A command's wait status, and the limit it ran into, if any. `failed_errno` when it could not even be started."""

    status: int
    reason: str
    failed_errno: int = 0


class Mechanism(msgspec.Struct, frozen=True, kw_only=True):
    """What confines commands here, by name, and which of the promises it cannot keep."""

    name: str
    parts: tuple[str, ...]
    gaps: tuple[str, ...] = ()
    accesses: tuple[Access, ...] = (Access.READ_ONLY, Access.WRITABLE)


class NoMechanism(msgspec.Struct, frozen=True, kw_only=True):
    """Why nothing can be run here, and what the user can do about it."""

    reason: str
    remedy: str
