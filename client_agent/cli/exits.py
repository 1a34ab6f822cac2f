"""The exit codes, which scripts and supervisors may rely on (docs/cli.md)."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    FAILED = 1  # the work did not go as it should: a call failed or was refused
    USAGE = 2  # wrong arguments or configuration: trying again will not help
    NEEDS_APPROVAL = 3  # a person would have to be asked
    SERVER = 4  # the server cannot be reached or does not accept us
    ALREADY_RUNNING = 5  # another daemon uses the same state directory
    NOT_RUNNING = 6  # no daemon is running where one is needed
    INTERRUPTED = 130
