"""The settings in force: the global file, each workspace tightened by a file of its own."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from pathlib import Path

import msgspec

from client_agent.config.file import describe, read
from client_agent.config.models import ServerAddress, Settings, Workspace, WorkspaceFile, WorkspaceName
from client_agent.errors import ConfigError

APP_NAME = "client-agent"
WORKSPACE_FILE = ".client-agent.toml"


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


class Loaded(msgspec.Struct, frozen=True):
    """What the files say. `problems` has the workspaces that cannot be used, and why; they are not tightened."""

    named: Settings
    problems: dict[WorkspaceName, str] = {}

    @property
    def settings(self) -> Settings:
        """With the workspaces that can be used."""
        return without(self.named, self.problems)


def without(settings: Settings, names: Container[str]) -> Settings:
    """The settings less these workspaces."""
    kept = {name: workspace for name, workspace in settings.workspaces.items() if name not in names}
    return msgspec.structs.replace(settings, workspaces=kept)


def load(path: Path) -> Settings:
    """The global settings, each workspace already tightened by its own file. Raises ConfigError for any problem."""
    loaded = load_usable(path)
    if loaded.problems:
        raise ConfigError("\n".join(loaded.problems.values()))
    return loaded.settings


def load_usable(path: Path) -> Loaded:
    """As `load`, but a workspace whose directory or own file cannot be used fails alone."""
    settings = read(path, Settings)
    _check_apart(path, settings.workspaces)
    return tighten_all(settings, f"{path}: ")


def tighten_all(settings: Settings, where: str = "") -> Loaded:
    """The workspaces that can be used, each tightened by its own file; `where` says who names the others."""
    named = dict(settings.workspaces)
    problems: dict[WorkspaceName, str] = {}
    for name, workspace in settings.workspaces.items():
        try:
            _check_root(root_of(workspace), f"{where}workspaces.{name}.root")
            named[name] = tighten_by_file(workspace)
        except ConfigError as error:
            problems[name] = error.message
    return Loaded(msgspec.structs.replace(settings, workspaces=named), problems)


def check_server(address: str) -> str:
    """The address, fit to be a workspace's server. Raises ConfigError."""
    try:
        return msgspec.convert(address.rstrip("/"), ServerAddress)
    except msgspec.ValidationError:
        raise ConfigError(f"server: found {address!r}, expected {describe(ServerAddress)}") from None


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


def root_of(workspace: Workspace) -> Path:
    """The directory as named, `~` replaced where there is such a user."""
    try:
        return Path(workspace.root).expanduser()
    except RuntimeError:
        return Path(workspace.root)


def tighten_by_file(workspace: Workspace) -> Workspace:
    """The workspace, tightened by the file in its root where there is one."""
    path = root_of(workspace) / WORKSPACE_FILE
    if not path.is_file():
        return workspace
    own = read(path, WorkspaceFile)
    changes = {
        key: min(getattr(workspace.limits, key), value)
        for key, value in msgspec.structs.asdict(own.limits).items()
        if value is not None
    }
    policy = msgspec.structs.replace(
        workspace.policy,
        deny=_joined(workspace.policy.deny, own.policy.deny),
        refused_extensions=_joined(workspace.policy.refused_extensions, own.policy.refused_extensions),
        remove_programs=_joined(workspace.policy.remove_programs, own.policy.remove_programs),
    )
    return msgspec.structs.replace(
        workspace, limits=msgspec.structs.replace(workspace.limits, **changes), policy=policy
    )


def _joined(given: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """Each once, so that tightening twice is tightening once."""
    return tuple(dict.fromkeys((*given, *more)))


def _check_apart(path: Path, workspaces: Mapping[WorkspaceName, Workspace]) -> None:
    """No workspace lies in another: its files would be the other project's as well."""
    roots = {name: Path(os.path.realpath(root_of(workspace))) for name, workspace in workspaces.items()}
    problems = [
        f"{path}: workspaces.{inner}.root: {str(root)!r} lies in that of workspaces.{outer}; "
        "expected directories apart from each other"
        for inner, root in roots.items()
        for outer, other in roots.items()
        if inner != outer and root.is_relative_to(other) and (root != other or inner > outer)
    ]
    if problems:
        raise ConfigError("\n".join(problems))


def _check_root(root: Path, where: str) -> None:
    if not root.is_absolute():
        raise ConfigError(f"{where}: found {str(root)!r}, expected an absolute path (or one beginning with ~)")
    if not root.is_dir():
        raise ConfigError(f"{where}: found {str(root)!r}, expected a directory that exists")
    if root.resolve() == Path(root.anchor):
        raise ConfigError(f"{where}: found {str(root)!r}, expected a project directory, not the whole disk")
