"""SQL from the named files in `sql/`: Python holds none.

A file of statements has, before each, a line `-- name: insert_call` and a sentence that says what it is for. A
migration is a numbered file that is run once, whole.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

_MARK = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_ROW = re.compile(r"(?<=VALUES )\([^)]*\)")


@cache
def load(file: str) -> dict[str, str]:
    """The statements of `sql/<file>.sql` by name."""
    _, *parts = _MARK.split((files(__package__) / "sql" / f"{file}.sql").read_text("utf-8"))
    return {name: text.strip().removesuffix(";") for name, text in zip(parts[::2], parts[1::2], strict=True)}


def several(statement: str, count: int) -> tuple[str, tuple[str, ...]]:
    """The statement for so many rows at once, and the names of the values of each, in their order."""
    [row] = _ROW.findall(statement)
    names = tuple(re.findall(r":(\w+)", row))
    rows = ", ".join([f"({', '.join('?' * len(names))})"] * count)
    return _ROW.sub(rows, statement), names


@cache
def migrations(schema: str) -> tuple[str, ...]:
    """The migrations of `sql/<schema>/`, in the order of their numbers: the first leads to version 1."""
    directory = files(__package__) / "sql" / schema
    found = sorted(entry.name for entry in directory.iterdir() if entry.name.endswith(".sql"))
    return tuple((directory / name).read_text("utf-8") for name in found)


def split(script: str) -> Iterator[str]:
    """The single statements of a script, so that all can run in one transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""
