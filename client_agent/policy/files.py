"""The risk of reading, listing and writing files."""

from __future__ import annotations

import re

from client_agent.config import Workspace
from client_agent.policy.decision import Assessment, CallClass, Inspect, PathFacts, PathKind, Reason, Risk, refusing
from client_agent.protocol.tools import ListDirectory, ReadFile, WriteFile

# Never written, whatever the user says: formats that exist to be loaded or run.
REFUSED_EXTENSIONS: frozenset[str] = frozenset(
    {".exe", ".dll", ".bin", ".so", ".dylib", ".com", ".scr", ".msi", ".drv", ".ko", ".o", ".a", ".lib"}
    | {".pyc", ".pyo", ".pyd", ".class", ".jar", ".war", ".apk", ".deb", ".rpm", ".dmg", ".pkg", ".iso", ".img"}
)  # fmt: skip

_SHARED_OBJECT = re.compile(r"\.so(\.\d+)+$")  # libz.so.1

# Text and source: a write is MEDIUM. Whatever is not here is HIGH.
_TEXT = """
    .txt .md .rst .adoc .tex .csv .tsv .json .jsonl .json5 .yaml .yml .toml .ini .xml .html .htm .css .scss .less .svg
    .py .pyi .ipynb .js .mjs .cjs .jsx .ts .tsx .vue .svelte .c .h .cc .cpp .cxx .hpp .hh .cs .java .kt .kts .scala
    .go .rs .swift .m .mm .rb .php .pl .pm .lua .r .jl .hs .ml .mli .ex .exs .erl .clj .cljs .elm .dart .zig .nim
    .sql .graphql .gql .proto .thrift .diff .patch .log .lock .po .pot .srt .vtt .bib .gradle .cmake .tf .hcl
"""
TEXT_EXTENSIONS: frozenset[str] = frozenset(_TEXT.split())

# Places whose content other programs execute on their own account: a write there is a command in disguise.
_SELF_RUNNING_DIRECTORIES = (
    ".git",
    ".hg",
    ".svn",
    ".husky",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".circleci",
    ".claude",
    ".cursor",
    ".cargo",
)
_SELF_RUNNING_FILES = (
    ".pre-commit-config.yaml", ".gitlab-ci.yml", ".gitattributes", ".gitmodules", "conftest.py", "sitecustomize.py",
    ".mcp.json", ".yarnrc.yml", ".pnpmfile.cjs", "package.json",
    "usercustomize.py", "setup.py", "noxfile.py", "dodo.py", "fabfile.py", "tasks.py",
)  # fmt: skip


def assess_read(params: ReadFile, inspect: Inspect) -> Assessment:
    return _assess_look("read_file", "reads", params.path, inspect)


def assess_list(params: ListDirectory, inspect: Inspect) -> Assessment:
    return _assess_look("list_directory", "lists", params.path, inspect)


def _assess_look(tool_name: str, verb: str, path: str, inspect: Inspect) -> Assessment:
    facts = inspect(path)
    if facts.refusal is not None:
        return refusing(facts.refusal, Risk.LOW)
    return Assessment(
        risk=Risk.LOW,
        reasons=(Reason("reads_only", f"{verb} {_name(facts)!r} inside the workspace"),),
        read_only=True,
        call_class=CallClass(label=tool_name, risk=Risk.LOW),
        path=_name(facts),
    )


def assess_write(params: WriteFile, inspect: Inspect, workspace: Workspace) -> Assessment:
    facts = inspect(params.path)
    if facts.refusal is not None:
        return refusing(facts.refusal)
    if facts.kind in (PathKind.DIRECTORY, PathKind.SPECIAL):
        return refusing(Reason("wrong_kind", f"{_name(facts)!r} is not a regular file"))
    name = _name(facts)
    if (refusal := refuse_extension(name, workspace)) is not None:
        return refusing(refusal)
    size = len(params.content.encode("utf-8", "surrogatepass"))
    if size > workspace.limits.write_max_bytes:
        limit = workspace.limits.write_max_bytes
        return refusing(Reason("too_large", f"the content has {size} bytes, the limit is {limit}"))
    extension = file_extension(name)
    reasons = tuple(_write_reasons(name, extension, facts))
    if reasons:  # the class is this one file: the next of its kind may do something else altogether
        exact = CallClass(label=f"write_file {name}", risk=Risk.HIGH)
        return Assessment(risk=Risk.HIGH, reasons=reasons, call_class=exact, path=name)
    return Assessment(
        risk=Risk.MEDIUM,
        reasons=(Reason("writes_text", f"writes {name!r}, a text or source file"),),
        call_class=CallClass(label=f"write_file *{extension}", risk=Risk.MEDIUM),
        path=name,
    )


def _write_reasons(name: str, extension: str, facts: PathFacts) -> list[Reason]:
    """What makes a write HIGH."""
    reasons: list[Reason] = []
    parts = [part.casefold() for part in name.split("/")]
    if any(part in _SELF_RUNNING_DIRECTORIES for part in parts[:-1]) or parts[-1] in _SELF_RUNNING_FILES:
        reasons.append(Reason("writes_self_running", f"{name!r} is run by other programs on their own account"))
    elif parts[:2] == [".github", "workflows"]:
        reasons.append(Reason("writes_self_running", f"{name!r} is run by the project's CI"))
    if not extension:
        reasons.append(Reason("writes_unknown", f"writes {name!r}, which has no extension"))
    elif extension not in TEXT_EXTENSIONS:
        reasons.append(Reason("writes_unknown", f"writes {name!r}: {extension!r} is not a known text or source format"))
    if facts.executable:
        reasons.append(Reason("writes_executable", f"{name!r} has its executable bit set"))
    return reasons


def file_extension(name: str) -> str:
    """The last extension, folded, with the trailing dots and spaces that some file systems ignore taken off."""
    base = name.rsplit("/", 1)[-1].rstrip(". ").casefold()
    stem, dot, extension = base.rpartition(".")
    return dot + extension if stem else ""


def refuse_extension(name: str, workspace: Workspace) -> Reason | None:
    """Why a file of this name is never written, if it is not."""
    extension = file_extension(name)
    added = {"." + each.casefold().lstrip(".") for each in workspace.policy.refused_extensions}
    if extension in REFUSED_EXTENSIONS or extension in added:
        return Reason("extension_refused", f"files ending in {extension!r} are never written")
    if _SHARED_OBJECT.search(name.casefold()):
        return Reason("extension_refused", "shared objects are never written")
    return None


def _name(facts: PathFacts) -> str:
    return facts.relative if facts.relative is not None else facts.spelled
