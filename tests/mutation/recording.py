"""Which tests reach which lines, and how long each of them takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import coverage

from tests.mutation.mutants import Mutant


class Recorder:
    """Records the lines that run while a test is set up and called."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = sorted(set(paths))
        self._coverage = coverage.Coverage(data_file=None, config_file=False, include=[str(p) for p in self._paths])
        self._coverage.start()

    def note_phase(self, phase: str, test: int) -> None:
        self._coverage.switch_context(f"{phase} {test}")

    def finish(self, files: list[str]) -> dict[str, dict[int, list[int]]]:
        """The tests that reach each line of each module. What a fixture reaches counts for its whole file of tests."""
        self._coverage.stop()
        data = self._coverage.get_data()
        return {
            str(path): {
                line: _reaching(contexts, files) for line, contexts in data.contexts_by_lineno(str(path)).items()
            }
            for path in self._paths
        }


def _reaching(contexts: list[str], files: list[str]) -> list[int]:
    called = {int(context.split()[1]) for context in contexts if context.startswith("call")}
    set_up = {files[int(context.split()[1])] for context in contexts if context.startswith("setup")}
    return sorted(called | {test for test, file in enumerate(files) if file in set_up})


class Recording:
    """What was recorded, as the tests for a mutant are chosen from it."""

    def __init__(self, reached: dict[str, dict[str, list[int]]], took_s: list[float], files: list[str]) -> None:
        self._reached = reached
        self._took_s = took_s
        self._files = files

    @classmethod
    def from_json(cls, told: dict[str, Any], files: list[str]) -> Recording:
        return cls(told["reached"], told["took_s"], files)

    def time_s(self, tests: Iterable[int]) -> float:
        return sum(self._took_s[test] for test in tests)

    def select(self, mutant: Mutant) -> list[int]:
        """The tests that reach a mutant's lines: file by file, the quickest first."""
        lines = self._reached[str(mutant.path)]
        first, last = mutant.lines
        tests = {test for line in range(first, last + 1) for test in lines.get(str(line), ())}
        by_file: dict[str, float] = defaultdict(float)
        for test in tests:
            by_file[self._files[test]] += self._took_s[test]
        return sorted(tests, key=lambda test: (by_file[self._files[test]], self._files[test], self._took_s[test]))

    def order_files(self, path: Path) -> list[str]:
        """All files of tests, first those that reach the most of this module in the least time."""
        time_s: dict[str, float] = defaultdict(float)
        for test, file in enumerate(self._files):
            time_s[file] += self._took_s[test]
        lines: dict[str, int] = defaultdict(int)
        for tests in self._reached[str(path)].values():
            for file in {self._files[test] for test in tests}:
                lines[file] += 1
        return sorted(time_s, key=lambda file: -lines[file] / time_s[file])
