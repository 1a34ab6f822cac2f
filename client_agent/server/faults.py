"""What goes wrong on purpose: which fault, at what, how often. The same seed gives the same faults.

A plan is a TOML or JSON file, or a number alone:

    seed = 7

    [[faults]]
    kind = "cut"                    # drop, delay, duplicate, reorder, replay, cut, half_open, slow, oversized (events)
    at = "tool.execution_signal"    # drop, delay, lose_answer, code (requests) · restart, restart_empty (the server)
    after = 2                       # lets the first two pass
    times = 1
    chance = 0.5

A number stands for a plan of everything that a client must recover from, each now and then.
"""

from __future__ import annotations

import random
import tomllib
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from client_agent.errors import ConfigError


class FaultKind(StrEnum):
    """On the stream, at requests, or of the whole server."""

    DROP = "drop"  # an event is left out and the stream ends before the next; a request gets no answer and no effect
    DELAY = "delay"  # an event or a request waits for `seconds`
    DUPLICATE = "duplicate"  # an event is sent twice
    REORDER = "reorder"  # an event comes after the one that follows it, which then has no id
    REPLAY = "replay"  # events sent before are sent again
    CUT = "cut"  # the connection breaks in the middle of an event
    HALF_OPEN = "half_open"  # the stream stays open and nothing comes any more
    SLOW = "slow"  # an event comes byte by byte
    OVERSIZED = "oversized"  # an event of `bytes` comes before this one
    LOSE_ANSWER = "lose_answer"  # a request is carried out, and its answer never comes
    CODE = "code"  # a request is answered with `status` and not carried out
    RESTART = "restart"  # the server is gone for `seconds`
    RESTART_EMPTY = "restart_empty"  # the same, and it has forgotten everything


EVENT_KINDS = frozenset(
    {
        FaultKind.DROP, FaultKind.DELAY, FaultKind.DUPLICATE, FaultKind.REORDER, FaultKind.REPLAY, FaultKind.CUT,
        FaultKind.HALF_OPEN, FaultKind.SLOW, FaultKind.OVERSIZED,
    }
)  # fmt: skip
REQUEST_KINDS = frozenset({FaultKind.DROP, FaultKind.DELAY, FaultKind.LOSE_ANSWER, FaultKind.CODE})
RESTARTS = frozenset({FaultKind.RESTART, FaultKind.RESTART_EMPTY})
# What a request is called in a plan, by the end of its address.
REQUEST_NAMES = ("stream", "result", "results", "approve", "reject", "execute")


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that goes wrong. `at` is an event's name, a request's (`result`, `stream` …), or a pattern of either.

    A restart counts the requests that are taken, whatever they are, unless `at` names them.
    """

    kind: FaultKind
    at: str = "*"
    after: Annotated[int, Meta(ge=0)] = 0
    times: Annotated[int, Meta(ge=1)] | None = None
    chance: Annotated[float, Meta(gt=0, le=1)] = 1.0
    seconds: Annotated[float, Meta(ge=0, le=3600)] = 0.5
    status: Annotated[int, Meta(ge=200, le=599)] = 503
    retry_after: int | None = None
    bytes: Annotated[int, Meta(ge=1, le=2**30)] = 200_000_000


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that goes wrong in one run."""

    seed: int = 0
    faults: tuple[Fault, ...] = ()


def everything(seed: int) -> FaultPlan:
    """A little of each fault that a client must recover from without losing or repeating anything."""
    events = ("drop", "delay", "duplicate", "reorder", "replay", "cut", "slow")
    faults = [Fault(kind=FaultKind(kind), at="tool.*", chance=0.03, seconds=0.2) for kind in events]
    faults += [
        Fault(kind=FaultKind.HALF_OPEN, at="tool.*", chance=0.005),
        Fault(kind=FaultKind.DROP, at="result*", chance=0.03),
        Fault(kind=FaultKind.LOSE_ANSWER, at="result*", chance=0.03),
        Fault(kind=FaultKind.LOSE_ANSWER, at="approve", chance=0.03),
        Fault(kind=FaultKind.DELAY, at="result*", chance=0.03, seconds=0.5),
        Fault(kind=FaultKind.CODE, at="result*", chance=0.03, status=500),
        Fault(kind=FaultKind.CODE, at="approve", chance=0.03, status=502),
        Fault(kind=FaultKind.CODE, at="re*", chance=0.03, status=429, retry_after=1),
        Fault(kind=FaultKind.CODE, at="stream", chance=0.1, status=503, retry_after=1),
        Fault(kind=FaultKind.RESTART, after=20, chance=0.01, seconds=1),
    ]
    return FaultPlan(seed=seed, faults=tuple(faults))


def load_plan(source: str) -> FaultPlan:
    """The plan of this seed, or in this file. Raises ConfigError."""
    if source.lstrip("-").isdecimal():
        return everything(int(source))
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
        raw = msgspec.json.decode(text) if path.suffix == ".json" else tomllib.loads(text)
        plan = msgspec.convert(raw, FaultPlan)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except (msgspec.MsgspecError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: not a plan of faults: {error}") from None
    return plan


class Dice:
    """Decides, in order, at which occasions of a plan what goes wrong. Equal plans decide equally."""

    def __init__(self, plan: FaultPlan) -> None:
        self._rules = [_Rule(fault, plan.seed, number) for number, fault in enumerate(plan.faults)]

    def roll(self, name: str, kinds: frozenset[FaultKind]) -> Fault | None:
        """What goes wrong at this occasion: the first of the plan's faults that strikes."""
        struck = [rule.fault for rule in self._rules if rule.fault.kind in kinds and rule.strikes(name)]
        return struck[0] if struck else None


class _Rule:
    def __init__(self, fault: Fault, seed: int, number: int) -> None:
        self.fault = fault
        self._random = random.Random(f"{seed}/{number}")  # noqa: S311 - chance, not secrecy
        self._seen = 0
        self._struck = 0

    def strikes(self, name: str) -> bool:
        fault = self.fault
        if not fnmatchcase(name, fault.at):
            return False
        self._seen += 1
        lucky = self._random.random() >= fault.chance
        if lucky or self._seen <= fault.after or (fault.times is not None and self._struck >= fault.times):
            return False
        self._struck += 1
        return True


def name_request(method: str, path: str) -> str:
    """What a request is called in a plan; empty for one that no plan can name."""
    last = path.rstrip("/").rpartition("/")[2]
    return last if last in REQUEST_NAMES or method == "POST" else ""
