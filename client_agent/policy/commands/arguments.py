"""Reads the arguments of a command as the program itself would, by its table.

What the table does not name is not understood, and what is not understood is HIGH: an unknown option, one that is
abbreviated, one inside a cluster of letters, an operand too many.
"""

from __future__ import annotations

from collections.abc import Callable

from client_agent.policy.commands.findings import Findings
from client_agent.policy.commands.program import Option, Program
from client_agent.policy.commands.values import Values
from client_agent.policy.decision import Risk


class ArgumentReader:
    """Reads one command's arguments once, from left to right."""

    def __init__(self, program: Program, args: list[str], values: Values, findings: Findings) -> None:
        self._program = program
        self._args = args
        self._next = 0
        self._values = values
        self._findings = findings
        self._operands: list[str] = []
        self._seen: set[str] = set()
        findings.label.append(program.name)
        findings.enter(program)

    def read(self) -> Program:
        """Reads everything; returns the program, or the sub-command that the arguments led to."""
        styles: dict[str, Callable[[], None]] = {
            "gnu": self._read_getopt,
            "posix": self._read_getopt,
            "find": self._read_find,
            "scan": self._read_scan,
            "literal": lambda: None,
        }
        while True:
            program = self._program
            styles[program.style]()
            if self._program is program:
                return program

    # Options as getopt takes them. "posix" ends them at the first operand, "gnu" does not.

    def _read_getopt(self) -> None:
        program = self._program
        while self._next < len(self._args):
            arg = self._take()
            if arg == "--":
                self._operands += self._args[self._next :]
                break
            if arg.startswith("-") and arg != "-":
                self._read_option(arg)
            elif program.operand_kind(len(self._operands)) == "sub":
                self._enter(arg)
            elif self._takes_the_rest(arg):
                break
            if self._program is not program:
                return
        self._judge_operands()

    def _takes_the_rest(self, arg: str) -> bool:
        """Takes an operand; True when everything after it has been taken too."""
        kind = self._program.operand_kind(len(self._operands))
        self._operands.append(arg)
        if kind == "command" or self._program.style == "posix":
            self._operands += self._args[self._next :]
            return True
        return False

    def _read_option(self, arg: str) -> None:
        if arg in self._program.options:
            self._use(self._program.options[arg], None)
        elif arg.startswith("--"):
            name, _, value = arg.partition("=")
            option = self._program.options.get(name)
            if option is None or option.takes == "flag":
                self._not_understood(arg)
            else:
                self._use(option, value)
        else:
            self._read_cluster(arg)

    def _read_cluster(self, arg: str) -> None:
        """Letters behind one dash: flags, of which the last may have a value attached, or a number behind them."""
        for index, letter in enumerate(arg[1:], start=1):
            option = self._program.options.get("-" + letter)
            if option is None:
                self._read_number(arg, index)
                return
            if option.takes != "flag":
                self._use(option, arg[index + 1 :] or None)
                return
            self._use(option, None)

    def _read_number(self, arg: str, start: int) -> None:
        """What is left of an option, which is understood only as a number: `-5`, `-n5`."""
        rest = arg[start:]
        if self._program.digits is not None and rest.isascii() and rest.isdigit():
            self._use(self._program.digits, None)
        else:
            self._not_understood(arg)

    def _use(self, option: Option, value: str | None) -> None:
        """Notes an option, takes its value from the next argument where it must have one, and judges both."""
        if value is None and option.takes != "flag" and not option.optional:
            if self._next == len(self._args):
                self._not_understood(option.name)
                return
            value = self._take()
        self._seen.add(option.name)
        self._judge_option(option)
        if value is None:
            return
        if option.kind == "sub":
            self._findings.label.append(option.name)
            self._enter(value)
        elif option.kind == "exec":
            self._values.check_command([value, *self._take_until_end()])
        else:
            self._values.check(option.kind, value)

    def _judge_option(self, option: Option) -> None:
        findings = self._findings
        if option.refuse:
            findings.refuse("option_refused", f"{option.name!r} {option.why}")
        elif option.why:
            findings.raise_to(option.risk, "option_risky", f"{option.name!r} {option.why}")
        findings.network = findings.network or option.network
        if option.tames:
            findings.tamed.add(option.name)
        if option.why:  # what the table has something to say about is part of the class
            findings.options.add(option.name)

    def _judge_operands(self) -> None:
        program = self._program
        shift = 1 if self._seen & program.first_given_by else 0
        for position, operand in enumerate(self._operands, start=shift):
            kind = program.operand_kind(position)
            if kind == "command":
                self._values.check_command(self._operands[position - shift :])
                return
            if kind is None:
                text = f"{' '.join(self._findings.label)!r} takes no operand {operand[:80]!r} that is known"
                self._findings.raise_to(Risk.HIGH, "operand_unknown", text)
                self._values.check_any(operand)
            else:
                self._values.check(kind, operand)

    def _enter(self, name: str) -> None:
        """Goes on with the table of a sub-command, once what stood before it is judged."""
        self._judge_operands()
        self._findings.label.append(name)
        sub = self._program.sub.get(name) or self._unknown_sub(name)
        self._program = sub
        self._values.public = sub.public
        self._operands = []
        self._seen = set()
        self._findings.enter(sub)

    def _unknown_sub(self, name: str) -> Program:
        if self._program.modules and self._values.is_module(name):
            does = "runs a module of the workspace"
            return Program(name=name, does=does, risk=self._program.risk, style="scan")
        text = f"{' '.join(self._findings.label)!r}: {self._program.unknown_sub}"
        self._findings.raise_to(Risk.HIGH, "subcommand_unknown", text)
        return Program(name=name, does=self._program.does, risk=Risk.HIGH, style="scan")

    # find has a language of its own: paths, then tests and actions that look like options.

    def _read_find(self) -> None:
        while self._next < len(self._args):
            arg = self._take()
            if not arg.startswith("-"):
                self._values.check_path(arg)  # an operator such as "(" or "!" is no path, and harmless as one
            elif arg in self._program.options:
                self._use(self._program.options[arg], None)
            else:
                self._not_understood(arg)

    # Programs whose every use is asked about: options are not told apart, all that may be a path is looked at.

    def _read_scan(self) -> None:
        if not self._program.options:  # what its arguments do is not known, so that only the same ones are of its class
            self._findings.opaque = True
        position = 0
        is_text = False
        for arg in self._args[self._next :]:
            if is_text:
                is_text = False
            elif arg.startswith("-") and arg != "-":
                is_text = self._scan_option(arg)
            else:
                self._values.check(self._program.operand_kind(position) or "any", arg)
                position += 1

    def _scan_option(self, arg: str) -> bool:
        """Judges one option, and what is attached to it; True when the next argument is its value, and only text."""
        name = arg.partition("=")[0]
        options = self._program.options
        known = [options[name]] if name in options else [options[key] for key in options if _abbreviates(name, key)]
        for option in known:
            self._judge_option(option)
        if [option.takes for option in known] == ["text"]:
            return "=" not in arg
        if not known:
            self._findings.opaque = True
        attached = options.get(arg[:2])
        if attached is None or attached.takes != "text":
            self._values.check_any(arg)
        if not arg.startswith("--"):
            self._scan_cluster(arg)
        return False

    def _scan_cluster(self, arg: str) -> None:
        """A path attached to the last of several letters."""
        for index, letter in enumerate(arg[1:], start=1):
            option = self._program.options.get("-" + letter)
            if option is not None and option.takes == "path":
                if arg[index + 1 :]:
                    self._values.check_path(arg[index + 1 :])
                return

    def _take(self) -> str:
        self._next += 1
        return self._args[self._next - 1]

    def _take_until_end(self) -> list[str]:
        """The arguments up to the ";" or "+" that ends a command inside the command."""
        taken: list[str] = []
        while self._next < len(self._args):
            arg = self._take()
            if arg in (";", "+"):
                break
            taken.append(arg)
        return taken

    def _not_understood(self, arg: str) -> None:
        text = f"{' '.join(self._findings.label)!r} has no option {arg[:80]!r} that is known to be harmless"
        self._findings.raise_to(Risk.HIGH, "option_unknown", text)
        self._values.check_any(arg)


def _abbreviates(name: str, known: str) -> bool:
    """Whether a program that takes long options abbreviated could take this one for the known."""
    return len(name) > len("--") and known.startswith(name)
