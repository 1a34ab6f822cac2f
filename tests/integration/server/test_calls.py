"""The life of a call: states, refusals, cancelling, many at once, and what the database keeps of it."""

from __future__ import annotations

import hashlib
import http.client
import json
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from client_agent.protocol.states import CallState
from client_agent.server.problems import Conflict
from client_agent.server.records import advance
from tests.integration.server.harness import WAIT_S, Api, Connect, live_server, make_settings


def test_a_low_risk_call_runs_without_a_question_and_is_recorded(api: Api) -> None:
    stream = api.stream()
    blocked = api.execute("read_file", path="a.txt")
    signal = stream.expect("tool.execution_signal")
    assert api.record(signal.data["tool_id"])["status"] == "executing"
    api.finish(signal.data["tool_id"], content="text")
    assert blocked.result().json()["result"]["content"] == "text"
    record = api.record(signal.data["tool_id"])
    assert record["user_id"] == api.user_id
    assert record["project_id"] == api.project_id
    assert (record["status"], record["risk_level"], record["requires_approval"]) == ("completed", "LOW", False)
    assert record["error"] is None
    assert record["execution_time_ms"] >= 0
    times = [datetime.fromisoformat(record[key]) for key in ("created_at", "approved_at", "completed_at")]
    assert times == sorted(times)
    assert record["completed_at"].endswith("Z")


@pytest.mark.parametrize(
    ("tool_name", "params", "error_type"),
    [
        ("read_file", {"path": "../../etc/passwd"}, "SecurityError"),
        ("read_file", {"path": "a\0b"}, "SecurityError"),
        ("write_file", {"path": "virus.exe", "content": "x"}, "SecurityError"),
        ("read_file", {}, "ValidationError"),
        ("read_file", {"path": "a", "cwd": "/"}, "ValidationError"),
        ("format_disk", {"path": "a"}, "ValidationError"),
    ],
)
def test_a_refused_call_fails_at_once_and_is_never_signalled(
    api: Api, tool_name: str, params: dict[str, str], error_type: str
) -> None:
    stream = api.stream()
    reply = api.post("/tools/execute", {"tool_name": tool_name, "tool_params": params})
    assert reply.status_code == 200
    body = reply.json()
    assert (body["status"], body["approval_id"]) == ("failed", None)
    assert body["result"]["success"] is False
    assert body["result"]["error"]["type"] == error_type
    record = api.record(body["tool_id"])
    assert (record["status"], record["error"], record["error_type"]) == ("failed", body["error"], error_type)
    harmless = api.submit("read_file", path="a.txt")
    assert stream.expect("tool.execution_signal").data["tool_id"] == harmless["tool_id"]


def test_no_forbidden_move_between_states_is_possible() -> None:
    allowed = {
        "PENDING": {"AWAITING_APPROVAL", "APPROVED", "FAILED"},
        "AWAITING_APPROVAL": {"APPROVED", "REJECTED", "TIMEOUT", "FAILED"},
        "APPROVED": {"EXECUTING", "FAILED"},
        "EXECUTING": {"COMPLETED", "FAILED"},
    }
    for old in CallState:
        for new in CallState:
            if new in allowed.get(old, ()):
                assert advance(old, new) is new
            else:
                with pytest.raises(Conflict):
                    advance(old, new)


def test_a_call_that_is_over_takes_nothing_more(api: Api) -> None:
    done = api.submit("read_file", path="a.txt")["tool_id"]
    api.finish(done)
    rejected = api.submit("write_file", path="a.md", content="x")
    api.reject(rejected["approval_id"])
    for tool_id in (done, rejected["tool_id"]):
        before = api.record(tool_id)
        assert api.post(f"/tools/{tool_id}/result", {"status": "failed", "error": "late"}).status_code == 409
        assert api.post(f"/tools/{tool_id}/cancel").status_code == 409
        assert api.record(tool_id) == before


def test_a_cancelled_question_is_withdrawn_and_the_agent_released(api: Api) -> None:
    stream = api.stream()
    blocked = api.execute("write_file", path="a.md", content="x")
    question = stream.expect("tool.approval_request").data
    reply = api.post(f"/tools/{question['tool_id']}/cancel", {"reason": "changed my mind"})
    assert (reply.status_code, reply.json()["status"]) == (200, "failed")
    assert blocked.result().json()["error"] == "Cancelled: changed my mind"
    assert stream.expect("tool.cancel").data["reason"] == "changed my mind"
    assert api.approve(question["approval_id"]).status_code == 409
    assert api.post(f"/tools/{question['tool_id']}/cancel").status_code == 200


def test_a_cancelled_execution_ends_with_what_the_client_says(api: Api) -> None:
    stream = api.stream()
    blocked = api.execute("read_file", path="a.txt")
    tool_id = stream.expect("tool.execution_signal").data["tool_id"]
    for _ in range(2):
        assert api.post(f"/tools/{tool_id}/cancel").json()["status"] == "executing"
    stream.expect("tool.cancel")
    api.post(f"/tools/{tool_id}/result", {"status": "failed", "error": "cancelled"})
    stream.expect("tool.result_ack")
    assert blocked.result().json()["status"] == "failed"
    assert api.record(tool_id)["cancel_requested_at"] is not None


