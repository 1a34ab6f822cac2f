"""Runs the tests against mutants, each in a fork of its own, so that a killed one costs a fraction of a second.

Most mutants change the body of a function. For these pytest collects once, the tests are recorded line by line, and a
fork for each puts the changed code into the living function and runs only the tests that reach its line. A mutant that
takes effect when its module loads gets a fork from before the package was imported, and all tests.

Tests that make up their examples (hypothesis) are left out: they take most of the time, and a fault that only they
notice is noticed by luck.

A fork is ended, and its mutant counted as killed, when it takes far more time than the tests took without a fault.
"""

from __future__ import annotations

import functools
import gc
import importlib.machinery
import importlib.util
import itertools
import json
import os
import sys
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.mutation import forks
from tests.mutation.forks import Outcome
from tests.mutation.mutants import Mutant
from tests.mutation.recording import Recorder, Recording

_OPTIONS = ["-x", "-s", "--tb=no", "-p", "no:cacheprovider", "-m", "not hypothesis"]
_GRACE_S = 3.0  # processor time that a mutant may take beyond three times what its tests need

Report = Callable[[Mutant, Outcome], None]


def run_mutants(mutants: Sequence[Mutant], tests: Path, report: Report) -> None:
    """Tries every mutant. Raises RuntimeError when the tests fail without any."""
    reader, writer = os.pipe()
    pid = forks.start(lambda: _run_session(mutants, tests, writer))
    os.close(writer)
    orders: dict[str, list[str]] = {}
    time_s = 0.0
    with os.fdopen(reader, encoding="utf-8") as lines:
        for told in map(json.loads, lines):
            if "mutant" in told:
                report(mutants[told["mutant"]], Outcome(told["outcome"]))
            else:
                orders, time_s = told["orders"], told["time_s"]
    if forks.wait(pid) is not Outcome.SURVIVED:
        raise RuntimeError(f"{tests}: the tests do not pass without a mutant; run pytest to see why")
    for mutant in mutants:
        if mutant.function is None:
            report(mutant, _try_loading(mutant, orders[str(mutant.path)], time_s))


def _run_session(mutants: Sequence[Mutant], tests: Path, writer: int) -> bool:
    forks.silence(1)
    session = _Session(mutants, writer)
    pytest.main([*_OPTIONS, str(tests)], plugins=[session])
    return session.is_done


class _Session:
    """A pytest plugin that runs the collected tests many times: once to record them, then once a mutant."""

    def __init__(self, mutants: Sequence[Mutant], writer: int) -> None:
        self._mutants = mutants
        self._told = os.fdopen(writer, "w", encoding="utf-8", buffering=1)
        self._recorder: Recorder | None = None
        self._test = 0
        self._began_s: list[float] = []
        self._failed = False
        self.is_done = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = session.items
        self._files = [str(item.path) for item in session.items]
        paths = {mutant.path for mutant in self._mutants}
        self._caches = _find_caches()
        self._functions = _find_functions({str(path) for path in paths})
        gc.freeze()
        recording = self._record(paths)
        if recording is None:
            return True
        orders = {str(path): recording.order_files(path) for path in paths}
        self._tell({"orders": orders, "time_s": recording.time_s(range(len(self._items)))})
        for number, mutant in enumerate(self._mutants):
            if mutant.function is not None:
                self._tell({"mutant": number, "outcome": self._try(mutant, recording)})
        self.is_done = True
        return True

    def _tell(self, told: dict[str, Any]) -> None:
        self._told.write(json.dumps(told) + "\n")

    def pytest_runtest_setup(self) -> None:
        if self._recorder is not None:
            self._recorder.note_phase("setup", self._test)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        if self._recorder is not None:
            self._recorder.note_phase("call", self._test)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    def _begin(self, test: int) -> None:
        self._test = test
        self._forget()
        self._began_s.append(time.process_time())

    def _took_s(self) -> list[float]:
        return [end - begin for begin, end in itertools.pairwise([*self._began_s, time.process_time()])]

    def _record(self, paths: set[Path]) -> Recording | None:
        """Runs every test once in a fork, so that this process stays as it is; None when one fails."""
        reader, writer = os.pipe()

        def record() -> bool:
            self._recorder = Recorder(paths)
            passed = self._run(range(len(self._items)), self._begin)
            with os.fdopen(writer, "w", encoding="utf-8") as told:
                json.dump({"reached": self._recorder.finish(self._files), "took_s": self._took_s()}, told)
            return passed

        pid = forks.start(record)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as told:
            text = told.read()
        if forks.wait(pid) is not Outcome.SURVIVED:
            return None
        return Recording.from_json(json.loads(text), self._files)

    def _run(self, tests: Sequence[int], before: Callable[[int], None] = lambda test: None) -> bool:
        """Runs these tests up to the first that fails; True when all pass."""
        for test, following in zip(tests, [*tests[1:], None], strict=True):
            before(test)
            nextitem = None if following is None else self._items[following]
            item = self._items[test]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            if self._failed:
                return False
        return True

    def _forget(self) -> None:
        """Clears what functions keep, so that it is computed anew and not by the code that was there before."""
        for cache in self._caches:
            cache.cache_clear()

    def _try(self, mutant: Mutant, recording: Recording) -> Outcome:
        tests = recording.select(mutant)

        def passes() -> bool:
            forks.bind(_GRACE_S + 3 * recording.time_s(tests))
            self._put_in(mutant)
            self._forget()
            return self._run(tests)

        return forks.wait(forks.start(passes))

    def _put_in(self, mutant: Mutant) -> None:
        for code in _codes(mutant.compile()):
            if code.co_qualname == mutant.function:
                for function in self._functions[str(mutant.path), code.co_qualname, code.co_firstlineno]:
                    function.__code__ = code


def _find_caches() -> list[Any]:
    return [found for found in gc.get_objects() if isinstance(found, functools._lru_cache_wrapper)]


def _find_functions(paths: set[str]) -> dict[tuple[str, str, int], list[types.FunctionType]]:
    """The living functions of these files, by file, name and first line."""
    found: dict[tuple[str, str, int], list[types.FunctionType]] = {}
    for function in gc.get_objects():
        if isinstance(function, types.FunctionType) and function.__code__.co_filename in paths:
            code = function.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(function)
    return found


def _codes(module: types.CodeType) -> list[types.CodeType]:
    inner = [const for const in module.co_consts if isinstance(const, types.CodeType)]
    return inner + [code for each in inner for code in _codes(each)]


def _try_loading(mutant: Mutant, files: list[str], time_s: float) -> Outcome:
    """Runs all tests in a fork in which the module is loaded with the fault in it."""

    def passes() -> bool:
        forks.bind(_GRACE_S + 3 * time_s)
        sys.meta_path.insert(0, _Finder(mutant))
        return pytest.main([*_OPTIONS, *files]) is pytest.ExitCode.OK

    return forks.wait(forks.start(passes))


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, mutant: Mutant) -> None:
        super().__init__(name, str(mutant.path))
        self._mutant = mutant

    def get_code(self, fullname: str) -> types.CodeType:
        return self._mutant.compile()


class _Finder:
    """Finds the one module that is changed."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        parts = mutant.path.relative_to(Path.cwd()).with_suffix("").parts
        self._name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = _Loader(fullname, self._mutant)
        return importlib.util.spec_from_file_location(fullname, self._mutant.path, loader=loader)
