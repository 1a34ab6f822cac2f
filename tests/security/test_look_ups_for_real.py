"""Random arguments for the programs that need no question: what is let through is run, and shows nothing of outside.

The programs run unconfined here, so that the decision alone is tried. Options are those that the installed programs
name themselves, alone, abbreviated, in clusters and with paths attached.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from client_agent.config import local_workspace
from client_agent.policy.decision import Verdict
from client_agent.policy.judge import Judge
from client_agent.policy.paths import Protection
from client_agent.protocol.calls import Call
from client_agent.workspace.root import Root

PROGRAMS = ["cat", "date", "find", "grep", "head", "ls", "tail", "wc"]
TRIES = 3_000
SECRET = b"what nobody may see"
INSIDE = ["a.txt", "src", ".", "inner", "x", "5", "+1", "", "--", "-", "%f"]
OUTSIDE = [
    "../outside",
    "../outside/kept",
    "link",
    "link/.",
    "link/kept",
    "inner/../../outside",
    "..",
    "/proc/self/cwd/..",
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace `ws` with links out of it, and `outside` beside it."""
    (tmp_path / "ws/src").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").write_bytes(SECRET)
    (tmp_path / "ws/a.txt").write_text("x 5\n", encoding="utf-8")
    os.symlink("../outside", tmp_path / "ws/link")
    os.symlink("src", tmp_path / "ws/inner")
    return tmp_path.resolve()


def read_options(program: str) -> list[str]:
    """The options that the installed program names in its help."""
    told = subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout
    return sorted(set(re.findall(r"(?<![\w-])--?[a-zA-Z0-9][a-zA-Z0-9-]*", told)))


def make_words(chance: random.Random, options: list[str], outside: list[str]) -> list[str]:
    """An option with or without a value, or an operand."""
    option = chance.choice(options)
    letters = "-" + "".join(chance.choices([name[1] for name in options if len(name) == len("-x")] or ["x"], k=2))
    path = chance.choice(outside)
    abbreviated = option[: chance.randint(2, len(option))]
    ways = [[option], [option, path], [option + path], [f"{option}={path}"], [abbreviated, path]]
    ways += [[letters], [letters, path], [letters + path], [path], [chance.choice(INSIDE)], [chance.choice(INSIDE)]]
    return chance.choice(ways)


def make_commands(place: Path, program: str) -> Iterator[list[str]]:
    chance = random.Random(program)
    options = read_options(program)
    outside = [*OUTSIDE, str(place / "outside"), str(place / "outside/kept")]
    for _ in range(TRIES):
        parts = [make_words(chance, options, outside) for _ in range(chance.randint(1, 3))]
        yield [program, *(word for part in parts for word in part)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_needs_no_question_shows_and_changes_nothing_outside(place: Path, program: str) -> None:
    judge = Judge(local_workspace(place / "ws"))
    root = Root(place / "ws", Protection())
    ran = 0
    for argv in make_commands(place, program):
        call = Call(tool_id="t", tool_name="execute_command", tool_params={"command": argv[0], "args": argv[1:]})
        if judge.decide(call, root.inspect).verdict is Verdict.RUN:
            done = subprocess.run(
                argv, cwd=place / "ws", stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
            )
            named = any("kept" in word for word in argv)  # programs repeat what they do not understand
            assert SECRET not in done.stdout + done.stderr, argv
            assert named or b"kept" not in done.stdout + done.stderr, argv
            ran += 1
    root.close()
    assert ran > TRIES // 100
    assert sorted(path.name for path in place.rglob("*")) == ["a.txt", "inner", "kept", "link", "outside", "src", "ws"]
    assert (place / "outside/kept").read_bytes() == SECRET
