"""The exit codes, which scripts and supervisors may rely on (docs/cli.md)."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    NEEDS_APPROVAL = 3
    SERVER = 4
    ALREADY_RUNNING = 5
    NOT_RUNNING = 6
    INTERRUPTED = 130


MEANINGS = {
    Exit.OK: "All went well.",
    Exit.FAILED: "The work did not go as it should: a call failed or was refused.",
    Exit.USAGE: "Wrong arguments or configuration, or files of a newer client-agent: trying again will not help.",
    Exit.NEEDS_APPROVAL: "A person would have to be asked.",
    Exit.SERVER: "The server cannot be reached or does not accept us.",
    Exit.ALREADY_RUNNING: "Another daemon uses the same state directory.",
    Exit.NOT_RUNNING: "No daemon is running where one is needed.",
    Exit.INTERRUPTED: "Interrupted.",
}
