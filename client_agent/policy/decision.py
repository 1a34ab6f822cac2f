"""Decisions, and the facts they rest on."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum, StrEnum, auto
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


class CallClass(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that are of one kind with this one, for "allow this kind for the session".

    `label` is shown to people: "git commit", "npm run build", "write_file *.py". `exact` is what must be the same word
    for word, since it says what is executed. `options` are those that do more than the call would without them, and
    `tamed` those that keep it from doing more: "--dry-run".
    """

    label: str
    risk: Risk
    options: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()
    tamed: tuple[str, ...] = ()
    network: bool = False

    def to_text(self) -> str:
        """The class in one line of text, to be stored with a grant."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_text(cls, text: str) -> CallClass:
        return msgspec.json.decode(text, type=cls)

    def covers(self, other: CallClass) -> bool:
        """Whether who allows this class has allowed the other call: no riskier, and nothing in it that was not seen."""
        return (
            self.label == other.label
            and self.exact == other.exact
            and set(other.options) <= set(self.options)
            and set(self.tamed) <= set(other.tamed)
            and other.risk <= self.risk
            and other.network <= self.network
        )


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a call may run, with the evidence. `code` is the code of the reason that settled it.

    `network`: the call needs the network, and whoever is asked must be told. `read_only`: it must be given a view of
    the workspace in which nothing can be written. `rule_id`: the rule that matched. `call_class`: what a grant for the
    session would cover. `grant_id`: the grant that did.
    """

    verdict: Verdict
    risk: Risk
    reasons: tuple[Reason, ...]
    code: str
    network: bool = False
    read_only: bool = False
    rule_id: str | None = None
    call_class: CallClass | None = None
    grant_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "decision": self.verdict.value,
            "risk": self.risk.name,
            "reasons": [reason.text for reason in self.reasons],
            "code": self.code,
        }
        if self.network:
            told["network"] = True
        if self.rule_id is not None:
            told["rule_id"] = self.rule_id
        return told


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """What one tool's own rules say of its parameters: a refusal that nothing overrides, or a risk with its facts."""

    risk: Risk
    reasons: tuple[Reason, ...] = ()
    refusal: Reason | None = None
    network: bool = False
    read_only: bool = False
    call_class: CallClass | None = None
    path: str | None = None  # where a file tool's path really leads, for rules on paths


def refusing(reason: Reason, risk: Risk = Risk.HIGH) -> Assessment:
    return Assessment(risk=risk, refusal=reason)


class PathKind(Enum):
    MISSING = auto()
    FILE = auto()
    DIRECTORY = auto()
    SPECIAL = auto()  # device, FIFO, socket


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
