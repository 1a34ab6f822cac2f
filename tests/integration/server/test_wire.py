"""The wire examples of the protocol against what really goes over the wire."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from client_agent.protocol.messages import ApprovalRequest, Cancel, ExecutionSignal, ResultAck, decode_event
from tests.integration.server.harness import Api

GOLDEN = Path(__file__).parents[2] / "golden" / "wire"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OPAQUE = ("tool_params", "result")  # objects whose inside is the business of the tool
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def load(name: str) -> dict[str, Any]:
    return dict(json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8")))


def compare(example: Any, found: Any, where: str) -> None:
    """Every key of the example is there, with a value of the same kind; null in the example stands for anything."""
    if example is None:
        return
    if isinstance(example, bool | dict | list):
        assert type(found) is type(example), where
    if isinstance(example, int | float):
        assert isinstance(found, int | float), where
    if isinstance(example, str):
        assert isinstance(found, str), where
        for pattern in (UUID, TIME):
            assert not pattern.fullmatch(example) or pattern.fullmatch(found), f"{where}: {found}"
    if isinstance(example, dict):
        for key, value in example.items():
            assert key in found, f"{where}.{key} is missing"
            compare({} if key in OPAQUE else value, found[key], f"{where}.{key}")


def compare_body(golden: dict[str, Any], found: dict[str, Any]) -> None:
    example = golden["data"] if "data" in golden else golden["response"]["body"]
    compare(example, found, "$")
    for key in golden["fixed"]:
        assert found[key] == example[key]


@pytest.mark.parametrize("name", ["result_completed", "result_failed"])
def test_a_result_is_taken_and_answered_as_in_the_example(api: Api, name: str) -> None:
    golden = load(name)
    tool_id = api.submit("read_file", path="a.txt")["tool_id"]
    reply = api.post(f"/tools/{tool_id}/result", golden["request"]["body"])
    assert reply.status_code == golden["response"]["status"]
    assert reply.headers["content-type"] == "application/json"
    assert reply.json().keys() == golden["response"]["body"].keys()
    compare_body(golden, reply.json())
    assert api.record(tool_id)["result"] == golden["request"]["body"].get("result")


@pytest.mark.parametrize(("name", "verb"), [("approve", "approve"), ("reject", "reject")])
def test_a_decision_is_taken_and_answered_as_in_the_example(api: Api, name: str, verb: str) -> None:
    golden = load(name)
    approval_id = api.submit("write_file", path="a.md", content="x")["approval_id"]
    reply = api.post(f"/approvals/{approval_id}/{verb}", golden["request"]["body"])
    assert reply.status_code == golden["response"]["status"]
    assert reply.json().keys() == golden["response"]["body"].keys()
    compare_body(golden, reply.json())


def test_the_available_tools_look_as_in_the_example(api: Api) -> None:
    golden = load("tools_available")
    reply = api.get("/tools/available")
    compare_body(golden, reply.json())
    tools = {tool["name"]: tool for tool in reply.json()["tools"]}
    assert reply.json()["total_count"] == len(tools)
    for example in golden["response"]["body"]["tools"]:
        found = tools[example["name"]]
        compare(example, found, example["name"])
        for key in ("requires_approval", "risk_level", "timeout_seconds"):
            assert found[key] == example[key]


def test_an_agents_call_is_answered_as_in_the_example(api: Api) -> None:
    golden = load("execute")
    stream = api.stream()
    blocked = api.execute("read_file", path="a.txt")
    api.finish(stream.expect("tool.execution_signal").data["tool_id"], content="hello")
    reply = blocked.result()
    assert reply.status_code == golden["response"]["status"]
    assert reply.json().keys() == golden["response"]["body"].keys()
    compare_body(golden, reply.json())
    assert reply.json()["result"] == {"success": True, "content": "hello"}


def test_the_events_of_a_call_look_as_in_the_examples(api: Api) -> None:
    stream = api.stream()
    blocked = api.execute("write_file", path="a.md", content="new text")
    question = stream.expect("tool.approval_request")
    compare_body(load("event_approval_request"), question.data)
    assert question.data["tool_params"] == {"path": "a.md", "content": "new text"}
    assert question.data["server_id"] == "filesystem"
    assert question.data.keys() >= {"agent_id", "session_id", "user_id"}
    api.approve(question.data["approval_id"])
    signal = stream.expect("tool.execution_signal")
    compare_body(load("event_execution_signal"), signal.data)
    assert signal.data["tool_params"] == {"path": "a.md", "content": "new text"}
    assert signal.data["approval_id"] == question.data["approval_id"]
    assert signal.data["user_id"] == api.user_id
    api.finish(signal.data["tool_id"])
    compare_body(load("event_result_ack"), stream.expect("tool.result_ack").data)
    assert blocked.result().json()["status"] == "completed"


def test_a_cancelled_call_is_told_as_in_the_example(api: Api) -> None:
    stream = api.stream()
    tool_id = api.submit("read_file", path="a.txt")["tool_id"]
    stream.expect("tool.execution_signal")
    api.post(f"/tools/{tool_id}/cancel", {"reason": "no longer wanted"})
    cancelled = stream.expect("tool.cancel")
    compare_body(load("event_cancel"), cancelled.data)
    assert cancelled.data["tool_id"] == tool_id


@pytest.mark.parametrize("shape", ["bare", "envelope"])
def test_our_own_client_understands_every_event(api: Api, shape: str) -> None:
    stream = api.stream(query=f"?shape={shape}")
    asked = api.submit("write_file", path="a.md", content="x")
    api.approve(asked["approval_id"])
    api.post(f"/tools/{asked['tool_id']}/cancel")
    api.finish(asked["tool_id"])
    events = [stream.next_event() for _ in range(4)]
    messages = [decode_event(event.name, json.dumps(event.data)) for event in events]
    assert [type(message) for message in messages] == [ApprovalRequest, ExecutionSignal, Cancel, ResultAck]


def test_the_events_can_come_in_an_envelope(api: Api) -> None:
    stream = api.stream(query="?shape=envelope")
    tool_id = api.submit("read_file", path="a.txt")["tool_id"]
    event = stream.expect("tool.execution_signal")
    assert event.data.keys() == {"event", "data"}
    assert event.data["event"] == "tool.execution_signal"
    assert event.data["data"]["tool_id"] == tool_id
