"""Mutation testing of one room: `python -m tests.mutation client_agent/policy [--sample N] [--seed S]`.

Prints every mutant that its tests do not notice. Ends with 1 where one of them is not explained in docs/mutation.md.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

from tests.mutation.forks import Outcome
from tests.mutation.mutants import Mutant, make_mutants
from tests.mutation.session import run_mutants

EXPLANATIONS = Path("docs/mutation.md")


def main() -> int:
    options = _parse()
    room: Path = options.room
    mutants = [mutant for path in _find_modules(room) for mutant in make_mutants(path.resolve())]
    if options.sample is not None:
        mutants = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    tests = options.tests or Path("tests/unit", *room.with_suffix("").parts[1:2])
    outcomes: dict[Mutant, Outcome] = {}
    started = time.monotonic()

    def report(mutant: Mutant, outcome: Outcome) -> None:
        outcomes[mutant] = outcome
        if outcome is Outcome.SURVIVED:
            _say(f"{_place(mutant)}:{mutant.line} {to_row(mutant)}")
        elif len(outcomes) % 100 == 0:
            _say(f"… {len(outcomes)} of {len(mutants)} mutants, {time.monotonic() - started:.0f} s")

    run_mutants(mutants, tests, report)
    return _summarise(outcomes, time.monotonic() - started)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("room", type=Path, help="a directory of the package, or one module of it")
    parser.add_argument("--tests", type=Path, help="the tests that must notice (default: those of the room)")
    parser.add_argument("--sample", type=int, metavar="N", help="only so many mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the choice")
    return parser.parse_args()


def _find_modules(room: Path) -> list[Path]:
    return sorted(room.rglob("*.py")) if room.is_dir() else [room]


def _place(mutant: Mutant) -> Path:
    return mutant.path.relative_to(Path.cwd())


def to_row(mutant: Mutant) -> str:
    """How a row about this mutant begins in the table of explanations; lines move, and are left out."""
    change = mutant.change.replace("|", "\\|")
    return f"| {mutant.path.stem} | {mutant.function or ''} | `{change}` |"


def _summarise(outcomes: dict[Mutant, Outcome], took_s: float) -> int:
    _say("| module | mutants | killed | of these by time | survived |")
    _say("|---|--:|--:|--:|--:|")
    total: Counter[Outcome] = Counter()
    for path in sorted({_place(mutant) for mutant in outcomes}):
        counted = Counter(outcome for mutant, outcome in outcomes.items() if _place(mutant) == path)
        total += counted
        _say(_count_row(str(path), counted))
    _say(_count_row("all", total))
    survivors = [mutant for mutant, outcome in outcomes.items() if outcome is Outcome.SURVIVED]
    known = EXPLANATIONS.read_text("utf-8") if EXPLANATIONS.exists() else ""
    unexplained = [mutant for mutant in survivors if to_row(mutant) not in known]
    _say(f"{took_s:.0f} s; {len(survivors)} survived, {len(unexplained)} of them without an explanation:")
    for mutant in unexplained:
        _say(f"{_place(mutant)}:{mutant.line} {to_row(mutant)}")
    return 1 if unexplained else 0


def _count_row(name: str, counted: Counter[Outcome]) -> str:
    timed_out, survived = counted[Outcome.TIMEOUT], counted[Outcome.SURVIVED]
    killed = counted[Outcome.KILLED] + timed_out
    return f"| {name} | {killed + survived} | {killed} | {timed_out} | {survived} |"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
