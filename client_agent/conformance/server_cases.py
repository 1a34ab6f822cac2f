"""Cases for servers: who is let in, what is offered, and the event stream."""

from __future__ import annotations

import asyncio

from client_agent.conformance.api import new_path
from client_agent.conformance.cases import NotTried, Suite, expect
from client_agent.conformance.server import (
    ServerUnderTest,
    answered,
    body_of,
    expect_fields,
    questioned,
    signalled,
)
from client_agent.protocol import routes
from client_agent.protocol.messages import ApprovalRequest
from client_agent.protocol.tools import SPECS

SILENCE_MAX_S = 45.0  # a client takes the connection for dead after this
UNKNOWN_ID = "conformance-unknown"
ODD_TEXT = 'line one\nline two\r\n\u2028 \u0085 tab\t \U0001f600 \\ " : data: id: event: \ufeff'

suite: Suite[ServerUnderTest] = Suite()


# Who is let in.


@suite.case
async def no_token_is_refused(server: ServerUnderTest) -> str:
    """Every address answers 401 without a token."""
    nobody = server.user.using(None)
    status = await nobody.knock(routes.STREAM)
    expect(status == 401, f"the stream answers {status}, expected 401")  # noqa: PLR2004
    answered(await nobody.get(routes.TOOLS_AVAILABLE), 401)
    for route in (routes.TOOLS_EXECUTE, routes.TOOL_RESULT, routes.APPROVE, routes.REJECT, routes.MESSAGES):
        answered(await nobody.post(route, {}, tool_id="t", approval_id="a"), 401)
    return "401 at 7 addresses"


