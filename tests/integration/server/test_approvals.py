"""Questions to the user: answered once, timed out, and kept over a restart."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from client_agent.config import Approvals
from tests.integration.server.harness import Api, Connect, live_server, make_settings


def test_a_rejection_reaches_the_agent_and_every_client(api: Api) -> None:
    stream, second = api.stream(), api.stream()
    blocked = api.execute("write_file", path="a.md", content="x")
    approval_id = stream.expect("tool.approval_request").data["approval_id"]
    second.expect("tool.approval_request")
    assert api.reject(approval_id, "not today").status_code == 200
    reply = blocked.result().json()
    assert reply["status"] == "rejected"
    assert reply["error"] == "Rejected by the user: not today"
    assert reply["approval_id"] == approval_id
    assert stream.expect("tool.cancel").data["tool_id"] == reply["tool_id"]
    assert second.expect("tool.cancel").data["tool_id"] == reply["tool_id"]


def test_the_same_decision_again_changes_nothing_and_the_opposite_is_409(api: Api) -> None:
    approved = api.submit("write_file", path="a.md", content="x")
    rejected = api.submit("write_file", path="b.md", content="x")
    stream = api.stream()
    assert [api.approve(approved["approval_id"]).status_code for _ in range(3)] == [200, 200, 200]
    assert [api.reject(rejected["approval_id"]).status_code for _ in range(3)] == [200, 200, 200]
    assert api.reject(approved["approval_id"]).status_code == 409
    assert api.approve(rejected["approval_id"]).status_code == 409
    assert api.record(approved["tool_id"])["status"] == "executing"
    assert api.record(rejected["tool_id"])["status"] == "rejected"
    names = [stream.next_event().name for _ in range(4)]
    assert names == ["tool.approval_request", "tool.approval_request", "tool.execution_signal", "tool.cancel"]


def test_contradicting_decisions_at_the_same_time_leave_one(api: Api) -> None:
    for _ in range(10):
        asked = api.submit("write_file", path="a.md", content="x")
        decisions = [api.agents.submit(decide, asked["approval_id"]) for decide in (api.approve, api.reject)]
        assert sorted(decision.result().status_code for decision in decisions) == [200, 409]


def test_the_risk_decides_how_long_the_user_has(api: Api) -> None:
    stream = api.stream()
    api.submit("write_file", path="a.md", content="x")
    medium = stream.expect("tool.approval_request").data
    api.submit("write_file", path="run.sh", content="x")
    high = stream.expect("tool.approval_request").data
    assert (medium["risk_level"], medium["timeout_seconds"]) == ("MEDIUM", 300)
    assert (high["risk_level"], high["timeout_seconds"]) == ("HIGH", 600)


def test_an_approval_times_out_and_cannot_be_given_afterwards(tmp_path: Path, connect: Connect) -> None:
    with live_server(make_settings(tmp_path, approvals=Approvals(medium_timeout_s=0.2))) as base_url:
        api = connect(base_url)
        stream = api.stream()
        reply = api.execute("write_file", path="a.md", content="x").result().json()
        assert (reply["status"], reply["error"]) == ("timeout", "Approval timeout")
        assert api.approve(reply["approval_id"]).status_code == 409
        assert api.reject(reply["approval_id"]).status_code == 409
        record = api.record(reply["tool_id"])
        assert record["status"] == "timeout"
        assert record["completed_at"] is not None
        stream.expect("tool.approval_request")
        cancelled = stream.expect("tool.cancel").data
        assert (cancelled["tool_id"], cancelled["reason"]) == (reply["tool_id"], "Approval timeout")


def test_an_open_approval_goes_on_after_a_restart(tmp_path: Path, connect: Connect) -> None:
    settings = make_settings(tmp_path)
    with live_server(settings) as base_url:
        api = connect(base_url)
        stream = api.stream()
        blocked = api.execute("write_file", path="a.md", content="the text")
        question = stream.expect("tool.approval_request")
    reply = blocked.result().json()
    assert reply["status"] == "awaiting_approval"
    assert "stopping" in reply["error"]
    with live_server(settings) as base_url:
        api = connect(base_url)
        again = api.stream().expect("tool.approval_request")
        assert again.id == question.id
        assert api.approve(question.data["approval_id"]).status_code == 200
        signal = api.stream(question.id).expect("tool.execution_signal")
        assert int(signal.id) > int(question.id)
        assert signal.data["tool_params"]["content"] == "the text"
        assert api.finish(reply["tool_id"]).status_code == 200
        assert api.record(reply["tool_id"])["status"] == "completed"
    with live_server(settings) as base_url:
        api = connect(base_url)
        assert api.record(reply["tool_id"])["status"] == "completed"
        api.submit("read_file", path="a.txt")
        assert int(api.stream().expect("tool.execution_signal").id) > int(signal.id)


def test_an_approval_whose_time_ran_out_while_the_server_was_away_times_out_at_once(
    tmp_path: Path, connect: Connect
) -> None:
    with live_server(make_settings(tmp_path)) as base_url:
        api = connect(base_url)
        asked = api.submit("write_file", path="a.md", content="x")
        after = api.stream().expect("tool.approval_request").id
    database = sqlite3.connect(tmp_path / "server.db")
    database.execute("UPDATE approvals SET expires_at = '2020-01-01 00:00:00.000000'")
    database.commit()
    database.close()
    with live_server(make_settings(tmp_path)) as base_url:
        api = connect(base_url)
        assert api.stream(after).expect("tool.cancel").data["reason"] == "Approval timeout"
        assert api.record(asked["tool_id"])["status"] == "timeout"
