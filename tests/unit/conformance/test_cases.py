"""How a case is judged, and what the scripted peer takes for a request."""

from __future__ import annotations

import asyncio

from client_agent.conformance.cases import Deviation, NotTried, Outcome, Suite, Verdict, expect
from client_agent.conformance.client import code_of, expect_failed


async def run(suite: Suite[list[str]], **options: object) -> list[Outcome]:
    return [outcome async for outcome in suite.run([], **options)]  # type: ignore[arg-type]


async def test_every_end_of_a_case_has_its_verdict() -> None:
    suite: Suite[list[str]] = Suite()

    @suite.case
    async def it_holds(context: list[str]) -> str:
        """What the protocol
        says."""
        return "seen"

    @suite.case
    async def it_deviates(context: list[str]) -> str:
        expect(False, "something else")
        return "never"

    @suite.case
    async def it_cannot_be_tried(context: list[str]) -> str:
        raise NotTried("no token")

    @suite.case
    async def it_stumbles(context: list[str]) -> str:
        raise KeyError("tool_id")

    @suite.case
    async def it_hangs(context: list[str]) -> str:
        await asyncio.Event().wait()
        return "never"

    outcomes = await run(suite, timeout_s=0.05)
    assert [(outcome.case, outcome.verdict) for outcome in outcomes] == [
        ("it-holds", Verdict.PASSED),
        ("it-deviates", Verdict.FAILED),
        ("it-cannot-be-tried", Verdict.SKIPPED),
        ("it-stumbles", Verdict.FAILED),
        ("it-hangs", Verdict.FAILED),
    ]
    assert (outcomes[0].says, outcomes[0].seen) == ("What the protocol says.", "seen")
    assert [outcome.seen for outcome in outcomes[1:4]] == ["something else", "no token", "KeyError: 'tool_id'"]


async def test_only_the_named_cases_are_tried_and_each_is_prepared() -> None:
    prepared: list[str] = []

    async def prepare(context: list[str]) -> None:
        prepared.append("prepared")

    suite: Suite[list[str]] = Suite(prepare)

    @suite.case
    async def first_one(context: list[str]) -> str:
        return ""

    @suite.case
    async def second(context: list[str]) -> str:
        return ""

    assert [outcome.case for outcome in await run(suite, only="first-*")] == ["first-one"]
    assert prepared == ["prepared"]


def test_a_failure_needs_words_and_its_code_is_read_where_there_is_one() -> None:
    body = {"status": "failed", "error": "no", "result": {"error": {"code": "conflict"}}}
    assert expect_failed(body) == "conflict: no"
    assert code_of({"status": "failed", "error": "no"}) == ""
    for wrong in ({"status": "completed"}, {"status": "failed", "error": ""}, {"status": "failed"}):
        try:
            expect_failed(wrong)
        except Deviation:
            continue
        raise AssertionError(wrong)
