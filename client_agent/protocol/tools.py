"""What each tool takes: the shape of its parameters, its server, its aliases.

Both sides check parameters against these models: unknown names, wrong types and values out of range are errors, so that
a field this version does not know (a working directory, say) can never change what a call does.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from client_agent.errors import InvalidParameters

MAX_PATH_CHARS = 4096
MAX_ARGUMENTS = 4096
MAX_ARGUMENT_CHARS = 131_072  # the kernel's own limit for one argument (MAX_ARG_STRLEN)

MAX_HANDLE_CHARS = 128
MAX_INPUT_CHARS = 65_536

PathText = Annotated[str, Meta(min_length=1, max_length=MAX_PATH_CHARS)]


Handle = Annotated[str, Meta(min_length=1, max_length=MAX_HANDLE_CHARS)]


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a tool."""


class ReadFile(Params, frozen=True):
    path: PathText


class WriteFile(Params, frozen=True):
    path: PathText
    content: str
    mode: Literal["write", "append"] = "write"
    create_dirs: bool = False
    # SHA-256 (hex) of the content the caller last saw; "" says that the file must not exist yet.
    expected_hash: Annotated[str, Meta(pattern="^([0-9a-fA-F]{64})?$")] | None = None


class ListDirectory(Params, frozen=True):
    path: PathText = "."
    recursive: bool = False
    pattern: Annotated[str, Meta(min_length=1, max_length=MAX_PATH_CHARS)] = "*"


class ExecuteCommand(Params, frozen=True):
    command: Annotated[str, Meta(max_length=MAX_PATH_CHARS)]
    args: Annotated[list[Annotated[str, Meta(max_length=MAX_ARGUMENT_CHARS)]], Meta(max_length=MAX_ARGUMENTS)] = []
    timeout: Annotated[int, Meta(ge=1, le=300)] = 30
    # Answered at once with a `process_id`. It then runs as long as the workspace's configuration lets it.
    background: bool = False


class ProcessOutput(Params, frozen=True):
    process_id: Handle


class ProcessInput(Params, frozen=True):
    process_id: Handle
    text: Annotated[str, Meta(max_length=MAX_INPUT_CHARS)] = ""
    close: bool = False  # whether nothing more will be typed


class ProcessKill(Params, frozen=True):
    process_id: Handle


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One tool as both sides know it."""

    name: str
    server_id: str
    description: str
    params: type[Params]
    effects: bool  # whether running it can change anything: such a call is executed at most once
    risk: Literal["LOW", "MEDIUM", "HIGH"]  # as a rule; what one call's is, the policy says
    aliases: tuple[str, ...] = ()


SPECS: tuple[ToolSpec, ...] = (
    ToolSpec(
        name="read_file",
        server_id="filesystem",
        description="Read a file of the workspace: text, or a PDF or image as base64.",
        params=ReadFile,
        effects=False,
        risk="LOW",
    ),
    ToolSpec(
        name="write_file",
        server_id="filesystem",
        description="Write or append to a text file of the workspace, atomically.",
        params=WriteFile,
        effects=True,
        risk="MEDIUM",
    ),
    ToolSpec(
        name="list_directory",
        server_id="filesystem",
        description="List a directory of the workspace, optionally recursive and filtered by a glob pattern.",
        params=ListDirectory,
        effects=False,
        risk="LOW",
    ),
    ToolSpec(
        name="execute_command",
        server_id="shell",
        description="Run one whitelisted program in the workspace, confined, no shell; in the background if told so.",
        params=ExecuteCommand,
        effects=True,
        risk="MEDIUM",
        aliases=("command_executor",),
    ),
    ToolSpec(
        name="process_output",
        server_id="shell",
        description="Read what a command in the background has written so far, and whether it still runs.",
        params=ProcessOutput,
        effects=False,
        risk="LOW",
    ),
    ToolSpec(
        name="process_input",
        server_id="shell",
        description="Type text into a command in the background, and close its input if nothing more will come.",
        params=ProcessInput,
        effects=True,
        risk="HIGH",
    ),
    ToolSpec(
        name="process_kill",
        server_id="shell",
        description="End a command in the background with everything it started.",
        params=ProcessKill,
        effects=True,
        risk="LOW",
    ),
)

_BY_NAME: dict[str, ToolSpec] = {name: spec for spec in SPECS for name in (spec.name, *spec.aliases)}


def find_spec(tool_name: str) -> ToolSpec | None:
    """The tool of this name or alias."""
    return _BY_NAME.get(tool_name)


def parse_params(spec: ToolSpec, params: object) -> Params:
    """The typed parameters, or InvalidParameters saying which field is wrong and what it should be."""
    try:
        return msgspec.convert(params, spec.params)
    except msgspec.ValidationError as error:
        raise InvalidParameters(f"{spec.name}: {error}", tool_name=spec.name) from None


@cache
def parameter_schema(spec: ToolSpec) -> dict[str, Any]:
    """The JSON Schema `properties` of the tool's parameters, as `tools/available` shows them."""
    schema = msgspec.json.schema(spec.params)
    _, component = schema["$ref"].rsplit("/", 1)
    properties: dict[str, Any] = schema["$defs"][component]["properties"]
    return properties
