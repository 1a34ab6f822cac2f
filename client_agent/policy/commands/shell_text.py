"""What shell text (`sh -c TEXT`, where a user allows a shell) would do: every command in it is judged on its own.

What is not a plain command with literal words (an expansion, a substitution, a loop, a pattern that the shell would
fill in) cannot be known beforehand: it is HIGH, and the commands that can be read in it are judged all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from client_agent.policy.commands.findings import Findings
from client_agent.policy.commands.values import NOWHERE
from client_agent.policy.decision import Assessment, Inspect, Risk
from client_agent.policy.files import REFUSED_EXTENSIONS, file_extension

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_BYTES = 16_384

# Parts that add nothing to the commands in them.
_PLAIN_TYPES = "program list pipeline negated_command subshell compound_statement redirected_statement comment"
_PLAIN = frozenset(_PLAIN_TYPES.split())
_EXPANDING = frozenset("*?[]~{}\\$`!#")
# Parts of the shell itself, which change what comes after them or cannot be judged as a program.
_BUILTIN_NAMES = """
    . : [ alias bg bind break builtin caller cd command compgen complete continue declare dirs disown enable eval
    exec exit export fc fg getopts hash help history jobs let local logout mapfile popd printf pushd read readarray
    readonly return set shift shopt source suspend test times trap type typeset ulimit umask unalias unset wait
"""
_BUILTINS = frozenset(_BUILTIN_NAMES.split())
_HARMLESS = frozenset({"true", "false"})


class ShellJudge:
    """Judges one text and notes what it finds. `command` judges one argv by the tables."""

    def __init__(self, findings: Findings, inspect: Inspect, command: Callable[[list[str]], Assessment]) -> None:
        self._findings = findings
        self._inspect = inspect
        self._command = command

    def judge(self, text: str) -> None:
        source = text.encode("utf-8", "surrogatepass")
        if len(source) > MAX_BYTES:
            self._note("shell_unparsed", f"the text has over {MAX_BYTES} bytes: too long to judge")
            return
        if not text.replace("\n", "").replace("\t", "").isprintable():
            self._note("shell_unparsed", "the text holds characters that cannot be seen")
        root = _parser().parse(source).root_node
        if root.has_error:
            self._note("shell_unparsed", "the text cannot be parsed as shell commands")
        nodes = [root]
        while nodes:
            node = nodes.pop()
            if self._judge_node(node):
                nodes.extend(reversed(node.named_children))

    def _judge_node(self, node: Node) -> bool:
        """Notes what this part means; True when its own parts must be looked at."""
        if node.type in _PLAIN:
            return True
        if node.type == "command":
            return self._judge_command(node)
        if node.type == "file_redirect":
            return self._judge_redirect(node)
        if node.type != "ERROR" and _literal(node) is None:
            what = node.type.replace("_", " ")
            self._note("shell_unknowable", f"{_text(node)[:80]!r} ({what}) cannot be known beforehand")
        return True

    def _judge_command(self, node: Node) -> bool:
        words = [_literal(child) for child in node.named_children]
        argv = [word for word in words if word is not None]
        if len(argv) < len(words):
            return True  # the parts that are no plain words say so themselves
        if argv[0] in _BUILTINS:
            self._note("shell_builtin", f"{argv[0]!r} is part of the shell, and changes what follows it")
        elif argv[0] not in _HARMLESS:
            self._findings.absorb(self._command(argv))
        return False

    def _judge_redirect(self, node: Node) -> bool:
        target = node.child_by_field_name("destination")
        path = None if target is None else _literal(target)
        operator = next((child.type for child in node.children if not child.is_named), "")
        if path is None:
            return True
        if path == NOWHERE or (operator in (">&", "<&") and path.isdigit()):
            return False
        refusal = self._inspect(path).refusal
        if refusal is not None:
            self._findings.refuse(refusal.code, f"{path[:80]!r}: {refusal.text}")
        elif operator != "<":
            self._judge_write(path)
        return False

    def _judge_write(self, path: str) -> None:
        extension = file_extension(path)
        if extension in REFUSED_EXTENSIONS:
            self._findings.refuse("extension_refused", f"files ending in {extension!r} are never written")
        self._note("shell_writes", f"writes {path[:80]!r}")

    def _note(self, code: str, text: str) -> None:
        self._findings.raise_to(Risk.HIGH, code, text)


def _literal(node: Node) -> str | None:
    """The word exactly as the program would get it; None where the shell would put something else in its place."""
    text = _text(node)
    match node.type:
        case "word" | "number":
            return None if _EXPANDING & set(text) else text
        case "raw_string":
            return text[1:-1]
        case "string":
            return None if set('\\$`"!') & set(text[1:-1]) else text[1:-1]
        case "concatenation" | "command_name":
            parts = [_literal(child) for child in node.named_children]
            return None if None in parts else "".join(part for part in parts if part is not None)
        case _:
            return None


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
