"""Command lines from the manuals, a row each: what can do harm, and what people do all day."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from client_agent.policy.commands.tables import builtin_programs
from client_agent.policy.decision import Decision, Verdict

Decide = Callable[..., Decision]

ROWS = Path(__file__).with_name("rows")


def read_rows(name: str) -> list[list[str]]:
    return [shlex.split(line) for line in (ROWS / name).read_text("utf-8").splitlines()]


HARMFUL = read_rows("not_unasked.txt")
ORDINARY = read_rows("ordinary.txt")


def fill_in(argv: list[str], place: Path) -> list[str]:
    """The row with the places of this run in it."""
    outside = str(place / "outside")
    line = "\0".join(argv).replace("{file}", f"{outside}/secret.txt").replace("{dir}", outside)
    return line.replace("{ws}", str(place / "ws")).split("\0")


@pytest.mark.parametrize("program", [program for program, _ in groupby(row[0] for row in HARMFUL)])
def test_what_can_do_harm_never_runs_unasked(decide: Decide, place: Path, program: str) -> None:
    rows = [fill_in(row, place) for row in HARMFUL if row[0] == program]
    assert rows
    assert [shlex.join(row) for row in rows if decide(*row).verdict is Verdict.RUN] == []


@pytest.mark.parametrize("program", [program for program, _ in groupby(row[1] for row in ORDINARY)])
def test_what_people_do_all_day_gets_the_risk_it_should_and_is_never_refused(
    decide: Decide, place: Path, program: str
) -> None:
    rows = [(row[0], fill_in(row[1:], place)) for row in ORDINARY if row[1] == program]
    decided = [(shlex.join(argv), risk, decide(*argv)) for risk, argv in rows]
    wrong = [
        (line, decision.reasons)
        for line, risk, decision in decided
        if decision.risk.name != risk or decision.verdict is not (Verdict.RUN if risk == "LOW" else Verdict.ASK)
    ]
    assert decided
    assert wrong == []


def test_there_are_rows_of_both_kinds_for_every_program() -> None:
    programs = set(builtin_programs().names)
    assert {row[0] for row in HARMFUL} >= programs - {"echo"}  # which can do none
    assert {row[1] for row in ORDINARY} == programs


LOOK_UPS = ["cat", "date", "find", "grep", "head", "ls", "pwd", "tail", "wc", "whoami"]


@pytest.mark.parametrize("program", LOOK_UPS)
def test_no_option_hides_a_path_outside_that_follows_it(decide: Decide, place: Path, program: str) -> None:
    table = builtin_programs().find(program)
    assert table is not None
    outside = [str(place / "outside" / "secret.txt")] * 3  # the value of the option, the pattern of grep, and a path
    assert [name for name in ("", *table.options) if decide(program, name, *outside).verdict is Verdict.RUN] == []
