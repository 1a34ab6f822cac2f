"""What shell text (`sh -c TEXT`, where a user allows a shell) would do: every command in it is judged on its own.

What is not a plain command with literal words (an expansion, a substitution, a loop, a pattern that the shell would
fill in) cannot be known beforehand: it is HIGH, and the commands that can be read in it are judged all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, cast

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
# What else the shell would do with a word; `$` and backquotes are no part of one to the parser.
_EXPANDING = frozenset(["*", "?", "[", "]", "~", "{", "}", "\\", "!", "#"])
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
        if not all(ch.isprintable() or ch in {"\n", "\t"} for ch in text):
            self._note("shell_unparsed", "the text holds characters that cannot be seen")
        root = _parser().parse(source).root_node
        if root.has_error or _passed_over(source, root):
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
            self._note_unknowable(node)
        return True

    def _judge_command(self, node: Node) -> bool:
        words = [_literal(child) for child in node.children]
        argv = [word for word in words if word is not None]
        if node.child_count > node.named_child_count:
            self._note_unknowable(node)
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
        parts = {child.type for child in node.children}  # the operator among them
        if path is None:
            return True
        if path == NOWHERE or (parts & {">&", "<&"} and path.isdigit()):
            return False
        refusal = self._inspect(path).refusal
        if refusal is not None:
            self._findings.refuse(refusal.code, f"{path[:80]!r}: {refusal.text}")
        elif "<" not in parts:
            self._judge_write(path)
        return False

    def _judge_write(self, path: str) -> None:
        extension = file_extension(path)
        if extension in REFUSED_EXTENSIONS:
            self._findings.refuse("extension_refused", f"files ending in {extension!r} are never written")
        self._note("shell_writes", f"writes {path[:80]!r}")

    def _note_unknowable(self, node: Node) -> None:
        what = node.type.replace("_", " ")
        self._note("shell_unknowable", f"{_text(node)[:80]!r} ({what}) cannot be known beforehand")

    def _note(self, code: str, text: str) -> None:
        self._findings.raise_to(Risk.HIGH, code, text)


def _passed_over(source: bytes, root: Node) -> bytes:
    """What of the text is in no part of the tree, blanks apart: an escaped blank as a word, a line that goes on."""
    left = bytearray(source)
    nodes = [root]
    while nodes:
        node = nodes.pop()
        nodes += node.children
        if not node.children:  # the last comes first, so that the places of the others stay as they are
            del left[node.start_byte : node.end_byte]
    return bytes(left).strip()


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
            parts = [_literal(child) for child in node.children]
            known = [part for part in parts if part is not None]
            return "".join(known) if len(known) == len(parts) else None
    return None


def _text(node: Node) -> str:
    return cast("bytes", node.text).decode("utf-8", "replace")  # None only where text is read as it is parsed


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
