"""Decisions, and the facts they rest on."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, StrEnum
from typing import Any, TypeAlias

import msgspec


class Risk(IntEnum):
    """How much harm a call could do. Ordered: the highest of several counts."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3


class Verdict(StrEnum):
    RUN = "run"
    ASK = "ask"
    REFUSE = "refuse"


class Reason(msgspec.Struct, frozen=True):
    """One fact that a decision rests on: a stable code, and words a person understands."""

    code: str
    text: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a call may run, with the evidence. `code` is the code of the reason that settled it."""

    verdict: Verdict
    risk: Risk
    reasons: tuple[Reason, ...]
    code: str

    def to_json(self) -> dict[str, Any]:
        return {
            "decision": self.verdict.value,
            "risk": self.risk.name,
            "reasons": [reason.text for reason in self.reasons],
            "code": self.code,
        }


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """What one tool's own rules say of its parameters: a refusal that nothing overrides, or a risk with its facts."""

    risk: Risk
    reasons: tuple[Reason, ...] = ()
    refusal: Reason | None = None


def refusing(reason: Reason, risk: Risk = Risk.HIGH) -> Assessment:
    return Assessment(risk=risk, refusal=reason)


class PathKind(StrEnum):
    MISSING = "missing"
    FILE = "file"
    DIRECTORY = "directory"
    SPECIAL = "special"  # device, FIFO, socket


class PathFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the workspace found at a path when it walked there without leaving the root.

    `relative` is where the path really leads, links followed, with `/` between the parts and "." for the root itself;
    None when it leads out or nowhere that can be named. `refusal` says why the path may not be used at all.
    """

    spelled: str
    relative: str | None
    kind: PathKind
    executable: bool = False
    refusal: Reason | None = None


# Handed in by the caller: the workspace on the laptop, `paths.inspect_spelling` on the server, which has no files.
Inspect: TypeAlias = Callable[[str], PathFacts]
