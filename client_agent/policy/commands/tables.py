"""Program tables, compiled. The built-in ones are TOML files, one a program, in `policy/programs`.

A user's table may add a program, and to a built-in one sub-commands and options. What the built-in table says already
can only become stricter: of two risks for the same thing the higher counts.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import get_args

import msgspec

from client_agent.config import OptionSet, ProgramTable, ValueKind
from client_agent.errors import ConfigError
from client_agent.policy.commands.program import Option, Program, Programs
from client_agent.policy.decision import Risk

_KINDS = frozenset(get_args(ValueKind))
_REPEATED = "..."
_DIGITS = "-#"  # how a table writes a number behind a dash


@cache
def builtin_tables() -> dict[str, ProgramTable]:
    """The tables that come with this program, by name and alias."""
    return read_tables(resources.files("client_agent.policy") / "programs")


def read_tables(directory: Traversable) -> dict[str, ProgramTable]:
    """The tables of a directory, by name and alias, in the order of their names; other files are none of ours."""
    names = sorted(entry.name for entry in directory.iterdir())
    texts = {name: (directory / name).read_text("utf-8") for name in names if name.endswith(".toml")}
    return _with_aliases(
        {name.removesuffix(".toml"): msgspec.convert(tomllib.loads(text), ProgramTable) for name, text in texts.items()}
    )


def _with_aliases(tables: Mapping[str, ProgramTable]) -> dict[str, ProgramTable]:
    return {name: table for key, table in tables.items() for name in (key, *table.aliases)}


@cache
def builtin_programs() -> Programs:
    return Programs({name: compile_table(name, table) for name, table in builtin_tables().items()})


def compile_table(name: str, table: ProgramTable, added: ProgramTable | None = None) -> Program:
    """The table, with what the user adds to it, ready for use. Raises ConfigError for one that cannot be used."""
    tables = (table,) if added is None else (table, added)
    sets = {key: value for each in reversed(tables) for key, value in each.sets.items()}
    return _Compiler(sets).compile(name, tables, None)


class _Compiler:
    """Compiles one program's tables and its sub-commands'. The first table counts, the others add to it."""

    def __init__(self, sets: Mapping[str, OptionSet]) -> None:
        self._sets = sets

    def compile(self, name: str, tables: Sequence[ProgramTable], parent: Program | None) -> Program:
        first, *added = tables
        program = _bare_program(name, first, parent)
        options = self._options(name, first)
        for table in added:
            program = _tightened(program, table)
            for key, option in self._options(name, table).items():
                options[key] = _stricter(options[key], option) if key in options else option
        if parent is not None and parent.style == "gnu":
            options = {**parent.options, **options}
        program = msgspec.structs.replace(program, digits=options.pop(_DIGITS, None), options=options)
        named = [_with_aliases(table.sub) for table in tables]
        keys = dict.fromkeys(key for subs in named for key in subs)
        found = {key: tuple(subs[key] for subs in named if key in subs) for key in keys}
        return msgspec.structs.replace(
            program, sub={key: self.compile(key, subs, program) for key, subs in found.items()}
        )

    def _options(self, name: str, table: ProgramTable) -> dict[str, Option]:
        options: dict[str, Option] = {}
        for key in table.use:
            if key not in self._sets:
                raise ConfigError(f"program {name!r}: there is no set of options {key!r}")
            options.update((option.name, option) for option in _named(self._sets[key]))
        own: dict[str, Option] = {}
        for option in _named(table):
            if option.name in own:
                raise ConfigError(f"program {name!r}: the option {option.name!r} is named twice")
            own[option.name] = option
        return {**options, **own}


def _named(table: ProgramTable | OptionSet) -> Iterator[Option]:
    """Every option that a table names."""
    for kind, names in table.options.items():
        yield from (Option(name=name, takes=kind) for name in names.split())
    for fact in table.raises:
        for name in fact.options.split():
            yield Option(
                name=name,
                takes=fact.takes,
                risk=Risk[fact.risk],
                why=fact.why,
                refuse=fact.refuse,
                network=fact.network,
            )
    if isinstance(table, ProgramTable):
        yield from (Option(name=name, takes="flag", tames=True) for name in table.tames.split())


def _bare_program(name: str, table: ProgramTable, parent: Program | None) -> Program:
    operands, repeats = _operands(name, table)
    return Program(
        name=name,
        does=table.does or (parent.does if parent else "does what only its user knows"),
        risk=Risk[table.risk] if table.risk else (parent.risk if parent else Risk.HIGH),
        network=table.network,
        style=table.style or "gnu",
        operands=operands,
        repeats=repeats,
        first_given_by=frozenset(table.first_given_by.split()),
        public=table.public or (parent.public if parent else ()),
        unknown_sub=table.unknown_sub,
        modules=table.modules,
    )


def _operands(name: str, table: ProgramTable) -> tuple[tuple[str, ...], bool]:
    written = ("any...",) if table.operands is None else table.operands
    operands = tuple(kind.removesuffix(_REPEATED) for kind in written)
    unknown = [kind for kind in operands if kind not in _KINDS or kind == "flag" or kind.endswith("?")]
    if unknown:
        raise ConfigError(
            f"program {name!r}: found operand {unknown[0]!r}, expected one of {', '.join(sorted(_KINDS))}"
        )
    if any(kind.endswith(_REPEATED) for kind in written[:-1]):
        raise ConfigError(f"program {name!r}: only the last operand can be repeated")
    return operands, bool(written) and written[-1].endswith(_REPEATED)


def _tightened(program: Program, added: ProgramTable) -> Program:
    """The program as a second table has it, apart from options and sub-commands."""
    fixed = [key for key in ("style", "operands", "first_given_by", "public", "modules") if getattr(added, key)]
    if fixed:
        text = f"{program.name!r} is built in: {fixed[0]!r} cannot be changed; options and sub-commands can be added"
        raise ConfigError(f"program {text}")
    risk = max(program.risk, Risk[added.risk]) if added.risk else program.risk
    return msgspec.structs.replace(program, risk=risk, network=program.network or added.network)


def _stricter(known: Option, added: Option) -> Option:
    return msgspec.structs.replace(
        known,
        risk=max(known.risk, added.risk),
        why=known.why or added.why,
        refuse=known.refuse or added.refuse,
        network=known.network or added.network,
        tames=known.tames or added.tames,
    )
