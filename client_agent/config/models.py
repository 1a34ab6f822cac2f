"""What can be set: frozen models, with their defaults and bounds."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

MEGABYTE = 1_000_000
Positive = Annotated[int, Meta(ge=1)]
WorkspaceName = Annotated[
    str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", description="a name of letters, digits, - and _")
]
ServerAddress = Annotated[
    str,
    Meta(
        pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$",
        description="an http:// or https:// address without user name, query or fragment",
    ),
]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of a file: what it does not name cannot be set."""


class Limits(Model, frozen=True):
    """Upper bounds; a workspace's own file can lower each of them."""

    read_max_bytes: Annotated[int, Meta(ge=1, le=100 * MEGABYTE)] = 100 * MEGABYTE
    write_max_bytes: Annotated[int, Meta(ge=1, le=100 * MEGABYTE)] = 100 * MEGABYTE
    list_max_entries: Annotated[int, Meta(ge=1, le=1000)] = 1000
    calls_in_flight: Annotated[int, Meta(ge=1, le=1024)] = 64
    command_max_s: Annotated[int, Meta(ge=1, le=300)] = 300
    background_max_s: Annotated[int, Meta(ge=1, le=86_400)] = 3600
    background_max: Annotated[int, Meta(ge=1, le=100)] = 8
    output_max_bytes: Annotated[int, Meta(ge=1000, le=MEGABYTE)] = MEGABYTE
    memory_max_bytes: Annotated[int, Meta(ge=16 * MEGABYTE)] = 4000 * MEGABYTE
    processes_max: Annotated[int, Meta(ge=1, le=100_000)] = 512
    open_files_max: Annotated[int, Meta(ge=16, le=1_000_000)] = 4096
    file_max_bytes: Annotated[int, Meta(ge=1)] = 2000 * MEGABYTE
    cpu_max_s: Annotated[int, Meta(ge=1, le=86_400)] = 300


RiskName = Literal["LOW", "MEDIUM", "HIGH"]
# What an option's value or an operand is (`policy.commands.values` says what each means). A "?" marks a value that may
# be left out and can only be attached (`--color=always`).
ValueKind = Literal[
    "flag", "text", "text?", "path", "path?", "any", "any?", "word", "script", "sub", "command", "exec",
    "python", "shell", "remote", "refspec", "archive", "format", "moment",
    "tailed", "pretty", "pretty?",
]  # fmt: skip
# How its arguments are read: options anywhere; options first; find's language; not told apart; as plain words.
ProgramStyle = Literal["gnu", "posix", "find", "scan", "literal"]
ProgramName = Annotated[
    str, Meta(pattern="^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}$", description="the bare name of a program")
]


class OptionFact(Model, frozen=True):
    """Options that make a command riskier than it is without them, or that are refused."""

    options: str
    why: str
    takes: ValueKind = "flag"
    risk: RiskName = "HIGH"
    refuse: bool = False
    network: bool = False


class OptionSet(Model, frozen=True):
    """Options that several sub-commands share."""

    options: dict[ValueKind, str] = {}
    raises: tuple[OptionFact, ...] = ()


class ProgramExamples(Model, frozen=True):
    """Command lines that must be judged so; checked when the table is loaded."""

    low: tuple[str, ...] = ()
    medium: tuple[str, ...] = ()
    high: tuple[str, ...] = ()
    not_low: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class ProgramTable(Model, frozen=True):
    """What is known of one program, or of one of its sub-commands. An option that is not named makes it HIGH."""

    does: str = ""
    aliases: tuple[str, ...] = ()
    risk: Annotated[RiskName | None, Meta(description="LOW, MEDIUM or HIGH")] = None
    network: bool = False
    style: Annotated[ProgramStyle | None, Meta(description="gnu, posix, find, scan or literal")] = None
    operands: tuple[str, ...] | None = None
    first_given_by: str = ""
    options: dict[ValueKind, str] = {}
    raises: tuple[OptionFact, ...] = ()
    tames: Annotated[str, Meta(description="flags without which the command does more: --dry-run")] = ""
    public: tuple[str, ...] = ()
    sets: dict[str, OptionSet] = {}
    use: tuple[str, ...] = ()
    sub: dict[str, ProgramTable] = {}
    unknown_sub: str = "it is not known what this sub-command does"
    modules: Annotated[bool, Meta(description="whether a sub-command may be a module of the workspace")] = False
    examples: ProgramExamples = ProgramExamples()


class TighterPolicy(Model, frozen=True):
    """What is refused beyond the built-in rules. A workspace's own file can add to each of these."""

    deny: tuple[str, ...] = ()
    refused_extensions: tuple[str, ...] = ()
    remove_programs: tuple[str, ...] = ()


class Policy(TighterPolicy, frozen=True):
    """The policy of a workspace, in the global file: also what programs may be run beyond the built-in ones."""

    programs: dict[ProgramName, ProgramTable] = {}


class Sandbox(Model, frozen=True):
    """How commands are confined."""

    mechanism: Literal["auto", "job-object", "none"] = "auto"
    toolchains: tuple[str, ...] = ()


class Approvals(Model, frozen=True):
    """How long a question stays open, and what becomes of it when nobody is there."""

    medium_timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 300
    high_timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 600
    unattended: Literal["wait", "reject"] = "wait"
    notifications: bool = True
    open_page: Literal["never", "high"] = "high"


class Workspace(Model, frozen=True):
    """One directory that one project on one server may work in."""

    root: Annotated[str, Meta(pattern=r"^[^\x00]+$", description="a directory")]
    project_id: Annotated[str, Meta(min_length=1, max_length=200)]
    server: ServerAddress
    limits: Limits = Limits()
    policy: Policy = Policy()
    sandbox: Sandbox = Sandbox()
    approvals: Approvals = Approvals()


class Link(Model, frozen=True):
    """The connection to the server, the same for every workspace."""

    heartbeat_deadline_s: Seconds = 45
    connect_timeout_s: Seconds = 10
    reconnect_max_s: Seconds = 60
    proxy: str = ""
    ca_file: str = ""
    trust: Literal["system", "bundled"] = "system"


class Undo(Model, frozen=True):
    """How much of what writes replaced is kept, so that they can be taken back, and for how long."""

    max_bytes: Annotated[int, Meta(ge=0)] = 1000 * MEGABYTE
    keep_days: Annotated[float, Meta(gt=0, le=3650)] = 30


class Settings(Model, frozen=True):
    """The whole of the global file. `version` is that of its format, as `init` writes it."""

    version: Positive = 1
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    link: Link = Link()
    undo: Undo = Undo()
    workspaces: dict[WorkspaceName, Workspace] = {}


class TighterLimits(Model, frozen=True):
    read_max_bytes: Positive | None = None
    write_max_bytes: Positive | None = None
    list_max_entries: Positive | None = None
    calls_in_flight: Positive | None = None
    command_max_s: Positive | None = None
    background_max_s: Positive | None = None
    background_max: Positive | None = None
    output_max_bytes: Positive | None = None
    memory_max_bytes: Positive | None = None
    processes_max: Positive | None = None
    open_files_max: Positive | None = None
    file_max_bytes: Positive | None = None
    cpu_max_s: Positive | None = None


class WorkspaceFile(Model, frozen=True):
    """What `.client-agent.toml` in a workspace may say: lower limits, more denials."""

    limits: TighterLimits = TighterLimits()
    policy: TighterPolicy = TighterPolicy()
