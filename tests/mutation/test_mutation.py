"""Mutation testing itself: which faults are made, and that tests which notice them are told from those that do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.mutation.mutants import make_mutants

ROOT = Path(__file__).parents[2]

MODULE = '''"""Words about the module."""

from collections.abc import Callable
from typing import TypeAlias

Fits: TypeAlias = Callable[[int, str], bool]
LIMIT = 5


def fits(size: int, name: str = "x") -> bool:
    """Words about the function."""
    if not name or size < 0:
        raise ValueError("a text for people")
    size -= 10
    return size <= LIMIT
'''

TESTS = """
import pytest
from room.sizes import fits

def test_the_limit():
    assert fits(15)
    assert fits(16) is False

def test_no_size():
    with pytest.raises(ValueError):
        fits(-1)
"""


ENDLESS = """
from tests.mutation import forks

def endless():
    forks.bind(cpu_s=0.1)
    while True:
        pass

for passes in (endless, lambda: 1 // 0, lambda: False, lambda: True):
    print(forks.wait(forks.start(passes)), flush=True)
"""


def test_a_mutant_is_one_small_fault(tmp_path: Path) -> None:
    module = tmp_path / "sizes.py"
    module.write_text(MODULE, encoding="utf-8")
    assert [(mutant.function, mutant.line, mutant.change) for mutant in make_mutants(module)] == [
        (None, 7, "5 → 6"),
        (None, 10, "'x' → 'x~'"),
        ("fits", 12, "not name or size < 0 → not name and size < 0"),
        ("fits", 12, "not name or size < 0 → False or size < 0"),
        ("fits", 12, "not name or size < 0 → not name or False"),
        ("fits", 12, "not name → not not name"),
        ("fits", 12, "size < 0 → size <= 0"),
        ("fits", 12, "size < 0 → size >= 0"),
        ("fits", 12, "0 → 1"),
        ("fits", 13, "raise ValueError('a text for people') → pass"),
        ("fits", 14, "size -= 10 → pass"),
        ("fits", 14, "size -= 10 → size += 10"),
        ("fits", 14, "10 → 11"),
        ("fits", 15, "return size <= LIMIT → return None"),
        ("fits", 15, "size <= LIMIT → size < LIMIT"),
        ("fits", 15, "size <= LIMIT → size > LIMIT"),
    ]


def test_what_the_tests_do_not_notice_is_told_unless_it_is_explained(tmp_path: Path) -> None:
    for name, text in {"room/sizes.py": MODULE, "tests/unit/test_sizes.py": TESTS, "docs/mutation.md": ""}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    told = run(tmp_path)
    assert told.returncode == 1, told.stderr
    assert "| all | 16 | 12 | 0 | 4 |" in told.stdout
    rows = [line.partition(" ")[2] for line in told.stdout.partition("without an explanation:\n")[2].splitlines()]
    assert "| sizes | fits | `0 → 1` |" in rows
    assert "| sizes |  | `'x' → 'x~'` |" in rows
    assert "| sizes |  | `5 → 6` |" not in rows
    (tmp_path / "docs/mutation.md").write_text("\n".join(f"{row} because |" for row in rows), encoding="utf-8")
    assert run(tmp_path).returncode == 0


def test_a_fork_that_does_not_end_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    told = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout.split() == ["timeout", "killed", "killed", "survived"]


def run(directory: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{directory}"}
    command = [sys.executable, "-m", "tests.mutation", "room"]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