@suite.case
async def bad_token_is_refused(server: ServerUnderTest) -> str:
    """A token that is not the server's own is answered with 401."""
    for token in ("garbage", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0."):
        answered(await server.user.using(token).get(routes.TOOLS_AVAILABLE), 401)
    return "401"


@suite.case
async def stranger_sees_nothing(server: ServerUnderTest) -> str:
    """Another user's token gets 403 or 404 for this project, and cannot answer its calls."""
    if server.stranger is None:
        raise NotTried("no token of another user was given")
    async with server.user.stream() as events:
        asked, _, signal = await signalled(server, events)
        answered(await server.stranger.get(routes.TOOLS_AVAILABLE), 403, 404)
        answered(await server.stranger.get(routes.STREAM), 403, 404)
        answered(await server.stranger.finish(signal.tool_id, {"content": "forged"}), 403, 404)
        answered(await server.user.finish(signal.tool_id, {"content": "true"}), 200)
        outcome = body_of(answered(await asked, 200))
    expect(outcome["result"].get("content") == "true", f"the agent got {outcome['result']}")
    return "403 or 404 at 3 addresses"


@suite.case
async def agent_cannot_answer_itself(server: ServerUnderTest) -> str:
    """An agent's token can neither approve nor post results."""
    if server.agent is None:
        raise NotTried("no agent's token was given")
    async with server.user.stream() as events:
        asked, _, question = await questioned(server, events)
        answered(await server.agent.approve(question.approval_id), 401, 403, 404)
        answered(await server.agent.finish(question.tool_id), 401, 403, 404, 409)
        answered(await server.user.reject(question.approval_id), 200)
        await asked
    return "refused"


# What is offered.


@suite.case
async def tools_are_listed(server: ServerUnderTest) -> str:
    """`tools/available` answers {success, tools: [...], total_count}, each tool with its parameters and risk."""
    reply = body_of(answered(await server.user.get(routes.TOOLS_AVAILABLE), 200))
    expect_fields("the answer", reply, "success", "tools", "total_count")
    expect(len(reply["tools"]) == reply["total_count"], f"total_count {reply['total_count']}, {len(reply['tools'])}")
    for tool in reply["tools"]:
        expect_fields("a tool", tool, "name", "description", "parameters", "requires_approval", "risk_level")
    known = {spec.name for spec in SPECS} & {tool["name"] for tool in reply["tools"]}
    expect({"read_file", "write_file"} <= known, f"only {sorted(known)} of the protocol's tools")
    return f"{reply['total_count']} tools"


@suite.case
async def message_is_taken(server: ServerUnderTest) -> str:
    """`chat/messages` takes the user's message with a 2xx, and answers 400 to one without content."""
    answered(await server.user.post(routes.MESSAGES, {"content": "hello"}), 200, 201, 202)
    answered(await server.user.post(routes.MESSAGES, {}), 400, 422)
    return "taken"


# The stream.


@suite.case
async def stream_is_an_event_stream(server: ServerUnderTest) -> str:
    """The stream is answered at once with 200 `text/event-stream`, and is not cached."""
    async with server.user.stream() as events:
        kind = str(events.response.headers.get("content-type", ""))
        expect(kind.partition(";")[0].strip() == "text/event-stream", f"content type {kind!r}")
        caching = events.response.headers.get("cache-control", "")
    expect("no-cache" in caching or "no-store" in caching, f"cache-control {caching!r}")
    return kind


@suite.case
async def events_have_ids_and_names(server: ServerUnderTest) -> str:
    """Each event has an `id:` of its own, and a name, in SSE's field or in the envelope."""
    async with server.user.stream() as events:
        asked, heard, signal = await signalled(server, events)
        await server.user.finish(signal.tool_id)
        acknowledged = await events.ack(signal.tool_id)
        await asked
    expect(bool(heard.event.id) and bool(acknowledged.event.id), "an event without an id")
    expect(heard.event.id != acknowledged.event.id, f"two events with the id {heard.event.id!r}")
    return f"ids {heard.event.id}, {acknowledged.event.id}"


@suite.case
async def silence_is_filled(server: ServerUnderTest) -> str:
    """A quiet stream carries a comment often enough for nobody to take it for dead: 45 s at the most."""
    async with server.user.stream() as events:
        clock = asyncio.get_running_loop().time
        before = clock()
        alive = await events.wait_for_bytes(b"\n:", SILENCE_MAX_S) or bytes(events.raw).startswith(b":")
        expect(alive, f"no comment within {SILENCE_MAX_S:g} s")
        return f"after {clock() - before:.1f} s"


@suite.case
async def any_text_survives(server: ServerUnderTest) -> str:
    """Line ends, U+2028, quotes and emoji in parameters reach the client as they were."""
    async with server.user.stream() as events:
        asked, _, question = await questioned(server, events, content=ODD_TEXT)
        seen = (question.tool_params or {}).get("content")
        await server.user.reject(question.approval_id)
        await asked
    expect(seen == ODD_TEXT, f"sent {ODD_TEXT!r}, the stream had {seen!r}")
    return f"{len(ODD_TEXT)} odd characters"


@suite.case
async def large_parameters_survive(server: ServerUnderTest) -> str:
    """A megabyte of parameters reaches the client whole."""
    content = "0123456789abcdef" * 65_536
    async with server.user.stream() as events:
        asked, _, question = await questioned(server, events, content=content)
        whole = (question.tool_params or {}).get("content") == content
        await server.user.reject(question.approval_id)
        await asked
    expect(whole, "the content was changed on its way")
    return f"{len(content)} bytes"


@suite.case
async def all_streams_hear_everything(server: ServerUnderTest) -> str:
    """Two streams of one project both get an event."""
    async with server.user.stream() as first, server.user.stream() as second:
        asked, _, signal = await signalled(server, first)
        await second.signal(signal.tool_params["path"])
        await server.user.finish(signal.tool_id)
        await asked
    return "both"


@suite.case
async def projects_are_apart(server: ServerUnderTest) -> str:
    """The events of one project are not heard in another."""
    if server.other_project is None:
        raise NotTried("no other project was named")
    other = server.user.at(server.other_project)
    async with other.stream() as elsewhere, server.user.stream() as events:
        asked, _, signal = await signalled(server, events)
        answered(await other.finish(signal.tool_id), 403, 404)
        await server.user.finish(signal.tool_id)
        await asked
        await asyncio.sleep(server.settle_s)
        expect(not elsewhere.about(signal.tool_id), "the other project heard of the call")
    return "nothing heard"


# Missed events.


@suite.case
async def resume_after_an_id(server: ServerUnderTest) -> str:
    """With `Last-Event-ID` the stream goes on after that event: what came meanwhile, in order, and once."""
    async with server.user.stream() as events:
        asked, heard, signal = await signalled(server, events)
    await server.user.finish(signal.tool_id)
    await asked
    path = new_path()
    later = server.asking.execute("read_file", {"path": path})
    async with server.user.stream(heard.event.id) as events:
        _, missed = await events.signal(path)
        await events.ack(signal.tool_id)
        await asyncio.sleep(server.settle_s)
        ids = [each.event.id for each in events.heard]
        about = events.about(signal.tool_id)
        await server.user.finish(missed.tool_id)
        await later
    expect(heard.event.id not in ids, "the event named was sent again")
    expect(len(ids) == len(set(ids)), f"an event came twice: {ids}")
    expect(about == ["ResultAck"], f"missed: one acknowledgement; came: {about}")
    return f"{len(ids)} missed events"


@suite.case
async def unknown_id_loses_nothing(server: ServerUnderTest) -> str:
    """With a `Last-Event-ID` that was never given, every open signal comes; a finished call is not signalled."""
    async with server.user.stream() as events:
        finished, _, over = await signalled(server, events)
        await server.user.finish(over.tool_id)
        await finished
        asked, _, signal = await signalled(server, events)
    async with server.user.stream(UNKNOWN_ID) as events:
        await events.signal(signal.tool_params["path"])
        await asyncio.sleep(server.settle_s)
        expect("ExecutionSignal" not in events.about(over.tool_id), "a finished call was signalled again")
    await server.user.finish(signal.tool_id)
    await asked
    return "the open signal came"


@suite.case
async def new_client_gets_what_is_open(server: ServerUnderTest) -> str:
    """Without `Last-Event-ID`, open signals and questions come."""
    async with server.user.stream() as events:
        reading, _, signal = await signalled(server, events)
        writing, _, question = await questioned(server, events)
    async with server.user.stream() as events:
        await events.signal(signal.tool_params["path"])
        await events.find(
            "the question", lambda m: isinstance(m, ApprovalRequest) and m.approval_id == question.approval_id
        )
    await server.user.finish(signal.tool_id)
    await server.user.reject(question.approval_id)
    await asyncio.gather(reading, writing)
    return "a signal and a question"
