"""The change that a person is asked about."""

from __future__ import annotations


def is_diff(change: str) -> bool:
    """Whether it shows all that would be written; otherwise it says why there is no comparison."""
    return change.startswith("--- ")


def count_changes(change: str) -> tuple[int, int]:
    """Lines added and removed. Only the first two lines of a diff are its head, whatever others look like."""
    lines = change.split("\n")[2:] if is_diff(change) else []
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)
