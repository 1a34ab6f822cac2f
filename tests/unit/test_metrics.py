"""What is counted, and that Prometheus can read it."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from client_agent.metrics import BUCKETS_S, CountedRecorder, Tally, expose
from client_agent.policy.decision import Decision, Risk, Verdict
from client_agent.protocol.calls import Call
from client_agent.protocol.results import completed
from client_agent.protocol.states import CallState

STATUS = {
    "version": "1.2.3",
    "started_at": 17.0,
    "questions": 2,
    "dead_posts": 1,
    "journal_trouble": None,
    "workspaces": {
        "w": {"state": "connected", "calls_open": 3, "outbox": 4},
        "v": {"state": "retrying", "calls_open": 0, "outbox": 0},
    },
}


class Nowhere:
    def decided(self, *_: Any) -> None: ...

    def approved(self, *_: Any) -> None: ...

    async def begin(self, *_: Any) -> None: ...

    async def finish(self, *_: Any) -> None: ...


async def carry_out(recorder: CountedRecorder, tool: str, verdict: Verdict) -> None:
    call = Call(tool_id="t", tool_name=tool, tool_params={})
    recorder.decided(call, Decision(verdict=verdict, risk=Risk.LOW, reasons=(), code="x"))
    if verdict is Verdict.REFUSE:
        await recorder.finish(call, CallState.FAILED, completed({}), None)
        return
    recorder.approved(call, None)
    await recorder.begin(call)
    await recorder.finish(call, CallState.COMPLETED, completed({}), None)


async def counted() -> Tally:
    """One call of 0.05 s, one of 400 s, and one refused, of a tool that the server made up."""
    tally = Tally()
    clock = iter([0.0, 0.05, 1.0, 401.0])
    recorder = CountedRecorder("w", Nowhere(), tally, lambda: next(clock))
    await carry_out(recorder, "read_file", Verdict.RUN)
    await carry_out(recorder, "read_file", Verdict.RUN)
    await carry_out(recorder, "made_up_by_a_server", Verdict.REFUSE)
    return tally


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_calls_are_counted_by_decision_and_end_and_made_up_tools_under_one_name() -> None:
    found = samples(expose({"tally": (await counted()).to_json(), "status": STATUS}))
    decided = "client_agent_calls_decided_total"
    assert found[decided, (("decision", "run"), ("tool", "read_file"), ("workspace", "w"))] == 2
    assert found[decided, (("decision", "refuse"), ("tool", "other"), ("workspace", "w"))] == 1
    ended = "client_agent_calls_ended_total"
    assert found[ended, (("state", "COMPLETED"), ("tool", "read_file"), ("workspace", "w"))] == 2
    assert found[ended, (("state", "FAILED"), ("tool", "other"), ("workspace", "w"))] == 1
    assert "made_up" not in expose({"tally": (await counted()).to_json(), "status": STATUS})


async def test_durations_fall_into_their_buckets_and_what_never_began_has_none() -> None:
    found = samples(expose({"tally": (await counted()).to_json(), "status": STATUS}))
    labels = (("tool", "read_file"), ("workspace", "w"))
    bucket = "client_agent_call_duration_seconds_bucket"
    assert found[bucket, (("le", "0.01"), *labels)] == 0
    assert found[bucket, (("le", "0.05"), *labels)] == 1
    assert found[bucket, (("le", str(BUCKETS_S[-1])), *labels)] == 1
    assert found[bucket, (("le", "+Inf"), *labels)] == 2
    assert found["client_agent_call_duration_seconds_sum", labels] == pytest.approx(400.05)
    assert not [key for key in found if key[0] == bucket and ("tool", "other") in key[1]]


async def test_connections_questions_and_the_outbox_are_told() -> None:
    found = samples(expose({"tally": Tally().to_json(), "status": STATUS}))
    assert found["client_agent_connected", (("workspace", "w"),)] == 1
    assert found["client_agent_connected", (("workspace", "v"),)] == 0
    assert found["client_agent_outbox_posts", (("workspace", "w"),)] == 4
    assert found["client_agent_calls_open", (("workspace", "w"),)] == 3
    assert found["client_agent_questions_open", ()] == 2
    assert found["client_agent_dead_posts", ()] == 1
    assert found["client_agent_journal_trouble", ()] == 0


def test_without_the_extra_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError):
        expose({"tally": Tally().to_json(), "status": STATUS})
