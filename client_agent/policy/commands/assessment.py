"""The assessment of a command: may its program be run at all, and what would it do with these arguments."""

from __future__ import annotations

from client_agent.policy.commands.arguments import ArgumentReader
from client_agent.policy.commands.blacklist import find_blacklisted
from client_agent.policy.commands.findings import Findings
from client_agent.policy.commands.program import Program, Programs
from client_agent.policy.commands.shell_text import ShellJudge
from client_agent.policy.commands.values import Values
from client_agent.policy.decision import Assessment, Inspect, PathFacts, PathKind, Reason, Risk, refusing
from client_agent.protocol.tools import ExecuteCommand

MAX_ARGUMENT_BYTES = 131_071  # the kernel's limit for one argument, less its NUL
MAX_TOTAL_BYTES = 1_000_000  # well below its limit for all of them and the environment
MAX_PATHS = 1_000  # what may be a path is looked up, and that takes time
_MAX_DEPTH = 4  # commands inside commands


def assess_command(params: ExecuteCommand, inspect: Inspect, programs: Programs) -> Assessment:
    """What this command may do, by the program's table. Arguments are argv: nothing in them is shell syntax."""
    problem = _argument_problem([params.command, *params.args])
    if problem is not None:
        return refusing(problem)
    return _CommandJudge(_limit(inspect), programs).assess(params.command, params.args)


def _limit(inspect: Inspect) -> Inspect:
    """The same facts, for so many paths: beyond that every one is refused."""
    left = MAX_PATHS

    def inspect_some(path: str) -> PathFacts:
        nonlocal left
        left -= 1
        if left >= 0:
            return inspect(path)
        reason = Reason("too_many_paths", f"the command names over {MAX_PATHS} paths: too many to judge")
        return PathFacts(spelled=path, relative=None, kind=PathKind.MISSING, refusal=reason)

    return inspect_some


def _argument_problem(argv: list[str]) -> Reason | None:
    total = 0
    for arg in argv:
        if "\0" in arg:
            return Reason("argument_nul", "an argument holds a NUL byte")
        try:
            size = len(arg) if arg.isascii() else len(arg.encode())
        except UnicodeEncodeError:
            return Reason("argument_not_text", "an argument is not valid Unicode text")
        if size > MAX_ARGUMENT_BYTES:
            return Reason("argument_too_long", f"an argument is longer than {MAX_ARGUMENT_BYTES} bytes")
        total += size
    if total > MAX_TOTAL_BYTES:
        return Reason("argument_too_long", f"the arguments together are longer than {MAX_TOTAL_BYTES} bytes")
    return None


class _CommandJudge:
    """Judges a command and the commands inside it."""

    def __init__(self, inspect: Inspect, programs: Programs, depth: int = 0) -> None:
        self._inspect = inspect
        self._programs = programs
        self._depth = depth

    def assess(self, name: str, args: list[str]) -> Assessment:
        program = self._programs.find(name)
        if program is None:
            return refusing(self._refusal(name))
        findings = Findings()
        if self._depth > _MAX_DEPTH:
            findings.raise_to(Risk.HIGH, "command_nested", "commands are nested too deeply to judge")
            return findings.to_assessment(args)
        values = Values(self._inspect, findings, self._assess_inner, self._judge_shell, program.public)
        reached = ArgumentReader(program, args, values, findings).read()
        findings.reasons.insert(0, _describe(" ".join(findings.label), reached))
        if findings.network:
            findings.reasons.append(Reason("needs_network", "needs the network"))
        return findings.to_assessment(args)

    def _assess_inner(self, argv: list[str]) -> Assessment:
        return _CommandJudge(self._inspect, self._programs, self._depth + 1).assess(argv[0], argv[1:])

    def _judge_shell(self, text: str, findings: Findings) -> None:
        ShellJudge(findings, self._inspect, self._assess_inner).judge(text)

    def _refusal(self, name: str) -> Reason:
        why = find_blacklisted(name)
        if why is not None:
            return Reason("command_blacklisted", f"{name[:80]!r} is never run: it {why}")
        near = self._programs.nearest(name)
        hint = f"; did you mean {near!r}?" if near else ""
        return Reason("command_not_allowed", f"{name[:80]!r} is not on the list of programs that may be run{hint}")


def _describe(label: str, program: Program) -> Reason:
    return Reason(f"command_{program.risk.name.lower()}", f"{label!r} {program.does} ({program.risk.name})")
