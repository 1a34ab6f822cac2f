"""Times as people write them: 90s, 30m, 2h, 1d."""

from __future__ import annotations

import re

from client_agent.cli.printing import fail

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def find_seconds(text: str) -> float | None:
    """How long that is; None when it is no such text."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", text.strip(), re.ASCII)
    return float(int(match[1]) * _UNITS[match[2]]) if match is not None and int(match[1]) else None


def read_seconds(option: str, text: str) -> float:
    """How long the value of this option is; ends the program with a word about it when it is no time."""
    found = find_seconds(text)
    if found is None:
        fail(f"{option}: found {text!r}, expected a time such as 90s, 30m, 2h or 1d")
    return found
