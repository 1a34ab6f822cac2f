"""Which paths may never be used, judged on the text alone.

Where a path really leads is found by `workspace`, on the opened object. Here is what needs no file system: spellings
that are refused outright, and the deny patterns for secrets and for the daemon's own files.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from client_agent.policy.decision import PathFacts, PathKind, Reason

MAX_PATH_BYTES = 4095  # PATH_MAX less its NUL
MAX_NAME_BYTES = 255

WORKSPACE_CONFIG_NAME = ".client-agent.toml"

# Secrets by name. A pattern without a slash is tried on every part of the path, so that it covers directories too.
SECRET_PATTERNS: tuple[str, ...] = (
    "*.env", ".env.*", ".env-*", ".env_*", ".env~", ".envrc", "*.tfstate", "*.tfstate.*",
    "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.asc", "*.gpg",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".gcloud", "**/.config/gcloud", "**/.cargo/credentials*",
    ".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass", ".my.cnf", ".htpasswd", ".vault-token",
    "credentials.json", "client_secret*.json", "service-account*.json", "secrets.yaml", "secrets.yml", "secrets.toml",
)  # fmt: skip
# Examples for people carry no secrets and are wanted by every agent.
NOT_SECRET: frozenset[str] = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})

_DRIVE = re.compile(r"^[A-Za-z]:")


def spelling_problem(path: str) -> Reason | None:
    """Why this text is refused as a path, whatever the file system holds."""
    if not path:
        return Reason("path_empty", "the path is empty")
    if any(ch < " " or ch == "\x7f" for ch in path):
        what = "a NUL byte" if "\0" in path else "a control character"
        return Reason("path_control_character", f"the path holds {what}")
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        return Reason("path_not_text", "the path is not valid Unicode text")
    if len(encoded) > MAX_PATH_BYTES:
        return Reason("path_too_long", f"the path is longer than {MAX_PATH_BYTES} bytes")
    if any(len(name) > MAX_NAME_BYTES for name in encoded.split(b"/")):
        return Reason("path_too_long", f"a name in the path is longer than {MAX_NAME_BYTES} bytes")
    return _disguise(path)


def _disguise(path: str) -> Reason | None:
    """Spellings that mean "up" or "elsewhere" to another program or platform than this one."""
    folded = path if path.isascii() else unicodedata.normalize("NFKC", path)
    if folded.count("/") != path.count("/") or folded.count("\\") != path.count("\\"):
        return Reason("path_disguised", "the path holds a character that passes for a separator")
    if "\\" not in folded and folded == path:
        return None
    if _DRIVE.match(folded) or folded.startswith("\\"):
        return Reason("path_disguised", "the path is written for another platform")
    ups = [part for part in re.split(r"[/\\]", folded) if part.strip(" ") == ".."]
    if len(ups) > path.split("/").count(".."):
        return Reason("path_disguised", "the path holds a disguised '..'")
    return None


def climbs_out(path: str) -> bool:
    """Whether the text alone leads above where it starts."""
    depth = 0
    for part in path.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return True
    return False


def inspect_spelling(path: str) -> PathFacts:
    """The facts that a side without the files can know: refused spellings, and paths that leave by their text."""
    problem = spelling_problem(path)
    if problem is None and not path.startswith("/") and climbs_out(path):
        problem = Reason("path_outside", "the path leads outside the workspace")
    relative = None if problem or path.startswith("/") else _normal(path)
    return PathFacts(spelled=path, relative=relative, kind=PathKind.MISSING, refusal=problem)


def _normal(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts) or "."


class Protection:
    """The paths of one workspace that no call may touch, however they are spelled.

    Names are compared without regard to case, compatibility forms, and trailing dots and spaces, so that a spelling
    which some file system holds equal is refused on all of them.
    """

    def __init__(self, deny: Iterable[str] = (), own: Iterable[str] = ()) -> None:
        names: list[str] = []
        paths: list[str] = []
        for pattern in (*SECRET_PATTERNS, WORKSPACE_CONFIG_NAME, *deny):
            bare = pattern.strip("/")
            (paths if "/" in bare else names).append(bare)
        # Both are tried on the whole path at once, so that a path of a thousand parts costs no more than its length.
        self._names = re.compile(rf"(?:^|/)({_alternatives(names)})(?=/|$)")
        self._paths = re.compile(rf"(?:{_alternatives(paths)})(?:/.*)?", re.DOTALL)
        # The daemon's own directories where they lie inside the workspace: exact places, everything below included.
        self._own = tuple(_fold_path(path) for path in own)
        self.find = lru_cache(maxsize=4096)(self._find)

    def _find(self, relative: str) -> Reason | None:
        """Why this real path, relative to the root, is protected; None when it is not."""
        folded = _fold_path(relative)
        if any(folded == own or folded.startswith(own + "/") for own in self._own):
            return Reason("path_protected", f"{relative!r} belongs to client-agent itself")
        for match in self._names.finditer(folded):
            if match[1] not in NOT_SECRET:
                return Reason("path_protected", f"{relative!r} is protected: {match[1]!r} may hold secrets")
        if self._paths.fullmatch(folded):
            return Reason("path_protected", f"{relative!r} is protected by a deny pattern")
        return None


def _fold_path(path: str) -> str:
    folded = unicodedata.normalize("NFKC", path).casefold()
    return "/".join(part.rstrip(". ") or part for part in folded.split("/"))


def _alternatives(patterns: list[str]) -> str:
    return "|".join(translate(_fold_path(pattern)) for pattern in patterns)


def translate(pattern: str) -> str:
    """A glob as a regular expression: `**` crosses directories, `*` and `?` do not; a leading `*/` means any depth."""
    if pattern.startswith("*/"):
        pattern = "*" + pattern
    out: list[str] = []
    index = 0
    while index < len(pattern):
        if pattern.startswith("**/", index):
            out.append("(?:[^/]+/)*")
            index += 3
        elif pattern.startswith("**", index):
            out.append(".*")
            index += 2
        else:
            ch = pattern[index]
            out.append({"*": "[^/]*", "?": "[^/]"}.get(ch) or re.escape(ch))
            index += 1
    return "".join(out)
