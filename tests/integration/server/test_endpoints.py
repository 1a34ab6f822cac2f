"""Every endpoint and every status code, over real HTTP."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
import requests

from client_agent.server.auth import issue_token, load_secret
from tests.integration.server.harness import SECRET, WAIT_S, Api, Connect, live_server, make_settings

OTHER_SECRET = "another-secret-of-more-than-32-bytes"
ENDPOINTS = [
    ("GET", "/chat/stream"),
    ("POST", "/chat/messages"),
    ("GET", "/tools/available"),
    ("POST", "/tools/execute"),
    ("GET", "/tools"),
    ("GET", "/tools/some-id"),
    ("POST", "/tools/some-id/result"),
    ("POST", "/tools/some-id/cancel"),
    ("POST", "/approvals/some-id/approve"),
    ("POST", "/approvals/some-id/reject"),
]


def signed(secret: str = SECRET, algorithm: str = "HS256", **claims: Any) -> str:
    return jwt.encode({"sub": "u", "exp": time.time() + 60} | claims, secret, algorithm=algorithm)


# Made when the test runs: one made with the module would be refused for its age, whatever else is wrong with it.
BAD_HEADERS: dict[str, Callable[[], str | None]] = {
    "none": lambda: None,
    "empty": lambda: "",
    "no token": lambda: "Bearer",
    "not a token": lambda: "Bearer not-a-token",
    "another scheme": lambda: f"Basic {signed()}",
    "another secret": lambda: f"Bearer {signed(OTHER_SECRET)}",
    "another algorithm": lambda: f"Bearer {signed(algorithm='HS512', secret=SECRET * 2)}",
    "not signed": lambda: f"Bearer {jwt.encode({'sub': 'u', 'exp': time.time() + 60}, None, algorithm='none')}",
    "expired": lambda: f"Bearer {signed(exp=time.time() - 1)}",
    "for ever": lambda: f"Bearer {jwt.encode({'sub': 'u'}, SECRET)}",
    "no subject": lambda: f"Bearer {jwt.encode({'exp': time.time() + 60}, SECRET)}",
    "empty subject": lambda: f"Bearer {signed(sub='')}",
    "an agent that is no name": lambda: f"Bearer {signed(agent_id=7)}",
}


@pytest.mark.parametrize("kind", BAD_HEADERS)
def test_without_a_valid_token_nothing_is_answered(api: Api, kind: str) -> None:
    header = BAD_HEADERS[kind]()
    headers = {} if header is None else {"Authorization": header}
    for method, path in ENDPOINTS:
        reply = requests.request(method, api.url(path), headers=headers, timeout=WAIT_S)
        assert reply.status_code == 401, path
        assert reply.headers["www-authenticate"] == "Bearer"
        assert reply.json()["success"] is False


def test_a_project_of_another_user_does_not_exist(api: Api) -> None:
    mine = api.submit("write_file", path="a.md", content="x")
    other = api.other_user()
    for method, path in ENDPOINTS:
        real = path.replace("tools/some-id", f"tools/{mine['tool_id']}")
        real = real.replace("approvals/some-id", f"approvals/{mine['approval_id']}")
        body = {"tool_name": "read_file", "tool_params": {"path": "a"}, "content": "x", "decision": "approved"}
        body |= {"status": "completed", "result": {}}
        reply = requests.request(method, other.url(real), headers=other.headers, json=body, timeout=WAIT_S)
        assert reply.status_code == 404, path
    assert api.record(mine["tool_id"])["status"] == "awaiting_approval"


def test_a_call_of_another_project_of_the_same_user_is_not_found(api: Api, connect: Connect) -> None:
    mine = api.submit("write_file", path="a.md", content="x")
    elsewhere = connect(api.base_url, api.user_id, api.project_id + "-2")
    assert elsewhere.get(f"/tools/{mine['tool_id']}").status_code == 404
    assert elsewhere.finish(mine["tool_id"]).status_code == 404
    assert elsewhere.post(f"/tools/{mine['tool_id']}/cancel").status_code == 404
    assert elsewhere.approve(mine["approval_id"]).status_code == 404
    assert elsewhere.reject(mine["approval_id"]).status_code == 404
    assert elsewhere.get("/tools").json()["total_count"] == 0


def test_unknown_ids_are_not_found(api: Api) -> None:
    assert api.get("/tools/unknown").status_code == 404
    assert api.finish("unknown").status_code == 404
    assert api.approve("unknown").status_code == 404
    assert api.reject("unknown").status_code == 404
    assert api.post("/tools/unknown/cancel").status_code == 404
    unknown_address = api.get("/nothing/here")
    assert unknown_address.status_code == 404
    assert unknown_address.json().keys() == {"success", "message", "detail"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b'{"status": "completed"}',
        b'{"status": "completed", "result": null}',
        b'{"status": "completed", "result": "text"}',
        b'{"status": "completed", "result": [1]}',
        b'{"status": "completed", "result": {"a": "\xff"}}',
        b'{"status": "completed", "result": {"a": 1,}}',
        b'{"status": "finished", "result": {}}',
        b'{"status": "failed"}',
        b'{"status": "failed", "error": ""}',
        b'{"status": "failed", "error": 7}',
        b'{"status": "failed", "error": "x", "result": 7}',
        b'{"status": "completed", "result": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    ],
)
def test_a_result_of_the_wrong_form_is_400_and_changes_nothing(api: Api, body: bytes) -> None:
    tool_id = api.submit("read_file", path="a.txt")["tool_id"]
    reply = api.post(f"/tools/{tool_id}/result", data=body)
    assert reply.status_code == 400
    assert reply.json()["message"] == "Bad Request"
    assert reply.json()["detail"]
    assert api.record(tool_id)["status"] == "executing"


def test_each_result_of_a_batch_is_taken_or_not_by_itself(api: Api) -> None:
    first, second = (api.submit("read_file", path=path)["tool_id"] for path in ("a.txt", "b.txt"))
    items = [
        {"tool_id": first, "status": "completed", "result": {"content": "a"}},
        {"tool_id": "unknown", "status": "completed", "result": {}},
        {"tool_id": second, "status": "completed", "result": 7},
        {"tool_id": second, "status": "failed", "error": "no such file"},
        {"tool_id": first, "status": "completed", "result": {"content": "other"}},
    ]
    reply = api.post("/tools/results", json={"results": items})
    assert reply.status_code == 200
    said = [(verdict["tool_id"], verdict["code"]) for verdict in reply.json()["results"]]
    assert said == [(first, 200), ("unknown", 404), (second, 400), (second, 200), (first, 409)]
    assert [api.record(each)["status"] for each in (first, second)] == ["completed", "failed"]
    assert api.record(first)["result"] == {"content": "a"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tools/execute", {"tool_params": {}}),
        ("/tools/execute", {"tool_name": "read_file"}),
        ("/tools/execute", {"tool_name": "read_file", "tool_params": []}),
        ("/tools/execute", {"tool_name": "x" * 51, "tool_params": {}}),
        ("/tools/execute?wait=perhaps", {"tool_name": "read_file", "tool_params": {"path": "a"}}),
        ("/tools/results", {}),
        ("/tools/results", {"results": []}),
        ("/tools/results", {"results": [{"status": "completed", "result": {}}]}),
        ("/tools/results", {"results": [{"tool_id": "x", "status": "failed", "error": "e"}] * 65}),
        ("/approvals/x/approve", {}),
        ("/approvals/x/approve", {"decision": "rejected"}),
        ("/approvals/x/reject", {"reason": 7}),
        ("/tools/x/cancel", {"reason": ["no"]}),
        ("/chat/messages", {}),
        ("/chat/messages", {"content": ""}),
    ],
)
def test_a_request_of_the_wrong_form_is_400(api: Api, path: str, body: Any) -> None:
    reply = api.post(path, body)
    assert reply.status_code == 400, reply.text
    assert reply.json()["detail"]


def test_a_wrong_query_is_400_and_names_the_field(api: Api) -> None:
    for query in ("limit=0", "limit=201", "offset=-1", "status=done"):
        reply = api.get(f"/tools?{query}")
        assert reply.status_code == 400
        assert query.split("=")[0] in reply.json()["detail"]


def test_a_body_is_read_whatever_its_content_type(api: Api) -> None:
    tool_id = api.submit("read_file", path="a.txt")["tool_id"]
    body = '{"status": "completed", "result": {"success": true}}'
    headers = api.headers | {"Content-Type": "text/plain;charset=UTF-8"}
    reply = requests.post(api.url(f"/tools/{tool_id}/result"), data=body, headers=headers, timeout=WAIT_S)
    assert reply.status_code == 200


def test_a_body_over_the_limit_is_413(tmp_path: Path, connect: Connect) -> None:
    with live_server(make_settings(tmp_path, body_max_bytes=2000)) as base_url:
        api = connect(base_url)
        tool_id = api.submit("read_file", path="a.txt")["tool_id"]
        assert api.finish(tool_id, content="x" * 3000).status_code == 413
        pieces = (b"x" * 1000 for _ in range(3))  # sent in chunks, without a length
        assert api.post(f"/tools/{tool_id}/result", data=pieces).status_code == 413
        assert api.finish(tool_id, content="x" * 1000).status_code == 200


def test_a_broken_database_is_500_without_a_word_about_our_insides(tmp_path: Path, connect: Connect) -> None:
    with live_server(make_settings(tmp_path)) as base_url:
        api = connect(base_url)
        tool_id = api.submit("read_file", path="a.txt")["tool_id"]
        database = sqlite3.connect(tmp_path / "server.db")
        database.execute("ALTER TABLE tool_executions RENAME TO gone")
        database.close()
        reply = api.finish(tool_id)
        assert reply.status_code == 500
        assert reply.json()["success"] is False
        assert "tool_executions" not in reply.text
        assert requests.get(base_url + "/health", timeout=WAIT_S).status_code == 200


def test_the_same_result_again_is_taken_and_another_one_is_409(api: Api) -> None:
    tool_id = api.submit("read_file", path="a.txt")["tool_id"]
    first = api.finish(tool_id, content="one")
    same = api.post(
        f"/tools/{tool_id}/result", data='{"result":{"content":"one",  "success":true},"status":"completed"}'
    )
    other = api.finish(tool_id, content="two")
    failed = api.post(f"/tools/{tool_id}/result", {"status": "failed", "error": "x"})
    assert [first.status_code, same.status_code, other.status_code, failed.status_code] == [200, 200, 409, 409]
    assert same.json()["status"] == "completed"
    assert api.record(tool_id)["result"]["content"] == "one"


def test_the_same_failure_again_is_taken(api: Api) -> None:
    tool_id = api.submit("read_file", path="a.txt")["tool_id"]
    body = {"status": "failed", "error": "e" * 2000, "result": {"success": False, "error": {"type": "TimeoutError"}}}
    replies = [api.post(f"/tools/{tool_id}/result", body) for _ in range(2)]
    assert [reply.status_code for reply in replies] == [200, 200]
    record = api.record(tool_id)
    assert record["status"] == "failed"
    assert record["error"] == "e" * 1000
    assert record["error_type"] == "TimeoutError"


def test_a_result_for_a_call_that_was_never_signalled_is_409(api: Api) -> None:
    waiting = api.submit("write_file", path="a.md", content="x")
    refused = api.submit("read_file", path="../outside")
    assert api.finish(waiting["tool_id"]).status_code == 409
    assert api.finish(refused["tool_id"]).status_code == 409
    same_words = {"status": "failed", "error": refused["error"], "result": refused["result"]}
    assert api.post(f"/tools/{refused['tool_id']}/result", same_words).status_code == 409


def test_an_agents_token_asks_and_reads_but_never_approves_or_answers(api: Api) -> None:
    agent = api.agent("agent_coder")
    asked = agent.submit("write_file", path="a.md", content="x")
    assert agent.record(asked["tool_id"])["agent_id"] == "agent_coder"
    assert agent.approve(asked["approval_id"]).status_code == 403
    assert agent.reject(asked["approval_id"]).status_code == 403
    assert agent.finish(asked["tool_id"]).status_code == 403
    assert agent.get("/chat/stream").status_code == 403
    assert agent.post("/chat/messages", {"content": "x"}).status_code == 403
    assert api.record(asked["tool_id"])["status"] == "awaiting_approval"
    assert agent.post(f"/tools/{asked['tool_id']}/cancel").status_code == 200


def test_a_message_is_kept_and_told_to_the_stream(api: Api) -> None:
    stream = api.stream()
    text = "refactor it\r\nplease\n\ndata: \u2028 not a field"
    reply = api.post("/chat/messages", {"content": text, "session_id": "s1"})
    assert reply.status_code == 200
    event = stream.expect("chat.message")
    assert event.data["content"] == text
    assert event.data["message_id"] == reply.json()["message_id"]
    assert event.data["role"] == "user"


def test_records_are_listed_newest_first_with_filters_and_pages(api: Api) -> None:
    ids = [api.submit("read_file", path=f"{number}.txt")["tool_id"] for number in range(3)]
    waiting = api.submit("write_file", path="a.md", content="x")["tool_id"]
    in_session = {"tool_name": "list_directory", "tool_params": {}, "session_id": "s9"}
    listed = api.post("/tools/execute?wait=false", in_session).json()["tool_id"]

    def found(query: str) -> list[str]:
        return [record["id"] for record in api.get(f"/tools?{query}").json()["tools"]]

    assert found("") == [listed, waiting, *reversed(ids)]
    assert found("status=awaiting_approval") == [waiting]
    assert found("tool_name=read_file&limit=2") == [ids[2], ids[1]]
    assert found("tool_name=read_file&limit=2&offset=2") == [ids[0]]
    assert found("session_id=s9") == [listed]
    assert api.get("/tools?tool_name=read_file&limit=1").json()["total_count"] == 3


def test_health_and_the_api_page_need_no_token(shared_server: str) -> None:
    health = requests.get(shared_server + "/health", timeout=WAIT_S)
    assert health.status_code == 200
    assert health.json()["status"] == "healthy"
    assert "swagger" in requests.get(shared_server + "/docs", timeout=WAIT_S).text.lower()
    document = requests.get(shared_server + "/openapi.json", timeout=WAIT_S).json()
    documented = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    prefix = "/my/projects/{project_id}"
    for method, path in ENDPOINTS:
        template = path.replace("tools/some-id", "tools/{tool_id}").replace(
            "approvals/some-id", "approvals/{approval_id}"
        )
        assert (method, prefix + template) in documented
    body = document["paths"][prefix + "/tools/{tool_id}/result"]["post"]["requestBody"]
    name = body["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
    assert document["components"]["schemas"][name]["properties"].keys() == {"status", "result", "error"}


def test_the_secret_file_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "secret"
    secret = load_secret(path)
    assert load_secret(path) == secret
    assert path.stat().st_mode & 0o077 == 0
    assert issue_token(secret, "u")
