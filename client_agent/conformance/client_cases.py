"""The cases that every client of the protocol must pass. Files are made in its workspace, and looked at there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from client_agent.conformance.cases import NotTried, Suite, expect
from client_agent.conformance.client import ClientUnderTest, Sent, expect_failed
from client_agent.conformance.peer import Answer, Peer, Request
from client_agent.protocol import batches, routes

REQUEST_EVENT = "tool.approval_request"
SIGNAL_EVENT = "tool.execution_signal"
LARGE_BYTES = 400_000

suite: Suite[ClientUnderTest] = Suite(ClientUnderTest.start_case)


def append(name: str, text: str = "ran\n") -> dict[str, Any]:
    """The parameters of a write whose executions can be counted."""
    return {"path": name, "content": text, "mode": "append"}


# What it understands.


@suite.case
async def bare_event(client: ClientUnderTest) -> str:
    """A signal whose name is in SSE's `event:` field is carried out, and its result posted."""
    return await client.expect_read(await client.signal("read_file", client.new_file()))


@suite.case
async def envelope_event(client: ClientUnderTest) -> str:
    """A signal as {"event": NAME, "data": {...}} is carried out too, whatever the SSE name."""
    first = await client.signal("read_file", client.new_file(), enveloped=True)
    second = await client.signal("read_file", client.new_file(), enveloped=True, sse_name="message")
    await client.expect_read(first)
    return await client.expect_read(second)


@suite.case
async def other_name(client: ClientUnderTest) -> str:
    """`tool.execute` is another name of `tool.execution_signal`."""
    return await client.expect_read(await client.signal("read_file", client.new_file(), name="tool.execute"))


@suite.case
async def unknown_things_are_ignored(client: ClientUnderTest) -> str:
    """Unknown events and unknown fields change nothing, and nothing is posted for them."""
    await client.send("chat.message", {"content": "hello"})
    await client.send("tool.surprise", {"tool_id": "conformance-surprise", "tool_name": "write_file"})
    sent = await client.signal("read_file", client.new_file(), surprise={"a": [1, 2]})
    await client.expect_read(sent)
    expect(not client.results("conformance-surprise"), "an unknown event was answered")
    return "ignored"


@suite.case
async def any_framing(client: ClientUnderTest) -> str:
    """CR, LF and CRLF end lines, `data:` may come in several lines, comments between, bytes one by one."""
    for end in ("\n", "\r\n", "\r"):
        sent = client.prepare("read_file", client.new_file())
        head, _, tail = sent.data.partition('"tool_name"')
        lines = [": comment", f"id: {sent.event_id}", f"event: {sent.name}", f"data:{head}", f'data: "tool_name"{tail}']
        for byte in (end.join(lines) + end + end).encode():
            await client.stream.send(bytes([byte]))
        if end == "\r":
            await client.stream.send(b": so that a lone CR is known for one\n\n")
        await client.expect_read(sent)
    return "3 line ends"


@suite.case
async def malformed_signal_is_answered(client: ClientUnderTest) -> str:
    """A signal without a required field is answered with `failed` where its tool_id can be read."""
    await client.send(SIGNAL_EVENT, {"tool_id": (tool_id := client.new_id()), "tool_name": "read_file"})
    return expect_failed(await client.result(tool_id))


@suite.case
async def nonsense_is_survived(client: ClientUnderTest) -> str:
    """What is no JSON, or has no usable tool_id, is passed by, and the next signal is carried out."""
    for data in ("{", "[]", '"x"', "{}", '{"tool_id": "../../evil", "tool_name": "read_file", "tool_params": {}}'):
        await client.send_raw(SIGNAL_EVENT, data)
    posted = len(client.peer.posts)
    await client.expect_read(await client.signal("read_file", client.new_file()))
    paths = [post.path for post in client.peer.posts[posted:]]
    expect(not any("evil" in path for path in paths), f"posted to {paths}")
    return "5 passed by"


# What it carries out, and what not.


