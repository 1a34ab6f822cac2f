"""The risk of reading, listing and writing."""

from __future__ import annotations

import msgspec
import pytest

from client_agent.config import Limits, Policy, Workspace
from client_agent.policy.decision import Assessment, Inspect, PathFacts, PathKind, Risk
from client_agent.policy.files import assess_list, assess_read, assess_write, file_extension
from client_agent.policy.paths import inspect_spelling
from client_agent.protocol.tools import ListDirectory, ReadFile, WriteFile


def write(workspace: Workspace, inspect: Inspect, path: str, content: str = "x") -> Assessment:
    return assess_write(WriteFile(path=path, content=content), inspect, workspace)


def test_looking_is_low_and_changes_nothing(inspect: Inspect) -> None:
    for found in (assess_read(ReadFile(path="a.txt"), inspect), assess_list(ListDirectory(), inspect)):
        assert (found.risk, found.refusal, found.read_only) == (Risk.LOW, None, True)


def test_looking_outside_is_refused(inspect: Inspect) -> None:
    assert assess_read(ReadFile(path="link/secret.txt"), inspect).refusal is not None
    assert assess_list(ListDirectory(path=".."), inspect).refusal is not None


@pytest.mark.parametrize("path", ["a.txt", "new.md", "src/x.py", "docs/deep/x.JSON", "x.yaml", "a.test.js"])
def test_writing_text_is_medium(workspace: Workspace, inspect: Inspect, path: str) -> None:
    found = write(workspace, inspect, path)
    assert (found.risk, found.refusal) == (Risk.MEDIUM, None)
    assert found.call_class is not None
    assert found.call_class.label == f"write_file *{file_extension(path)}"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("x.sh", "writes_unknown"),
        ("x.conf", "writes_unknown"),
        ("Makefile", "writes_unknown"),
        ("x.", "writes_unknown"),
        (".git/hooks/pre-commit.py", "writes_self_running"),
        (".GIT/config.toml", "writes_self_running"),
        (".github/workflows/ci.yml", "writes_self_running"),
        ("src/conftest.py", "writes_self_running"),
    ],
)
def test_writing_what_runs_or_is_not_known_is_high_and_a_class_of_its_own(
    workspace: Workspace, inspect: Inspect, path: str, code: str
) -> None:
    found = write(workspace, inspect, path)
    assert found.risk is Risk.HIGH
    assert code in [reason.code for reason in found.reasons]
    assert found.call_class is not None
    assert found.call_class.label == f"write_file {path}"


def test_writing_a_file_that_can_be_executed_is_high(workspace: Workspace) -> None:
    facts = PathFacts(spelled="x.py", relative="x.py", kind=PathKind.FILE, executable=True)
    assert [reason.code for reason in write(workspace, lambda _: facts, "x.py").reasons] == ["writes_executable"]


@pytest.mark.parametrize("path", ["x.exe", "x.DLL", "lib.so", "x.so.", "x.bin ", "a.pyc"])
def test_an_extension_that_is_never_written_is_refused(workspace: Workspace, inspect: Inspect, path: str) -> None:
    refusal = write(workspace, inspect, path).refusal
    assert refusal is not None
    assert refusal.code == "extension_refused"


def test_a_user_can_refuse_more_extensions(workspace: Workspace, inspect: Inspect) -> None:
    strict = msgspec.structs.replace(workspace, policy=Policy(refused_extensions=("SQL", ".lock")))
    assert write(strict, inspect, "x.sql").refusal is not None
    assert write(strict, inspect, "x.lock").refusal is not None


def test_too_much_content_and_paths_outside_are_refused(workspace: Workspace, inspect: Inspect) -> None:
    small = msgspec.structs.replace(workspace, limits=Limits(write_max_bytes=3))
    assert write(small, inspect, "a.txt", "éé").refusal is not None
    assert write(small, inspect, "a.txt", "éx").refusal is None
    assert write(workspace, inspect, "../x.txt").refusal is not None


def test_a_side_without_the_files_judges_by_the_name_it_was_given(workspace: Workspace) -> None:
    assert write(workspace, inspect_spelling, "/somewhere/x.py").path == "/somewhere/x.py"


@pytest.mark.parametrize("path", ["src", "."])
def test_a_directory_is_refused_before_anybody_is_asked(workspace: Workspace, inspect: Inspect, path: str) -> None:
    refusal = write(workspace, inspect, path).refusal
    assert refusal is not None
    assert refusal.code == "wrong_kind"


@pytest.mark.parametrize("name", ["libz.so.1", "a/LIBZ.SO.1.2.3", "x.so", "x.So. ."])
def test_shared_objects_are_refused_with_their_version_too(workspace: Workspace, inspect: Inspect, name: str) -> None:
    refusal = write(workspace, inspect, name).refusal
    assert refusal is not None
    assert refusal.code == "extension_refused"
