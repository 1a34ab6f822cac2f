"""Cases for servers: calls, their results, and approvals."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import msgspec

from client_agent.conformance.api import new_path
from client_agent.conformance.cases import NotTried, Suite, expect
from client_agent.conformance.server import (
    ServerUnderTest,
    answered,
    body_of,
    data_of,
    expect_fields,
    questioned,
    signalled,
)
from client_agent.protocol import batches, routes
from client_agent.protocol.messages import ExecutionSignal

WAITS_FOR_TIMEOUT_S = 15.0  # a longer time to decide is not waited for

suite: Suite[ServerUnderTest] = Suite()


# Calls.


@suite.case
async def call_is_carried_out(server: ServerUnderTest) -> str:
    """A harmless call is signalled; its result is taken, acknowledged on the stream and handed to the agent."""
    async with server.user.stream() as events:
        asked, heard, signal = await signalled(server, events)
        expect_fields("the signal", data_of(heard), "tool_id", "tool_name", "tool_params", "timestamp")
        reply = body_of(answered(await server.user.finish(signal.tool_id, {"content": "ü"}), 200))
        expect_fields("the answer", reply, "success", "tool_id", "status")
        await events.ack(signal.tool_id)
        outcome = body_of(answered(await asked, 200))
    expect_fields("the agent's answer", outcome, "tool_id", "tool_name", "status", "result", "error", "approval_id")
    expect(outcome["status"].lower() == "completed", f"status {outcome['status']!r}")
    expect(outcome["result"] == {"success": True, "content": "ü"}, f"result {outcome['result']}")
    return "completed"


@suite.case
async def failure_reaches_the_agent(server: ServerUnderTest) -> str:
    """A failed result ends the call as failed, with its error."""
    async with server.user.stream() as events:
        asked, _, signal = await signalled(server, events)
        body = {"status": "failed", "error": "no such file"}
        answered(await server.user.post(routes.TOOL_RESULT, body, tool_id=signal.tool_id), 200)
        outcome = body_of(answered(await asked, 200))
    expect(outcome["status"].lower() == "failed", f"status {outcome['status']!r}")
    expect("no such file" in (outcome["error"] or ""), f"error {outcome['error']!r}")
    return "failed, with the error"


@suite.case
async def same_result_again_is_taken(server: ServerUnderTest) -> str:
    """A result posted a second time is answered with 200 or 409, and changes nothing."""
    async with server.user.stream() as events:
        asked, _, signal = await signalled(server, events)
        answered(await server.user.finish(signal.tool_id, {"content": "first"}), 200)
        again = answered(await server.user.finish(signal.tool_id, {"content": "first"}), 200, 409)
        other = answered(await server.user.finish(signal.tool_id, {"content": "second"}), 409)
        outcome = body_of(await asked)
    expect(outcome["result"].get("content") == "first", f"the agent got {outcome['result']}")
    return f"again {again.status_code}, another {other.status_code}"


@suite.case
async def malformed_result_is_refused(server: ServerUnderTest) -> str:
    """A result of the wrong form is answered with 400; the right one is still taken after it."""
    bodies: list[Any] = [b"{", b"[]", {}, {"status": "done"}, {"status": "completed", "result": 7}]
    async with server.user.stream() as events:
        asked, _, signal = await signalled(server, events)
        for body in bodies:
            answered(await server.user.post(routes.TOOL_RESULT, body, tool_id=signal.tool_id), 400, 422)
        answered(await server.user.finish(signal.tool_id), 200)
        await asked
    return f"{len(bodies)} refused"


@suite.case
async def unknown_ids_are_not_found(server: ServerUnderTest) -> str:
    """A result for an unknown call and an answer to an unknown question get 404."""
    answered(await server.user.finish("conformance-unknown"), 404)
    answered(await server.user.approve("conformance-unknown"), 404)
    answered(await server.user.reject("conformance-unknown"), 404)
    return "404"


@suite.case
async def malformed_request_is_refused(server: ServerUnderTest) -> str:
    """`tools/execute` answers 400 to what is no request."""
    bodies: list[Any] = [b"{", {}, {"tool_name": "read_file", "tool_params": []}, {"tool_params": {}}]
    for body in bodies:
        answered(await server.asking.post(routes.TOOLS_EXECUTE, body), 400, 422)
    return f"{len(bodies)} refused"


@suite.case
async def impossible_call_is_never_signalled(server: ServerUnderTest) -> str:
    """An unknown tool, wrong parameters and a path outside fail at once, without a signal."""
    async with server.user.stream() as events:
        for tool, params in (
            ("no_such_tool", {}),
            ("read_file", {"path": "a", "surprise": 1}),
            ("read_file", {"path": "../../etc/passwd"}),
        ):
            response = answered(await server.asking.execute(tool, params), 200, 400, 403, 404, 422)
            if response.status_code == httpx.codes.OK:
                status = body_of(response)["status"].lower()
                expect(status in ("failed", "rejected"), f"{tool} {params}: {status}")
        await asyncio.sleep(server.settle_s)
        signals = [heard for heard in events.heard if isinstance(heard.message, ExecutionSignal)]
        paths = [heard.message.tool_params.get("path") for heard in signals]  # type: ignore[union-attr]
    expect(not {"a", "../../etc/passwd"} & set(paths), f"signalled: {paths}")
    return "3 failed at once"


@suite.case
async def fifty_calls_are_not_crossed(server: ServerUnderTest) -> str:
    """Fifty calls at once each get their own result."""
    paths = [new_path() for _ in range(50)]
    async with server.user.stream() as events:
        asked = [server.asking.execute("read_file", {"path": path}) for path in paths]
        for path in paths:
            _, signal = await events.signal(path)
            await server.user.finish(signal.tool_id, {"content": path})
        outcomes = [body_of(await each) for each in asked]
    crossed = [path for path, each in zip(paths, outcomes, strict=True) if each["result"]["content"] != path]
    expect(not crossed, f"{len(crossed)} of 50 crossed")
    return "50 right"


@suite.case
async def batch_is_taken_one_by_one(server: ServerUnderTest) -> str:
    """Where the stream offers batches, each result in one has its own answer, and a bad one spoils no other."""
    paths = [new_path() for _ in range(3)]
    async with server.user.stream() as events:
        if not batches.read_offer(events.response.headers.get(batches.HEADER, "")):
            raise NotTried("the server does not offer batches")
        asked = [server.asking.execute("read_file", {"path": path}) for path in paths]
        ids = [(await events.signal(path))[1].tool_id for path in paths]
        done = [(tool_id, _completed(path)) for tool_id, path in zip(ids, paths, strict=True)]
        body = batches.pack([done[0], ("conformance-unknown", _completed("")), *done[1:]])
        said = batches.read_verdicts(answered(await server.user.post(routes.TOOL_RESULTS, body), 200).content)
        expect(said is not None, "the answer is not one to a batch")
        codes = {tool_id: verdict.code for tool_id, verdict in (said or {}).items()}
        expect(codes == {**dict.fromkeys(ids, 200), "conformance-unknown": 404}, f"codes {codes}")
        outcomes = [body_of(await each) for each in asked]
    crossed = [path for path, each in zip(paths, outcomes, strict=True) if each["result"]["content"] != path]
    expect(not crossed, f"{len(crossed)} of 3 crossed")
    return "3 taken, 1 not found"


def _completed(content: str) -> bytes:
    return msgspec.json.encode({"status": "completed", "result": {"success": True, "content": content}})


# Approvals.


@suite.case
async def write_is_asked_about(server: ServerUnderTest) -> str:
    """A write is asked about before it is signalled; after `approve` it is, with the same parameters."""
    async with server.user.stream() as events:
        asked, heard, question = await questioned(server, events)
        needed = ("approval_id", "tool_id", "tool_name", "risk_level", "timeout_seconds", "description", "timestamp")
        expect_fields("the question", data_of(heard), *needed)
        expect("ExecutionSignal" not in events.about(question.tool_id), "it was signalled before the answer")
        reply = body_of(answered(await server.user.approve(question.approval_id), 200))
        expect_fields("the answer", reply, "success", "approval_id", "status")
        _, signal = await events.signal((question.tool_params or {})["path"])
        expect(signal.tool_params == question.tool_params, f"signalled with {signal.tool_params}")
        expect(signal.tool_id == question.tool_id, "signalled under another tool_id")
        answered(await server.user.finish(signal.tool_id), 200)
        outcome = body_of(await asked)
    expect(outcome["status"].lower() == "completed", f"status {outcome['status']!r}")
    return f"risk {question.risk_level}, {question.timeout_seconds:g} s to decide"


@suite.case
async def rejected_write_is_never_signalled(server: ServerUnderTest) -> str:
    """After `reject` the agent hears `rejected` with the reason, and there is no signal."""
    async with server.user.stream() as events:
        asked, _, question = await questioned(server, events)
        answered(await server.user.reject(question.approval_id, "not today"), 200)
        outcome = body_of(await asked)
        await asyncio.sleep(server.settle_s)
        signalled_anyway = "ExecutionSignal" in events.about(question.tool_id)
    expect(outcome["status"].lower() == "rejected", f"status {outcome['status']!r}")
    expect("not today" in (outcome["error"] or ""), f"error {outcome['error']!r}")
    expect(not signalled_anyway, "it was signalled")
    return "rejected, with the reason"


@suite.case
async def answer_is_final(server: ServerUnderTest) -> str:
    """The same answer again is taken; the opposite one gets 409 and changes nothing."""
    async with server.user.stream() as events:
        asked, _, question = await questioned(server, events)
        answered(await server.user.reject(question.approval_id), 200)
        again = answered(await server.user.reject(question.approval_id), 200, 409)
        answered(await server.user.approve(question.approval_id), 409)
        answered(await server.user.finish(question.tool_id), 404, 409)
        outcome = body_of(await asked)
    expect(outcome["status"].lower() == "rejected", f"status {outcome['status']!r}")
    return f"again {again.status_code}, the opposite 409"


@suite.case
async def malformed_approval_is_refused(server: ServerUnderTest) -> str:
    """`approve` takes {"decision": "approved"} only."""
    async with server.user.stream() as events:
        asked, _, question = await questioned(server, events)
        bodies: list[Any] = [{}, {"decision": "rejected"}, b"{"]
        for body in bodies:
            answered(await server.user.post(routes.APPROVE, body, approval_id=question.approval_id), 400, 422)
        answered(await server.user.reject(question.approval_id), 200)
        outcome = body_of(await asked)
    expect(outcome["status"].lower() == "rejected", f"status {outcome['status']!r}")
    return "3 refused"


@suite.case
async def no_answer_is_a_timeout(server: ServerUnderTest) -> str:
    """A question nobody answers in `timeout_seconds` ends the call as `timeout`; a later yes gets 409."""
    async with server.user.stream() as events:
        asked, _, question = await questioned(server, events, new_path(".sh"))
        if (limit_s := question.timeout_seconds or 0) > WAITS_FOR_TIMEOUT_S:
            await server.user.reject(question.approval_id)
            await asked
            raise NotTried(f"the server gives {limit_s:g} s; over {WAITS_FOR_TIMEOUT_S:g} s is not waited for")
        outcome = body_of(await asked)
        answered(await server.user.approve(question.approval_id), 404, 409)
    expect(outcome["status"].lower() == "timeout", f"status {outcome['status']!r}")
    expect("Approval timeout" in (outcome["error"] or ""), f"error {outcome['error']!r}")
    return f"after {limit_s:g} s"
