"""The size of a change that a person is asked about."""

from __future__ import annotations


def count_changes(diff: str) -> tuple[int, int]:
    """Lines added and removed in a unified diff."""
    lines = diff.split("\n")
    added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
    return added, removed
