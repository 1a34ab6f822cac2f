"""Configuration: TOML into frozen models. The only reader of configuration.

The global file has one table a workspace. A file in the workspace itself, which an agent might come to write, may only
tighten: it can lower limits and add to what is denied, and nothing else.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from client_agent.errors import ConfigError

APP_NAME = "client-agent"
WORKSPACE_FILE = ".client-agent.toml"

MEGABYTE = 1_000_000
Positive = Annotated[int, Meta(ge=1)]
WorkspaceName = Annotated[
    str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", description="a name of letters, digits, - and _")
]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class _Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


M = TypeVar("M", bound=_Model)


class Limits(_Model, frozen=True):
    """Upper bounds; a workspace's own file can lower each of them."""

    read_max_bytes: Annotated[int, Meta(ge=1, le=100 * MEGABYTE)] = 100 * MEGABYTE
    write_max_bytes: Annotated[int, Meta(ge=1, le=100 * MEGABYTE)] = 100 * MEGABYTE
    list_max_entries: Annotated[int, Meta(ge=1, le=1000)] = 1000
    calls_in_flight: Annotated[int, Meta(ge=1, le=1024)] = 64
    command_max_s: Annotated[int, Meta(ge=1, le=300)] = 300
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
    "python", "shell", "remote", "refspec", "archive", "format",
]  # fmt: skip
# How its arguments are read: options anywhere; options first; find's language; not told apart; as plain words.
ProgramStyle = Literal["gnu", "posix", "find", "scan", "literal"]
ProgramName = Annotated[
    str, Meta(pattern="^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}$", description="the bare name of a program")
]


class OptionFact(_Model, frozen=True):
    """Options that make a command riskier than it is without them, or that are refused."""

    options: str
    why: str
    takes: ValueKind = "flag"
    risk: RiskName = "HIGH"
    refuse: bool = False
    network: bool = False


class OptionSet(_Model, frozen=True):
    """Options that several sub-commands share."""

    options: dict[ValueKind, str] = {}
    raises: tuple[OptionFact, ...] = ()


class ProgramExamples(_Model, frozen=True):
    """Command lines that must be judged so; checked when the table is loaded."""

    low: tuple[str, ...] = ()
    medium: tuple[str, ...] = ()
    high: tuple[str, ...] = ()
    not_low: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class ProgramTable(_Model, frozen=True):
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
    public: tuple[str, ...] = ()
    sets: dict[str, OptionSet] = {}
    use: tuple[str, ...] = ()
    sub: dict[str, ProgramTable] = {}
    unknown_sub: str = "it is not known what this sub-command does"
    examples: ProgramExamples = ProgramExamples()


class TighterPolicy(_Model, frozen=True):
    """What is refused beyond the built-in rules. A workspace's own file can add to each of these."""

    deny: tuple[str, ...] = ()
    refused_extensions: tuple[str, ...] = ()
    remove_programs: tuple[str, ...] = ()


class Policy(TighterPolicy, frozen=True):
    """The policy of a workspace, in the global file: also what programs may be run beyond the built-in ones."""

    programs: dict[ProgramName, ProgramTable] = {}


class Sandbox(_Model, frozen=True):
    """How commands are confined."""

    mechanism: Literal["auto", "none"] = "auto"
    toolchains: tuple[str, ...] = ()


class Approvals(_Model, frozen=True):
    """How long a question stays open, and what becomes of it when nobody is there."""

    medium_timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 300
    high_timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 600
    unattended: Literal["wait", "reject"] = "wait"


class Workspace(_Model, frozen=True):
    """One directory that one project on one server may work in."""

    root: str
    project_id: Annotated[str, Meta(min_length=1, max_length=200)]
    server: Annotated[
        str,
        Meta(
            pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$",
            description="an http:// or https:// address without user name, query or fragment",
        ),
    ]
    limits: Limits = Limits()
    policy: Policy = Policy()
    sandbox: Sandbox = Sandbox()
    approvals: Approvals = Approvals()


class Link(_Model, frozen=True):
    """The connection to the server, the same for every workspace."""

    heartbeat_deadline_s: Seconds = 45
    connect_timeout_s: Seconds = 10
    reconnect_max_s: Seconds = 60
    proxy: str = ""
    ca_file: str = ""
    trust: Literal["system", "bundled"] = "system"


class Settings(_Model, frozen=True):
    """The whole of the global file."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    link: Link = Link()
    workspaces: dict[WorkspaceName, Workspace] = {}


class TighterLimits(_Model, frozen=True):
    read_max_bytes: Positive | None = None
    write_max_bytes: Positive | None = None
    list_max_entries: Positive | None = None
    calls_in_flight: Positive | None = None
    command_max_s: Positive | None = None
    output_max_bytes: Positive | None = None
    memory_max_bytes: Positive | None = None
    processes_max: Positive | None = None
    open_files_max: Positive | None = None
    file_max_bytes: Positive | None = None
    cpu_max_s: Positive | None = None


class WorkspaceFile(_Model, frozen=True):
    """What `.client-agent.toml` in a workspace may say: lower limits, more denials."""

    limits: TighterLimits = TighterLimits()
    policy: TighterPolicy = TighterPolicy()


def config_path(env: Mapping[str, str] = os.environ) -> Path:
    """The global configuration file: CLIENT_AGENT_CONFIG, or the platform's place."""
    if chosen := env.get("CLIENT_AGENT_CONFIG"):
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_config_dir(APP_NAME, appauthor=False)) / "config.toml"


