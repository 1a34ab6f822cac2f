"""Calls, results, routes, states and tool shapes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from client_agent.errors import AccessRefused, InvalidParameters
from client_agent.protocol import routes
from client_agent.protocol.calls import Call, fingerprint
from client_agent.protocol.results import completed, failed, failed_by
from client_agent.protocol.states import CallState
from client_agent.protocol.tools import SPECS, find_spec, parameter_schema, parse_params


def test_a_fingerprint_changes_with_tool_and_parameters_and_not_with_their_order() -> None:
    base = fingerprint("read_file", {"a": 1, "b": {"c": 2, "d": 3}})
    assert base == fingerprint("read_file", {"b": {"d": 3, "c": 2}, "a": 1})
    assert base != fingerprint("read_file", {"a": 1, "b": {"c": 2, "d": 4}})
    assert base != fingerprint("write_file", {"a": 1, "b": {"c": 2, "d": 3}})
    assert base == Call(tool_id="x", tool_name="read_file", tool_params={"b": {"c": 2, "d": 3}, "a": 1}).fingerprint


def test_a_completed_result_says_so_on_the_wire() -> None:
    assert completed({"size": 3}).to_wire() == {"status": "completed", "result": {"success": True, "size": 3}}


def test_a_failure_is_said_in_words_and_structured() -> None:
    wire = failed("stale", "changed meanwhile", type="ConflictError", path="a").to_wire()
    assert wire["status"] == "failed"
    assert wire["error"] == "changed meanwhile"
    assert wire["result"]["success"] is False
    assert wire["result"]["error"] == {
        "type": "ConflictError",
        "code": "stale",
        "message": "changed meanwhile",
        "details": {"path": "a"},
    }


def test_an_error_keeps_its_type_and_code_on_the_wire() -> None:
    error = failed_by(AccessRefused("no", code="path_outside", path="x")).failure
    assert error is not None
    assert (error.type, error.code, error.details) == ("SecurityError", "path_outside", {"path": "x"})


@pytest.mark.parametrize("tool_id", ["../approvals/x", "a/b", "a?b=c", "a#b", "a%2fb", "é"])
def test_a_name_in_a_route_never_adds_to_the_path(tool_id: str) -> None:
    path = routes.fill(routes.TOOL_RESULT, project_id="p", tool_id=tool_id)
    assert path.count("/") == routes.TOOL_RESULT.count("/")
    assert not set(path) & set("?#")


def test_only_the_contracts_moves_between_states_exist() -> None:
    moves = {(a.name, b.name) for a, b in itertools.product(CallState, CallState) if a.may_become(b)}
    assert moves == {
        ("PENDING", "AWAITING_APPROVAL"), ("PENDING", "APPROVED"), ("PENDING", "FAILED"),
        ("AWAITING_APPROVAL", "APPROVED"), ("AWAITING_APPROVAL", "REJECTED"), ("AWAITING_APPROVAL", "TIMEOUT"),
        ("AWAITING_APPROVAL", "FAILED"), ("APPROVED", "EXECUTING"), ("APPROVED", "FAILED"),
        ("EXECUTING", "COMPLETED"), ("EXECUTING", "FAILED"),
    }  # fmt: skip
    assert {state.name for state in CallState if state.final} == {"COMPLETED", "FAILED", "REJECTED", "TIMEOUT"}


@pytest.mark.parametrize(
    ("tool", "params", "word"),
    [
        ("read_file", {}, "path"),
        ("read_file", {"path": 3}, "str"),
        ("read_file", {"path": ""}, "length >= 1"),
        ("read_file", {"path": "x" * 5000}, "length <= 4096"),
        ("read_file", {"path": "a", "cwd": "/"}, "cwd"),
        ("read_file", [], "array"),
        ("write_file", {"path": "a", "content": "x", "mode": "truncate"}, "truncate"),
        ("write_file", {"path": "a", "content": "x", "expected_hash": "abc"}, "expected_hash"),
        ("execute_command", {"command": "ls", "timeout": 301}, "300"),
        ("execute_command", {"command": "ls", "timeout": 0}, "1"),
        ("execute_command", {"command": "ls", "args": "-la"}, "array"),
        ("execute_command", {"command": "ls", "args": [1]}, "str"),
        ("execute_command", {"command": "ls", "env": {}}, "env"),
    ],
)
def test_parameters_that_do_not_fit_are_named(tool: str, params: Any, word: str) -> None:
    spec = find_spec(tool)
    assert spec is not None
    with pytest.raises(InvalidParameters, match=word):
        parse_params(spec, params)


def test_an_alias_finds_the_same_tool() -> None:
    assert find_spec("command_executor") is find_spec("execute_command")
    assert find_spec("no_such_tool") is None


def test_every_tool_shows_its_parameters_as_a_schema() -> None:
    for spec in SPECS:
        schema = parameter_schema(spec)
        assert set(schema) == set(spec.params.__struct_fields__)
