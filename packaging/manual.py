"""The manual page, made from the commands' own definitions: `python packaging/manual.py > client-agent.1`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from client_agent import __version__
from client_agent.cli.app import app
from client_agent.cli.exits import MEANINGS

Command = TyperCommand | TyperGroup
_FILES = {
    "config.toml": "The configuration. \\fBclient-agent paths\\fR says where it is.",
    ".client-agent.toml": "In a workspace: lower limits and more denials. It can only tighten.",
}
_VARIABLES = {
    "CLIENT_AGENT_CONFIG": "Another configuration file.",
    "CLIENT_AGENT_STATE_DIR": "Another place for journal, logs and tokens.",
    "CLIENT_AGENT_TOKEN": "The token for the server, instead of the one that was kept at login.",
}


def write_manual() -> Iterator[str]:
    """The page, line by line."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    yield f'.TH CLIENT-AGENT 1 "" "client-agent {__version__}" "User Commands"'
    yield from (".SH NAME", f"client-agent \\- {_plain(_first_sentence(root)).rstrip('.')}")
    yield from (".SH SYNOPSIS", ".B client-agent", "\\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]")
    yield from (".SH DESCRIPTION", *_paragraphs(root))
    yield ".SH COMMANDS"
    for name, command in _walk(root, ()):
        yield from _describe(name, command)
    yield from _terms("ENVIRONMENT", _VARIABLES)
    yield from _terms("FILES", _FILES)
    yield from _terms("EXIT STATUS", {str(code.value): meaning for code, meaning in MEANINGS.items()})


def _walk(group: TyperGroup, above: tuple[str, ...]) -> Iterator[tuple[str, Command]]:
    for name, command in group.commands.items():
        path = (*above, name)
        if command.hidden:
            continue
        if isinstance(command, TyperGroup):
            if command.invoke_without_command:
                yield " ".join(path), command
            yield from _walk(command, path)
        else:
            yield " ".join(path), command


def _describe(name: str, command: Command) -> Iterator[str]:
    context = typer.Context(command)
    arguments = [each for each in command.params if isinstance(each, TyperArgument)]
    usage = " ".join(f"\\fI{_plain(piece)}\\fR" for each in arguments for piece in each.get_usage_pieces(context))
    yield f".SS {_plain(f'client-agent {name}')} {usage}".rstrip()
    yield from _paragraphs(command)
    for option in (each for each in command.params if isinstance(each, TyperOption)):
        if (record := option.get_help_record(context)) is not None:
            flags, meaning = record
            yield from (".TP", f"\\fB{_plain(flags)}\\fR", _plain(" ".join(meaning.split())))


def _paragraphs(command: Command) -> Iterator[str]:
    text = inspect.cleandoc(command.help or "").replace("\b", "")
    for paragraph in text.split("\n\n"):
        yield ".PP"
        yield _plain(" ".join(paragraph.split()))


def _first_sentence(command: Command) -> str:
    return inspect.cleandoc(command.help or "").split("\n\n")[0]


def _terms(title: str, terms: dict[str, str]) -> Iterator[str]:
    yield f".SH {title}"
    for term, meaning in terms.items():
        yield from (".TP", f"\\fB{term}\\fR", meaning)


def _plain(text: str) -> str:
    """Text that roff takes for nothing but text."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("→", "\\(->")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    sys.stdout.write("\n".join(write_manual()) + "\n")