def state_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Where the journal, audit log and tokens live: CLIENT_AGENT_STATE_DIR, or the platform's place."""
    if chosen := env.get("CLIENT_AGENT_STATE_DIR"):
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_state_dir(APP_NAME, appauthor=False))


def load(path: Path) -> Settings:
    """The global settings, each workspace already tightened by its own file."""
    settings = _read(path, Settings)
    for name, workspace in settings.workspaces.items():
        _check_workspace(path, name, workspace)
    tightened = {name: tighten_by_file(workspace) for name, workspace in settings.workspaces.items()}
    return msgspec.structs.replace(settings, workspaces=tightened)


def local_workspace(root: Path, *, server: str = "http://127.0.0.1", project_id: str = "local") -> Workspace:
    """A workspace with default policy that needs no configuration file."""
    workspace = Workspace(root=str(root), project_id=project_id, server=server)
    try:
        workspace = msgspec.convert(msgspec.to_builtins(workspace), Workspace)
    except msgspec.ValidationError:
        expected = "an http:// or https:// address without user name, query or fragment, and a project"
        raise ConfigError(f"found {server!r} and {project_id!r}, expected {expected}") from None
    _check_root(root, "--workspace")
    return tighten_by_file(workspace)


def tighten_by_file(workspace: Workspace) -> Workspace:
    """The workspace, tightened by the file in its root where there is one."""
    path = Path(workspace.root).expanduser() / WORKSPACE_FILE
    if not path.is_file():
        return workspace
    own = _read(path, WorkspaceFile)
    changes = {
        key: min(getattr(workspace.limits, key), value)
        for key, value in msgspec.structs.asdict(own.limits).items()
        if value is not None
    }
    policy = msgspec.structs.replace(
        workspace.policy,
        deny=(*workspace.policy.deny, *own.policy.deny),
        refused_extensions=(*workspace.policy.refused_extensions, *own.policy.refused_extensions),
        remove_programs=(*workspace.policy.remove_programs, *own.policy.remove_programs),
    )
    return msgspec.structs.replace(
        workspace, limits=msgspec.structs.replace(workspace.limits, **changes), policy=policy
    )


def _check_workspace(path: Path, name: str, workspace: Workspace) -> None:
    root = Path(workspace.root).expanduser()
    _check_root(root, f"{path}: workspaces.{name}.root")


def _check_root(root: Path, where: str) -> None:
    if not root.is_absolute():
        raise ConfigError(f"{where}: found {str(root)!r}, expected an absolute path (or one beginning with ~)")
    if not root.is_dir():
        raise ConfigError(f"{where}: found {str(root)!r}, expected a directory that exists")
    if root.resolve() == Path(root.anchor):
        raise ConfigError(f"{where}: found {str(root)!r}, expected a project directory, not the whole disk")


def _read(path: Path, model: type[M]) -> M:
    """The file as this model, or a ConfigError that lists everything wrong with it."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = "copy config.example.toml there, or say what you need on the command line (see --help)"
        raise ConfigError(f"{path}: there is no such file; {hint}", code="config_missing") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    problems: list[str] = []
    built = _build(raw, model, "", problems)
    if built is None:
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems))
    return built


def _build(raw: Mapping[str, Any], model: type[M], prefix: str, problems: list[str]) -> M | None:
    """Converts one table, key by key, so that each problem can name its key. None when there was any."""
    before = len(problems)
    hints = get_type_hints(model, include_extras=True)
    values: dict[str, Any] = {}
    for key, value in raw.items():
        if key not in hints:
            near = difflib.get_close_matches(key, hints, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(hints)}"
            problems.append(f"{prefix}{key}: unknown key; {meant}")
        else:
            values[key] = _build_value(value, hints[key], f"{prefix}{key}", problems)
    problems += [
        f"{prefix}{field.name}: missing; expected {_expected(hints[field.name])}"
        for field in msgspec.structs.fields(model)
        if field.required and field.name not in raw
    ]
    return model(**values) if len(problems) == before else None


def _build_value(value: Any, hint: Any, key: str, problems: list[str]) -> Any:
    if isinstance(hint, type) and issubclass(hint, _Model):
        if isinstance(value, dict):
            return _build(value, hint, f"{key}.", problems)
        problems.append(f"{key}: found {value!r}, expected a table")
        return None
    if get_origin(hint) is dict and isinstance(value, dict):
        name_type, model = get_args(hint)
        return {
            _build_value(name, name_type, f"{key}.{name}", problems): _build_value(
                item, model, f"{key}.{name}", problems
            )
            for name, item in value.items()
        }
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        reason = _description(hint) or re.sub(r" - at `.*|^Expected |`|, got .*", "", str(error))
        problems.append(f"{key}: found {value!r}, expected {reason}")
        return None


def _description(hint: Any) -> str | None:
    """What a person is told is expected, where the type itself would not say it well."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    return next((meta.description for meta in getattr(hint, "__metadata__", ()) if meta.description), None)


def _expected(hint: Any) -> str:
    plain = get_args(hint)[0] if get_args(hint) else hint
    return _description(hint) or str(getattr(plain, "__name__", plain))
