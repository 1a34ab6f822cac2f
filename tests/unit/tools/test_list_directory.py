"""What `list_directory` gives back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from client_agent.errors import AccessRefused, MissingFile


async def test_the_result_is_what_the_contract_says(ws: Path, run) -> None:
    (ws / "d").mkdir()
    (ws / "d/f.py").write_text("x = 1\n")
    os.utime(ws / "d/f.py", ns=(0, 1_700_000_000_123_456_789))
    assert await run("list_directory", path="d", pattern="*.py") == {
        "files": [
            {"name": "f.py", "path": "d/f.py", "type": "file", "size": 6, "modified": "2023-11-14T22:13:20.123Z"}
        ],
        "total_count": 1,
        "truncated": False,
        "unreadable": 0,
        "path": "d",
    }


async def test_recursion_patterns_and_the_limit(ws: Path, run) -> None:
    for name in ("a/1.txt", "a/2.txt", "b/3.txt", "b/.hidden"):
        (ws / name).parent.mkdir(exist_ok=True)
        (ws / name).touch()
    assert (await run("list_directory"))["total_count"] == 2
    whole = await run("list_directory", recursive=True)
    assert (whole["total_count"], whole["truncated"]) == (5, False)
    (ws / "c").touch()
    whole = await run("list_directory", recursive=True)
    assert (whole["total_count"], len(whole["files"]), whole["truncated"]) == (5, 5, True)
    hidden = await run("list_directory", recursive=True, pattern=".*")
    assert [file["path"] for file in hidden["files"]] == ["b/.hidden"]


async def test_names_that_are_not_text_fit_into_json(ws: Path, run) -> None:
    with open(os.fsencode(ws) + b"/\xff.txt", "wb"):
        pass
    assert [file["name"] for file in (await run("list_directory"))["files"]] == ["\\xff.txt"]


async def test_refusals_come_through(run) -> None:
    for path, kind in (("..", AccessRefused), ("/etc", AccessRefused), (".ssh", AccessRefused), ("nope", MissingFile)):
        with pytest.raises(kind):
            await run("list_directory", path=path)