@suite.case
async def impossible_calls_fail(client: ClientUnderTest) -> str:
    """An unknown tool, wrong parameters, a missing file and a path outside are answered with `failed` and words."""
    for tool, params in (
        ("no_such_tool", {}),
        ("read_file", {}),
        ("read_file", {"path": "conformance-missing.txt"}),
        ("read_file", {"path": "../" * 12 + "etc/passwd"}),
    ):
        body = await client.result((await client.signal(tool, params)).tool_id)
        expect_failed(body)
        expect("root:" not in str(body), "the result holds a file from outside the workspace")
    return "4 failed"


@suite.case
async def other_users_call_fails(client: ClientUnderTest) -> str:
    """A signal for another user than the token's `sub` is not carried out."""
    sent = await client.signal("read_file", client.new_file(), user_id="somebody-else")
    return expect_failed(await client.result(sent.tool_id))


@suite.case
async def unwanted_write_does_not_run(client: ClientUnderTest) -> str:
    """A signal for a write that nobody approved is asked about: after a no, nothing is written."""
    sent = await client.signal("write_file", {"path": "say-no.md", "content": "x"})
    body = await client.result(sent.tool_id, patience_s=client.person_s)
    if body["status"] == "completed":
        raise NotTried("it was approved: somebody, or a rule, says yes to everything")
    expect(not (client.workspace / "say-no.md").exists(), "the file is there all the same")
    return expect_failed(body)


@suite.case
async def hundred_calls_at_once(client: ClientUnderTest) -> str:
    """A hundred signals are each answered once, with the right content."""
    sent = [await client.signal("read_file", client.new_file()) for _ in range(100)]
    for each in sent:
        await client.expect_read(each)
    again = [each.tool_id for each in sent if len(client.results(each.tool_id)) > 1]
    expect(not again, f"{len(again)} were posted more than once, although acknowledged")
    return "100 right"


# Never twice.


@suite.case
async def repeated_signal_runs_once(client: ClientUnderTest) -> str:
    """The same signal five times, before and after the result: one execution, the same result."""
    sent = client.prepare("write_file", append("repeated.md"))
    for _ in range(3):
        await client.transmit(sent)
    first = await client.approved_result(sent)
    for _ in range(2):
        await client.transmit(sent)
    await client.result(sent.tool_id, count=len(client.results(sent.tool_id)) + 1)
    expect((client.workspace / "repeated.md").read_text() == "ran\n", "it was executed more than once")
    different = [post for post in client.results(sent.tool_id) if post.json() != first]
    expect(not different, f"{len(different)} other results for one call")
    return f"1 execution, {len(client.results(sent.tool_id))} posts"


@suite.case
async def same_id_other_parameters(client: ClientUnderTest) -> str:
    """A known tool_id with other parameters is answered with `failed`, and not executed."""
    sent = await client.signal("write_file", append("conflict.md"))
    await client.approved_result(sent)
    posted = len(client.results(sent.tool_id))
    await client.signal("write_file", append("conflict-other.md"), tool_id=sent.tool_id)
    body = await client.result(sent.tool_id, count=posted + 1)
    expect(not (client.workspace / "conflict-other.md").exists(), "it was executed")
    return expect_failed(body)


