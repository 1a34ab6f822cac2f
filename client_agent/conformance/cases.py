"""What a case is, how it is judged, and how all of them are run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Generic, TypeAlias, TypeVar

import msgspec

C = TypeVar("C")
Check: TypeAlias = Callable[[C], Awaitable[str]]


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"  # could not be tried here; `seen` says why


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    case: str
    says: str  # what the protocol says
    verdict: Verdict
    seen: str


class Deviation(Exception):
    """The other side did not do what the protocol says; the message is what it did."""


class NotTried(Exception):
    """The case does not apply here, or something it needs is missing."""


def expect(holds: bool, seen: object) -> None:
    """Raises Deviation with what was seen."""
    if not holds:
        raise Deviation(str(seen))


class Suite(Generic[C]):
    """The cases for one kind of peer, in the order in which they were written."""

    def __init__(self, before: Callable[[C], Awaitable[None]] | None = None) -> None:
        self._cases: list[tuple[str, str, Check[C]]] = []
        self._before = before

    def __len__(self) -> int:
        return len(self._cases)

    def case(self, check: Check[C]) -> Check[C]:
        """Adds a function: its name names the case, its docstring is what the protocol says, it returns what it saw."""
        name = getattr(check, "__name__", "")
        self._cases.append((name.replace("_", "-"), " ".join((check.__doc__ or "").split()), check))
        return check

    async def run(self, context: C, *, only: str = "*", timeout_s: float = 120) -> AsyncIterator[Outcome]:
        """Tries the cases whose names match, one after another."""
        for name, says, check in self._cases:
            if fnmatchcase(name, only):
                verdict, seen = await _judge(self._try(check, context), timeout_s)
                yield Outcome(case=name, says=says, verdict=verdict, seen=seen)

    async def _try(self, check: Check[C], context: C) -> str:
        if self._before is not None:
            await self._before(context)
        return await check(context)


async def _judge(trying: Awaitable[str], timeout_s: float) -> tuple[Verdict, str]:
    try:
        async with asyncio.timeout(timeout_s):
            return Verdict.PASSED, await trying
    except NotTried as reason:
        return Verdict.SKIPPED, str(reason)
    except Deviation as deviation:
        return Verdict.FAILED, str(deviation)
    except TimeoutError:
        return Verdict.FAILED, f"nothing came within {timeout_s:g} s"
    except Exception as error:  # noqa: BLE001 - whatever the other side makes us stumble over is its failure
        return Verdict.FAILED, f"{type(error).__name__}: {str(error) or 'no answer came'}"
