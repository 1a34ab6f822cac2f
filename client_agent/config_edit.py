"""Changes to the configuration file: what the user wrote stays as it is, comments and all."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from client_agent import config
from client_agent.errors import ConfigError

_HEADER = (
    "client-agent configuration. `client-agent config check` says what is wrong with it.",
    "`client-agent config example` shows every key there is, with a comment.",
)
_COMMENTS = {
    "root": "The directory. Nothing outside of it is ever read or written.",
    "project_id": "The project on the server.",
    "server": "The server's base address.",
}


class NewWorkspace(msgspec.Struct, frozen=True, kw_only=True):
    """What a workspace needs; everything else has defaults."""

    name: str
    root: str
    project_id: str
    server: str


def add_workspace(path: Path, new: NewWorkspace) -> bool:
    """Writes it into the file, which is made where there is none; False when it is there already.

    Raises ConfigError, and then nothing was changed: the file cannot be used, or the name or the directory is taken.
    """
    document = _read(path)
    if document.get("version", 1) != config.newest_format():
        raise ConfigError(f"{path}: is of another format than this client-agent writes: add the workspace by hand")
    workspaces = document.setdefault("workspaces", tomlkit.table(is_super_table=True))
    if _is_there(path, workspaces, new):
        return False
    workspaces[new.name] = _table(new)
    _replace(path, tomlkit.dumps(document))
    return True


def suggest_name(directory: Path, taken: Mapping[str, Any]) -> str:
    """A name for the workspace that is not taken, after its directory."""
    base = re.sub(r"[^A-Za-z0-9_-]+", "-", directory.name).strip("-_")[:50] or "workspace"
    names = (base, *(f"{base}-{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


def _read(path: Path) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        document = tomlkit.document()
        for line in _HEADER:
            document.add(tomlkit.comment(line))
        document.add("version", tomlkit.item(config.newest_format()))
        return document
    except (OSError, UnicodeDecodeError, TOMLKitError) as error:
        raise ConfigError(f"{path}: cannot be extended: {error}") from None


def _is_there(path: Path, workspaces: Mapping[str, Any], new: NewWorkspace) -> bool:
    for name, each in workspaces.items():
        same_root = os.path.realpath(os.path.expanduser(str(each.get("root", "")))) == os.path.realpath(new.root)  # noqa: PTH111
        if same_root and (each.get("project_id"), each.get("server")) == (new.project_id, new.server):
            return True
        if same_root:
            raise ConfigError(
                f"{path}: {new.root} is the workspace {name!r} already, for another project: change it there"
            )
        if name == new.name:
            raise ConfigError(f"{path}: there is a workspace {name!r} already: choose another name with --name")
    return False


def _table(new: NewWorkspace) -> Table:
    table = tomlkit.table()
    table.comment("one directory in which one project of one server may work")
    for key, comment in _COMMENTS.items():
        table.add(tomlkit.comment(comment))
        table.add(key, getattr(new, key))
    return table


def _replace(path: Path, text: str) -> None:
    """Puts the text in place in one step, once it was seen to be a good configuration. A link to it stays a link."""
    target = Path(os.path.realpath(path))
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _check(draft, path)
        if target.exists():
            draft.chmod(target.stat().st_mode & 0o777)
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _check(draft: Path, path: Path) -> None:
    try:
        config.load(draft)
    except ConfigError as error:
        raise ConfigError(error.message.replace(str(draft), str(path)), code=error.code) from None
