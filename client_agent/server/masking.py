"""Parameters as the record keeps them: no secrets, no long contents."""

from __future__ import annotations

import hashlib
import re
from typing import Any

MASK = "***"
MAX_KEPT_CHARS = 200

_HIDDEN_WORDS = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|"
    r"auth(?:orization)?|credentials?|cookie|session[_-]?key"
)
_SECRET_NAME = re.compile(rf"(?:^|[_-])(?:{_HIDDEN_WORDS})s?$", re.IGNORECASE)
_CAMEL_STEP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# `password=…`, `API_KEY: …`, `Authorization: Bearer …` inside a text: the name stays, the value goes.
_ASSIGNMENT = re.compile(
    rf"((?:{_HIDDEN_WORDS})s?[\"']?\s*[=:]\s*)((?:bearer|basic)\s+)?(\"[^\"]*\"|'[^']*'|[^\s\"',;&]+)", re.IGNORECASE
)
_BEARER = re.compile(r"\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)


def mask_params(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters, with secrets replaced by name or by form, and long texts by their length and SHA-256."""
    return {key: MASK if _names_secret(key) else _mask(value) for key, value in params.items()}


def _mask(value: Any) -> Any:
    if isinstance(value, str):
        return _mask_text(value)
    if isinstance(value, dict):
        return mask_params(value)
    if isinstance(value, list):
        return _mask_list(value)
    return value


def _mask_list(values: list[Any]) -> list[Any]:
    """An argument that follows `--password` or the like is masked with it."""
    masked: list[Any] = []
    hide_next = False
    for value in values:
        masked.append(MASK if hide_next else _mask(value))
        hide_next = isinstance(value, str) and value.startswith("-") and _names_secret(value.lstrip("-"))
    return masked


def _mask_text(text: str) -> str:
    if len(text) > MAX_KEPT_CHARS:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return f"[{len(text)} characters, sha256 {digest}]"
    return _BEARER.sub(rf"\1{MASK}", _ASSIGNMENT.sub(rf"\1\2{MASK}", text))


def _names_secret(name: str) -> bool:
    return _SECRET_NAME.search(_CAMEL_STEP.sub("_", name)) is not None
