"""A program's table, compiled for reading arguments."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import msgspec

from client_agent.policy.decision import Risk


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option: what value it takes, and what its presence means."""

    name: str
    takes: str
    risk: Risk = Risk.LOW  # what it raises the command to, at least
    why: str = ""
    refuse: bool = False
    network: bool = False
    tames: bool = False  # whether the command does more without it

    @property
    def kind(self) -> str:
        return self.takes.removesuffix("?")

    @property
    def optional(self) -> bool:
        return self.takes.endswith("?")


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """One program or sub-command."""

    name: str
    does: str
    risk: Risk
    network: bool = False
    style: str
    operands: tuple[str, ...] = ()
    repeats: bool = False  # whether the last kind of operand may come any number of times
    first_given_by: frozenset[str] = frozenset()  # options that take the place of the first operand
    options: dict[str, Option] = {}
    digits: Option | None = None  # a number behind a dash, as in `head -5`
    public: tuple[str, ...] = ()  # directories of the system that this program may be pointed at
    sub: dict[str, Program] = {}
    unknown_sub: str = ""
    modules: bool = False  # whether a sub-command that is not known may be a module of the workspace

    def operand_kind(self, position: int) -> str | None:
        """What the operand at this position is; None when there should be none."""
        if position < len(self.operands):
            return self.operands[position]
        return self.operands[-1] if self.repeats else None


class Programs:
    """The programs that may be run, by their exact names."""

    def __init__(self, by_name: Mapping[str, Program]) -> None:
        self._by_name = dict(by_name)

    def find(self, name: str) -> Program | None:
        return self._by_name.get(name)

    def nearest(self, name: str) -> str | None:
        """The allowed name that a person may have meant."""
        return next(iter(difflib.get_close_matches(name[:64].casefold(), self._by_name)), None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)