@suite.case
async def cut_event_runs_once(client: ClientUnderTest) -> str:
    """A stream cut in the middle of an event is resumed after the last whole one; the event then runs once."""
    whole = await client.signal("read_file", client.new_file())
    await client.expect_read(whole)
    sent = client.prepare("write_file", append("cut.md"))
    await client.stream.send(sent.block[: len(sent.block) // 2])
    stream = await client.reconnected(cut=True)
    expect(stream.last_event_id == whole.event_id, f"resumed after {stream.last_event_id!r}, not {whole.event_id!r}")
    await client.transmit(sent)
    await client.approved_result(sent)
    expect((client.workspace / "cut.md").read_text() == "ran\n", "it was executed more than once")
    return f"Last-Event-ID {stream.last_event_id}"


@suite.case
async def replay_from_the_start_runs_nothing(client: ClientUnderTest) -> str:
    """A server that has lost its place and sends everything again causes no second execution."""
    sent = [await client.signal("write_file", append(f"replay-{number}.md")) for number in range(5)]
    for each in sent:
        await client.approved_result(each)
    await client.reconnected(cut=True)
    counts = {each.tool_id: len(client.results(each.tool_id)) for each in sent}
    for number, each in enumerate(sent):
        await client.transmit(each, event_id=str(number + 1))
    for each in sent:
        await client.result(each.tool_id, count=counts[each.tool_id] + 1)
    twice = [n for n in range(5) if (client.workspace / f"replay-{n}.md").read_text() != "ran\n"]
    expect(not twice, f"{len(twice)} of 5 were executed again")
    return "5 answered again, none executed again"


# The connection.


@suite.case
async def stream_that_ends_is_opened_again(client: ClientUnderTest) -> str:
    """After a refusal with 503 and a connection that is cut, the client comes back and goes on."""
    refusals = [Answer(status=503, headers={"Retry-After": "1"}), Answer(reset=True), Answer(status=500)]
    client.peer.answer_stream = lambda request: refusals.pop() if refusals else None
    await client.reconnected(cut=True)
    expect(not refusals, "it came back before it was refused")
    return await client.expect_read(await client.signal("read_file", client.new_file()))


@suite.case
async def silent_stream_is_given_up(client: ClientUnderTest) -> str:
    """A connection on which nothing comes, not even a comment, is given up and opened anew."""
    before = client.stream
    before.silent = True
    clock = asyncio.get_running_loop().time
    started = clock()
    await client.reconnected(cut=False, patience_s=client.silence_s)
    return f"after {clock() - started:.0f} s"


@suite.case
async def heartbeats_keep_it_open(client: ClientUnderTest) -> str:
    """A stream with comments only is not given up."""
    before = len(client.peer.streams)
    await asyncio.sleep(client.settle_s)
    expect(len(client.peer.streams) == before and client.stream.open, "it connected anew")
    return "still open"


# Approvals.


@suite.case
async def approval_comes_before_execution(client: ClientUnderTest) -> str:
    """After `tool.approval_request` the answer is posted; only the signal starts the call; nobody is asked twice."""
    for name in (REQUEST_EVENT, "tool.approval"):
        sent = client.prepare("write_file", append(f"{name}.md"))
        approval_id = client.new_id()
        await client.request_approval(sent, approval_id, name)
        answer = await client.answer(approval_id)
        if not answer.path.endswith("/approve"):
            raise NotTried("nobody approved it")
        expect(answer.json() == {"decision": "approved"}, f"posted {answer.body[:100]!r}")
        await asyncio.sleep(client.settle_s / 4)
        expect(not (client.workspace / f"{name}.md").exists(), "it ran before the signal")
        await client.transmit(sent)
        body = await client.result(sent.tool_id)
        expect(body["status"] == "completed", f"{body}")
        expect((client.workspace / f"{name}.md").read_text() == "ran\n", "it did not run once")
    return "approved, then run once"


@suite.case
async def approval_is_for_what_was_shown(client: ClientUnderTest) -> str:
    """A signal with other parameters than were approved is asked about anew, or refused: the yes was not for it."""
    sent = client.prepare("write_file", append("shown.md"))
    approval_id = client.new_id()
    await client.request_approval(sent, approval_id)
    if not (await client.answer(approval_id)).path.endswith("/approve"):
        raise NotTried("nobody approved it")
    await client.signal("write_file", append("say-no-not-shown.md"), tool_id=sent.tool_id)
    told = expect_failed(await client.result(sent.tool_id))
    expect(not (client.workspace / "say-no-not-shown.md").exists(), "it was executed")
    return told


@suite.case
async def rejection_is_posted(client: ClientUnderTest) -> str:
    """A no is posted to `reject` with a reason, and the call does not run when it is signalled all the same."""
    sent = client.prepare("write_file", {"path": "say-no.md", "content": "asked"})
    approval_id = client.new_id()
    await client.request_approval(sent, approval_id)
    answer = await client.answer(approval_id)
    if answer.path.endswith("/approve"):
        raise NotTried("it was approved: somebody, or a rule, says yes to everything")
    expect(isinstance(answer.json().get("reason", ""), str), f"posted {answer.body[:100]!r}")
    await client.transmit(sent)
    told = expect_failed(await client.result(sent.tool_id))
    expect(not (client.workspace / "say-no.md").exists(), "it ran")
    return told


@suite.case
async def cancel_of_what_is_over(client: ClientUnderTest) -> str:
    """`tool.cancel` for a finished call, or an unknown one, changes nothing."""
    sent = await client.signal("read_file", client.new_file())
    await client.expect_read(sent)
    await client.send("tool.cancel", {"tool_id": sent.tool_id, "reason": "no longer wanted"})
    await client.send("tool.cancel", {"tool_id": client.new_id()})
    return await client.expect_read(await client.signal("read_file", client.new_file()))


# Results until they are acknowledged.


async def posted_after(client: ClientUnderTest, refusal: Answer, sent: Sent | None = None) -> list[Request]:
    """The posts of one result of which the first gets this answer, and the next one is taken."""
    sent = sent or client.prepare("read_file", client.new_file())
    path = client.result_path(sent.tool_id)
    refusals = [refusal]
    client.peer.answer_post = lambda post: refusals.pop() if post.path == path and refusals else Answer()
    await client.transmit(sent)
    await client.result(sent.tool_id, count=2)
    return client.results(sent.tool_id)


@suite.case
async def failing_server_gets_it_again(client: ClientUnderTest) -> str:
    """After 500, 502 and a reset the same result is posted again."""
    for refusal in (Answer(status=500), Answer(status=502), Answer(reset=True)):
        first, second = (await posted_after(client, refusal))[:2]
        expect(first.body == second.body, f"another body the second time: {second.body[:100]!r}")
    return "3 posted again"


@suite.case
async def retry_after_is_kept(client: ClientUnderTest) -> str:
    """After 429 and 503 with `Retry-After` the result is posted again, and not before."""
    waits = []
    for status in (429, 503):
        first, second = (await posted_after(client, Answer(status=status, headers={"Retry-After": "2"})))[:2]
        waits.append(second.at - first.at)
    expect(min(waits) >= 1.9, f"again after {min(waits):.1f} s, not 2 s")  # noqa: PLR2004 - clocks are read, not kept
    return "after " + ", ".join(f"{wait_s:.1f} s" for wait_s in waits)


@suite.case
async def too_large_is_shortened(client: ClientUnderTest) -> str:
    """After 413 the result is posted once more, shorter, and says so."""
    params = client.new_file("x" * LARGE_BYTES)
    first, second = (await posted_after(client, Answer(status=413), client.prepare("read_file", params)))[:2]
    expect(len(second.body) < len(first.body), f"{len(first.body)} bytes, then {len(second.body)}")
    expect(second.json()["result"].get("truncated") is True, "the second one does not say `truncated`")
    return f"{len(first.body)} bytes, then {len(second.body)}"


@suite.case
async def refused_result_blocks_nothing(client: ClientUnderTest) -> str:
    """After 404 or 403 a result is given up, after 409 it counts as delivered; the others go on."""
    sent = [client.prepare("read_file", client.new_file()) for _ in range(3)]
    codes = {client.result_path(each.tool_id): code for each, code in zip(sent, (404, 403, 409), strict=True)}
    client.peer.answer_post = lambda post: Answer(status=codes.get(post.path, 200))
    for each in sent:
        await client.transmit(each)
        await client.result(each.tool_id)
    await client.expect_read(await client.signal("read_file", client.new_file()))
    await asyncio.sleep(client.settle_s)
    again = [codes[client.result_path(each.tool_id)] for each in sent if len(client.results(each.tool_id)) > 1]
    expect(not again, f"posted again after {again}")
    return "none again"


@suite.case
async def acknowledgement_ends_it(client: ClientUnderTest) -> str:
    """`tool.result_ack` counts as acknowledgement, although the post itself was answered with an error."""
    sent = client.prepare("read_file", client.new_file())
    busy = Answer(status=503, headers={"Retry-After": "2"})
    path = client.result_path(sent.tool_id)
    client.peer.answer_post = lambda post: busy if post.path == path else Answer()
    await client.transmit(sent)
    await client.result(sent.tool_id)
    await client.send("tool.result_ack", {"tool_id": sent.tool_id, "status": "received"})
    await asyncio.sleep(client.settle_s)
    expect(len(client.results(sent.tool_id)) == 1, "it was posted again")
    return "1 post"


async def offered_batches(client: ClientUnderTest, answer: Callable[[Request], Answer]) -> list[Sent]:
    """Thirty signals at once, over a stream that offers batches; posts are answered so. What was signalled."""
    client.peer.stream_headers = {batches.HEADER: str(batches.MAX_RESULTS)}
    await client.reconnected(cut=True)
    client.peer.answer_post = answer
    sent = [client.prepare("read_file", client.new_file()) for _ in range(30)]
    await client.stream.send(b"".join(each.block for each in sent))
    return sent


def batch_path(client: ClientUnderTest) -> str:
    return routes.fill(routes.TOOL_RESULTS, project_id=client.peer.project_id)


@suite.case
async def offered_batches_lose_nothing(client: ClientUnderTest) -> str:
    """Where the stream offers batches, each result comes once, alone or in one; only what was not taken comes again."""
    path, refused, taken = batch_path(client), set[str](), dict[str, list[Any]]()

    def take(request: Request) -> Answer:
        items = request.json()["results"] if request.path == path else []
        first = [item["tool_id"] for item in items[:2]] if not refused else []
        refused.update(first)
        for item in items:
            taken.setdefault(item["tool_id"], []).append(item)
        said = [batches.Verdict(item["tool_id"], 503 if item["tool_id"] in first else 200) for item in items]
        return Answer(body=msgspec.json.encode(batches.BatchReply(success=True, results=said))) if items else Answer()

    sent = await offered_batches(client, take)

    def told(each: Sent) -> list[Any]:
        return taken.get(each.tool_id, []) + [post.json() for post in client.results(each.tool_id)]

    await client.peer.wait_for(
        lambda: all(len(told(each)) > (each.tool_id in refused) for each in sent), client.patience_s
    )
    await asyncio.sleep(client.settle_s)
    for each in sent:
        said, times = told(each), 1 + (each.tool_id in refused)
        expect(len(said) == times, f"a result came {len(said)} times, expected {times}")
        expect(said[0]["result"]["content"] == client.content_of(each), "a result of another call")
    if not taken:
        raise NotTried("the client makes no use of the offer, as it may")
    return f"{len(taken)} of {len(sent)} in batches"


@suite.case
async def batches_not_taken_are_sent_singly(client: ClientUnderTest) -> str:
    """A server that offers batches and answers one with 404, or with nonsense, gets every result alone."""
    path = batch_path(client)
    for refusal in (Answer(status=404), Answer(body=b"[]")):
        sent = await offered_batches(client, lambda post, r=refusal: r if post.path == path else Answer())  # type: ignore[misc]
        for each in sent:
            await client.expect_read(each)
    return "30 alone, twice"


@suite.case
async def token_goes_nowhere_else(client: ClientUnderTest) -> str:
    """A redirect to another origin is not followed with the token. (Comes last: the client may stay away after it.)"""
    async with Peer(client.peer.project_id, client.peer.token) as elsewhere:
        asked = asyncio.Event()

        def redirect(request: Request) -> Answer:
            asked.set()
            return Answer(status=307, headers={"Location": elsewhere.url + request.path})

        client.peer.answer_stream = redirect
        client.stream.cut()
        async with asyncio.timeout(client.patience_s):
            await asked.wait()
        await asyncio.sleep(client.settle_s)
        expect(not elsewhere.streams and not elsewhere.posts, "the token was sent to another origin")
    return "not followed"
