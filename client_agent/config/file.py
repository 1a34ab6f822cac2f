"""One TOML file read as a model; whatever is wrong with it is told at once, each problem by its key."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from client_agent.config.models import Model, Settings
from client_agent.errors import ConfigError

M = TypeVar("M", bound=Model)

# Each takes a file's tables from one format to the next, the first from 1 to 2. The file itself stays as it is.
UPGRADES: tuple[Callable[[dict[str, Any]], None], ...] = ()


def newest_format() -> int:
    """The format that is read, and written, today."""
    return len(UPGRADES) + 1


def read(path: Path, model: type[M]) -> M:
    """The file as this model, or a ConfigError that lists everything wrong with it."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = "`client-agent init` makes one"
        raise ConfigError(f"{path}: there is no such file; {hint}", code="config_missing") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    if model is Settings:
        _bring_up_to_date(path, raw)
    problems: list[str] = []
    built = _build(raw, model, "", problems)
    if built is None:
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems))
    return built


def _bring_up_to_date(path: Path, raw: dict[str, Any]) -> None:
    newest = newest_format()
    version = raw.get("version", 1)
    if not isinstance(version, int) or version < 1:
        return  # told with everything else that is wrong with it
    if version > newest:
        message = (
            f"was written for a newer client-agent (format {version}; this one knows {newest}): update client-agent"
        )
        raise ConfigError(f"{path}: {message}", code="downgrade")
    for upgrade in UPGRADES[version - 1 :]:
        upgrade(raw)
    raw["version"] = newest


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
    if isinstance(hint, type) and issubclass(hint, Model):
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
        reason = describe(hint) or re.sub(r" - at `.*|^Expected |`|, got .*", "", str(error))
        problems.append(f"{key}: found {value!r}, expected {reason}")
        return None


def describe(hint: Any) -> str | None:
    """What a person is told is expected, where the type itself would not say it well."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    return next((meta.description for meta in getattr(hint, "__metadata__", ()) if meta.description), None)


def _expected(hint: Any) -> str:
    plain = get_args(hint)[0] if get_args(hint) else hint
    return describe(hint) or str(getattr(plain, "__name__", plain))
