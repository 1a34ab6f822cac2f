"""The programs of one workspace: the built-in tables and the user's, tried on the examples they carry."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from client_agent.config import Policy, ProgramTable
from client_agent.errors import ConfigError
from client_agent.policy.commands.assessment import assess_command
from client_agent.policy.commands.blacklist import find_blacklisted
from client_agent.policy.commands.program import Programs
from client_agent.policy.commands.tables import builtin_programs, builtin_tables, compile_table
from client_agent.policy.decision import Assessment, PathFacts, PathKind, Reason, Risk
from client_agent.policy.paths import Protection, inspect_spelling
from client_agent.protocol.tools import ExecuteCommand

_protection = Protection()


def load_programs(policy: Policy) -> Programs:
    """The built-in programs and the user's, less those removed. Raises ConfigError for a table that cannot be used."""
    builtin = builtin_programs()
    if not policy.programs and not policy.remove_programs:
        return builtin
    by_name = {name: program for name in builtin.names if (program := builtin.find(name))}
    for name, table in policy.programs.items():
        why = find_blacklisted(name)
        if why is not None:
            raise ConfigError(f"policy.programs.{name}: {name!r} can never be allowed: it {why}")
        known = builtin_tables().get(name)
        by_name[name] = compile_table(name, table) if known is None else compile_table(name, known, table)
    problems = [
        problem for name, table in policy.programs.items() for problem in try_examples(name, table, Programs(by_name))
    ]
    if problems:
        raise ConfigError("\n".join(f"policy.programs.{problem}" for problem in problems))
    return Programs({name: program for name, program in by_name.items() if name not in policy.remove_programs})


def try_examples(name: str, table: ProgramTable, programs: Programs) -> Iterator[str]:
    """What is wrong with each example of this table and its sub-commands that is not judged as it says."""
    examples = table.examples
    for expected in ("low", "medium", "high", "not_low", "refused"):
        for line in getattr(examples, expected):
            try:
                command, *args = shlex.split(line)
            except ValueError:
                yield f"{name}.examples.{expected}: {line!r} is not a command line"
                continue
            found = assess_command(ExecuteCommand(command=command, args=args), inspect_example, programs)
            if not _fits(expected, found):
                said = "refused" if found.refusal else found.risk.name
                why = "; ".join(reason.text for reason in (found.refusal and (found.refusal,)) or found.reasons)
                yield f"{name}.examples.{expected}: {line!r} is {said}: {why}"
    for key, sub in table.sub.items():
        yield from try_examples(f"{name}.sub.{key}", sub, programs)


def _fits(expected: str, found: Assessment) -> bool:
    if expected == "refused":
        return found.refusal is not None
    if found.refusal is not None:
        return expected == "not_low"
    return found.risk > Risk.LOW if expected == "not_low" else found.risk is Risk[expected.upper()]


def inspect_example(path: str) -> PathFacts:
    """The facts about a path in an empty workspace somewhere: every absolute path is outside."""
    facts = inspect_spelling(path)
    refusal = facts.refusal or (None if facts.relative is None else _protection.find(facts.relative))
    if refusal is None and facts.relative is None:
        refusal = Reason("path_outside", "the path leads outside the workspace")
    return PathFacts(spelled=path, relative=facts.relative, kind=PathKind.MISSING, refusal=refusal)