def test_a_cancelled_execution_the_client_says_nothing_about_ends_after_a_while(
    tmp_path: Path, connect: Connect
) -> None:
    with live_server(make_settings(tmp_path, cancel_grace_s=0.1)) as base_url:
        api = connect(base_url)
        blocked = api.execute("read_file", path="a.txt")
        tool_id = api.stream().expect("tool.execution_signal").data["tool_id"]
        api.post(f"/tools/{tool_id}/cancel")
        reply = blocked.result().json()
        assert reply["status"] == "failed"
        assert "unknown" in reply["error"]
        assert api.finish(tool_id).status_code == 409


@pytest.mark.parametrize(
    ("tool_name", "event"), [("write_file", "tool.approval_request"), ("read_file", "tool.execution_signal")]
)
def test_the_call_of_an_agent_that_went_away_is_cancelled_and_stays_on_record(
    api: Api, tool_name: str, event: str
) -> None:
    stream = api.stream()
    params = {"path": "a.md"} | ({"content": "x"} if tool_name == "write_file" else {})
    agent = http.client.HTTPConnection(urlsplit(api.base_url).netloc, timeout=WAIT_S)
    body = json.dumps({"tool_name": tool_name, "tool_params": params})
    agent.request("POST", urlsplit(api.url("/tools/execute")).path, body, api.headers)
    tool_id = stream.expect(event).data["tool_id"]
    agent.close()
    assert stream.expect("tool.cancel").data["tool_id"] == tool_id
    record = api.record(tool_id)
    assert record["error_type"] == "Cancelled" or record["cancel_requested_at"] is not None


def test_an_agent_is_not_kept_waiting_for_ever_and_the_late_result_is_still_taken(
    tmp_path: Path, connect: Connect
) -> None:
    with live_server(make_settings(tmp_path, result_timeout_s=0.2)) as base_url:
        api = connect(base_url)
        reply = api.execute("read_file", path="a.txt").result()
        assert reply.status_code == 200
        assert reply.json()["status"] == "executing"
        assert "no result" in reply.json()["error"]
        assert api.finish(reply.json()["tool_id"], content="late").status_code == 200
        assert api.record(reply.json()["tool_id"])["result"]["content"] == "late"


def test_fifty_calls_at_once_are_all_answered_and_none_crossed(api: Api) -> None:
    stream = api.stream()

    def answer_all() -> None:
        for _ in range(100):
            event = stream.next_event()
            if event.name == "tool.execution_signal":
                content = event.data["tool_params"]["path"]
                api.agents.submit(api.finish, event.data["tool_id"], content=content)

    client = threading.Thread(target=answer_all)
    client.start()
    with ThreadPoolExecutor(max_workers=50) as callers:
        body = {"tool_name": "read_file"}
        asked = {
            f"file-{number}.txt": callers.submit(
                api.post, "/tools/execute", body | {"tool_params": {"path": f"file-{number}.txt"}}
            )
            for number in range(50)
        }
    client.join(WAIT_S)
    assert not client.is_alive()
    replies = {path: blocked.result().json() for path, blocked in asked.items()}
    assert {path: reply["result"]["content"] for path, reply in replies.items()} == {path: path for path in asked}
    assert len({reply["tool_id"] for reply in replies.values()}) == 50


def test_the_record_holds_no_secrets_and_no_long_contents(api: Api) -> None:
    content = "word " * 100
    asked = api.submit("write_file", path="a.md", content=content)
    digest = hashlib.sha256(content.encode()).hexdigest()
    assert api.record(asked["tool_id"])["tool_params"] == {
        "path": "a.md",
        "content": f"<500 bytes, sha256 {digest}>",
    }
    secret = {"path": "x", "password": "hunter2", "nested": {"apiKey": "hunter3"}, "max_tokens": 4096}
    secret |= {
        "content": "DB_PASSWORD=hunter4 ok",
        "args": ["--token", "hunter5", "-H", "Authorization: Bearer hunter6x"],
    }
    masked = api.record(api.submit("write_file", **secret)["tool_id"])["tool_params"]
    assert "hunter" not in json.dumps(masked)
    assert masked["max_tokens"] == 4096
    assert masked["content"] == "DB_PASSWORD=*** ok"


def test_the_real_parameters_leave_the_database_when_the_call_is_over(tmp_path: Path, connect: Connect) -> None:
    marker = "find-me-in-the-file " * 20
    with live_server(make_settings(tmp_path)) as base_url:
        api = connect(base_url)
        finished = api.submit("write_file", path="a.md", content=marker)
        api.approve(finished["approval_id"])
        stream = api.stream()
        assert stream.expect("tool.execution_signal").data["tool_params"]["content"] == marker
        api.finish(finished["tool_id"])
        rejected = api.submit("write_file", path="b.md", content=marker)
        api.reject(rejected["approval_id"])
    assert (tmp_path / "server.db").stat().st_mode & 0o077 == 0
    with sqlite3.connect(tmp_path / "server.db") as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    assert marker.encode() not in (tmp_path / "server.db").read_bytes()
