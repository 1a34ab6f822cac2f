"""Parameters as people and logs may see them: secrets taken out, long text replaced by its size and hash. Pure.

Secrets are found by the name they are given (`password`, `api_key`, `--token X`) and by the shape they have (a JWT, a
cloud or forge key, a private key block). A secret under a dull name and without a shape cannot be seen by anyone.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Any

MASK = "***"
MAX_TEXT_CHARS = 2000
MAX_CONTENT_CHARS = 200
MAX_DEPTH = 32

_CONTENT_KEYS = frozenset({"content", "contents", "data", "body"})
_SECRET_NAMES = (
    "password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "signingkey",
    "encryptionkey", "credential", "authorization", "cookie",
)  # fmt: skip
_EXACT_NAMES = frozenset({"auth", "pwd", "pw", "pass", "jwt", "bearer", "otp", "pin"})

_NAME = r"(?:passw(?:or)?d|passphrase|secret|token|credential|(?:api|access|private|signing|encryption)[_-]?key)"
# Every repetition is bounded or starts at a literal, so that no text makes the search slow.
_SHAPES = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:[\s\S]*?-----END [A-Z ]{0,40}PRIVATE KEY-----|[\s\S]*)"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bxox[a-z]-[\w-]{10,}|\bsk-[\w-]{16,}|\b[rs]k_(?:live|test)_\w{10,}|\bAIza[\w-]{30,}"
    r"|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[\w-]{30,}|\bhf_[A-Za-z0-9]{30,}"
)
# Each of them has one of these in it: to look for plain words first takes a tenth of the time.
_SHAPE_WORDS = (
    "-----BEGIN ", "eyJ", "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "sk-",
    "k_live_", "k_test_", "AIza", "npm_", "pypi-", "hf_",
)  # fmt: skip
_NAMED = re.compile(
    r"(authorization[\"']?\s{0,8}[:=]\s{0,8}[\"']?(?:(?:bearer|basic|token|digest)\s{1,8})?|\bbearer\s{1,8}"
    rf"|{_NAME}[\w-]{{0,40}}[\"']?\s{{0,8}}[:=]\s{{0,8}}[\"']?"
    rf"|--[\w-]{{0,40}}{_NAME}[\w-]{{0,40}}\s{{1,8}}"
    r"|://[^\s/:@]{0,200}:(?=[^\s/@]{1,1000}@))"
    r"[^\s\"'@&;,]+",
    re.IGNORECASE,
)


def mask(params: dict[str, Any]) -> dict[str, Any]:
    """The same parameters, fit to be shown and kept."""
    return {key: _mask_value(key, value, 0) for key, value in params.items()}


def mask_text(text: str) -> str:
    """The text without the secrets that can be seen in it, cut where it is very long."""
    if len(text) > MAX_TEXT_CHARS:
        return summarize(text)
    if any(word in text for word in _SHAPE_WORDS):
        text = _SHAPES.sub(MASK, text)
    if ":" in text or "=" in text or "--" in text or "bearer" in text.lower():  # else nothing in it is named
        text = _NAMED.sub(rf"\1{MASK}", text)
    return text


def summarize(text: str) -> str:
    """What stands for a long text: how long it was, and its hash, by which it can be recognised."""
    encoded = text.encode("utf-8", "surrogatepass")
    return f"<{len(encoded)} bytes, sha256 {hashlib.sha256(encoded).hexdigest()}>"


@lru_cache(maxsize=512)
def is_secret_name(name: str) -> bool:
    """Whether a parameter, header or option of this name is to be taken for a secret."""
    plain = re.sub(r"[\W_]", "", name[:200]).lower()
    return plain in _EXACT_NAMES or any(secret in plain for secret in _SECRET_NAMES)


def _mask_value(key: str, value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value  # `max_tokens = 4096` is no secret
    if is_secret_name(key):
        return MASK
    if isinstance(value, str):
        is_content = len(value) > MAX_CONTENT_CHARS and key.lower() in _CONTENT_KEYS
        return summarize(value) if is_content else mask_text(value)
    return _mask_container(key, value, depth + 1)


def _mask_container(key: str, value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return "<nested too deeply>"
    if isinstance(value, dict):
        return {str(name): _mask_value(str(name), item, depth) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return _mask_list(key, value, depth)
    return f"<{type(value).__name__}>"


def _mask_list(key: str, items: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
    """A list, where the item after a bare `--password` is the password."""
    masked: list[Any] = []
    after_option = False
    for item in items:
        masked.append(MASK if after_option and isinstance(item, str) else _mask_value(key, item, depth))
        bare_option = isinstance(item, str) and item.startswith("-") and "=" not in item
        after_option = bare_option and is_secret_name(item)
    return masked
