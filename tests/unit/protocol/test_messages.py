"""Events from a server into messages: both shapes, all spellings, and everything that is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from client_agent.protocol.messages import (
    ApprovalRequest,
    Cancel,
    ExecutionSignal,
    Ignored,
    Malformed,
    ResultAck,
    decode_event,
)

SIGNAL: dict[str, Any] = {
    "tool_id": "123e4567-e89b-12d3-a456-426614174000",
    "tool_name": "execute_command",
    "tool_params": {"command": "npm", "args": ["test"], "timeout": 30},
    "timestamp": "2026-02-21T06:19:01Z",
}
REQUEST: dict[str, Any] = {
    "approval_id": "a1",
    "tool_id": "t1",
    "tool_name": "execute_command",
    "risk_level": "MEDIUM",
    "timeout_seconds": 300,
    "description": "Execute npm test",
    "timestamp": "2026-02-21T06:19:00Z",
}


@pytest.mark.parametrize("name", ["tool.execution_signal", "tool.execute"])
def test_a_signal_comes_bare_or_in_an_envelope_under_both_names(name: str) -> None:
    bare = decode_event(name, json.dumps(SIGNAL))
    wrapped = decode_event("message", json.dumps({"event": name, "data": SIGNAL}))
    both = decode_event(name, json.dumps({"event": name, "data": SIGNAL}))
    assert isinstance(bare, ExecutionSignal)
    assert bare == wrapped == both
    assert bare.to_call().tool_params == SIGNAL["tool_params"]


@pytest.mark.parametrize("name", ["tool.approval_request", "tool.approval"])
def test_an_approval_request_comes_under_both_names(name: str) -> None:
    message = decode_event(name, json.dumps(REQUEST))
    assert isinstance(message, ApprovalRequest)
    question = message.to_call()  # without parameters it is the question alone, under an id that no call can have
    assert (question.tool_id, question.asked_for, question.approval_id) == ("approval/a1", "t1", "a1")
    full = decode_event(name, json.dumps({**REQUEST, "tool_params": {"path": "a"}, "session_id": "s"}))
    assert isinstance(full, ApprovalRequest)
    call = full.to_call()
    assert call is not None
    assert (call.approval_id, call.session_id, call.server_risk) == ("a1", "s", "MEDIUM")


def test_acknowledgement_and_cancel_are_understood() -> None:
    assert decode_event("tool.result_ack", '{"tool_id":"t","status":"received"}') == ResultAck(tool_id="t")
    assert decode_event("tool.cancel", '{"tool_id":"t","reason":"x"}') == Cancel(tool_id="t", reason="x")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("chat.message", '{"text":"hi"}'),
        ("message", "hello"),
        ("message", '{"event":"chat.typing","data":{}}'),
        ("message", "[1,2]"),
        ("message", "[" * 100_000),
        ("tool.execution_signal", '{"event":"chat.typing","data":{}}'),
    ],
)
def test_what_is_not_ours_is_ignored(name: str, data: str) -> None:
    assert isinstance(decode_event(name, data), Ignored)


def test_unknown_extra_fields_are_ignored() -> None:
    for more in ({"new_field": [1]}, {"event": "other"}, {"event": "other", "data": {"tool_id": "other"}}):
        for data in ({**more, **SIGNAL}, {**SIGNAL, **more}):
            message = decode_event("tool.execute", json.dumps(data))
            assert isinstance(message, ExecutionSignal)
            assert message.tool_id == SIGNAL["tool_id"]


@pytest.mark.parametrize("field", ["tool_id", "tool_name", "tool_params"])
def test_a_missing_required_field_keeps_the_tool_id_where_it_can_be_read(field: str) -> None:
    data = {key: value for key, value in SIGNAL.items() if key != field}
    message = decode_event("tool.execute", json.dumps(data))
    assert isinstance(message, Malformed)
    assert field in message.problem
    assert message.tool_id == (None if field == "tool_id" else SIGNAL["tool_id"])


@pytest.mark.parametrize(
    "tool_id", ["", "../../x", "a/b", "a?b", "a#b", "a b", "x" * 129, "x" * 1_000_000, "é", ".", "a\nb", 7, None, ["a"]]
)
def test_a_tool_id_that_could_mean_something_in_an_address_is_refused(tool_id: Any) -> None:
    message = decode_event("tool.execute", json.dumps({**SIGNAL, "tool_id": tool_id}))
    assert isinstance(message, Malformed)
    assert message.tool_id is None


UNREADABLE = [
    r'"\ud800"', r'"\udc00 \ud83d"', r'{"\ud800": 1}', "NaN", "-Infinity", "1e999", "9" * 5000, "007", "None", "'x'",
    '"a\nb"', '"a\0b"', r'"\x41"', "[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a": {"tool_id": "other"}', "[1,]",
    "/**/", '"' + r"\"" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("value", UNREADABLE)
@pytest.mark.parametrize("name", ["tool.execute", "tool.approval_request"])
def test_the_tool_id_is_read_even_where_no_parser_takes_the_rest(name: str, value: str) -> None:
    bare = f'{{"tool_id": "t1", "tool_name": "read_file", "approval_id": "a", "tool_params": {{"path": {value}}}}}'
    for sse_name, data in [(name, bare), ("message", f'{{"event": "{name}", "data": {bare}}}')]:
        for each in (data, data.encode()):
            message = decode_event(sse_name, each)
            assert isinstance(message, Malformed)
            assert (message.name, message.tool_id) == (name, "t1")


@pytest.mark.parametrize(
    "data",
    [
        r'{"tool_id": "t1\ud800", "tool_params": NaN}',
        '{"tool_params": {"tool_id": "t1", "path": NaN}}',
        '{"tool_params": [{"tool_id": "t1"}], "a": NaN}',
        '[{"tool_id": "t1"}, NaN]',
        '[NaN], "tool_id": "t1"',
        '{"data": [NaN, "tool_id": "t1"]}',
        '{"a": "\\"tool_id\\": \\"t1\\"", "b": NaN}',
        '{"a": NaN} {"tool_id": "t1"}',
        '{"a": NaN, "tool_id": "t1',
        '{"a": NaN, "tool_id": "../t1"}',
        '{"a": NaN, "tool_id": 7}',
    ],
)
def test_a_tool_id_from_elsewhere_in_a_broken_event_is_not_taken_for_its_own(data: str) -> None:
    message = decode_event("tool.execute", data)
    assert isinstance(message, Malformed)
    assert message.tool_id is None


def test_of_two_tool_ids_the_last_one_counts_as_it_does_for_a_parser() -> None:
    twice = '{"tool_id": "t1", "tool_id": "t2", "tool_name": "x", "tool_params": '
    good, bad = decode_event("tool.execute", twice + "{}}"), decode_event("tool.execute", twice + "NaN}")
    assert isinstance(good, ExecutionSignal)
    assert isinstance(bad, Malformed)
    assert good.tool_id == bad.tool_id == "t2"


@pytest.mark.parametrize("name", ["tool.result_ack", "tool.cancel"])
def test_what_asks_for_nothing_is_not_answered_however_wrong(name: str) -> None:
    """A `failed` for a call that may have completed would be untrue."""
    for data in ('{"tool_id": "t1", "timestamp": 5}', '{"tool_id": "t1", "timestamp": NaN}'):
        message = decode_event(name, data)
        assert isinstance(message, Malformed)
        assert message.tool_id is None


def test_an_envelope_under_our_name_is_known_however_late_it_says_so() -> None:
    late = {"id": "x" * 100, "data": SIGNAL, "event": "tool.execute"}
    assert decode_event("tool.execute", json.dumps(late)) == decode_event("tool.execute", json.dumps(SIGNAL))
    assert isinstance(decode_event("tool.execute", json.dumps({**late, "event": "chat.typing"})), Ignored)


@pytest.mark.parametrize("data", ["", "{", "null", '{"tool_id":', "[" * 100_000, '"x"'])
def test_broken_json_under_our_name_is_malformed(data: str) -> None:
    assert isinstance(decode_event("tool.execute", data), Malformed)
