"""What is counted while the daemon runs, and how Prometheus reads it.

The daemon only counts. The text is made by the command that asks for it, which alone needs the extra `metrics`.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from client_agent.approvals.questions import Answer
from client_agent.policy.decision import Decision
from client_agent.protocol.calls import Call
from client_agent.protocol.results import CallResult
from client_agent.protocol.states import CallState
from client_agent.protocol.tools import find_spec

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0)


class Durations(msgspec.Struct):
    """How long executions took: how many up to each bound, those beyond the last, and all together."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds


class Tally:
    """The counts of one run of the daemon, by workspace and tool."""

    def __init__(self) -> None:
        self.decided: Counter[tuple[str, str, str]] = Counter()
        self.ended: Counter[tuple[str, str, str]] = Counter()
        self.durations: dict[tuple[str, str], Durations] = {}

    def to_json(self) -> dict[str, Any]:
        return {
            "decided": [[*key, count] for key, count in self.decided.items()],
            "ended": [[*key, count] for key, count in self.ended.items()],
            "durations": [[*key, each.counts, each.sum_s] for key, each in self.durations.items()],
        }


class Recorder(Protocol):
    """Where the steps of a call are recorded (see `dispatch.Recorder`)."""

    def decided(self, call: Call, decision: Decision) -> None: ...

    def approved(self, call: Call, answer: Answer | None) -> None: ...

    async def begin(self, call: Call) -> None: ...

    async def finish(self, call: Call, state: CallState, result: CallResult, answer: Answer | None) -> None: ...


class CountedRecorder:
    """Records as the one within does, and counts."""

    def __init__(
        self, workspace: str, within: Recorder, tally: Tally, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._workspace = workspace
        self._within = within
        self._tally = tally
        self._now = now
        self._begun: dict[str, float] = {}

    def decided(self, call: Call, decision: Decision) -> None:
        self._within.decided(call, decision)
        self._tally.decided[self._workspace, _tool(call), decision.verdict.value] += 1

    def approved(self, call: Call, answer: Answer | None) -> None:
        self._within.approved(call, answer)

    async def begin(self, call: Call) -> None:
        await self._within.begin(call)
        self._begun[call.tool_id] = self._now()

    async def finish(self, call: Call, state: CallState, result: CallResult, answer: Answer | None) -> None:
        begun = self._begun.pop(call.tool_id, None)
        key = self._workspace, _tool(call)
        if begun is not None:
            self._tally.durations.setdefault(key, Durations()).add(self._now() - begun)
        self._tally.ended[*key, state.value] += 1
        await self._within.finish(call, state, result, answer)


def _tool(call: Call) -> str:
    """A name of ours: the server cannot make up ever more of them."""
    spec = find_spec(call.tool_name)
    return spec.name if spec is not None else "other"


# For the command.


def expose(told: dict[str, Any]) -> str:
    """What the daemon told, in Prometheus' text format. Raises ImportError without the extra."""
    from prometheus_client import CollectorRegistry, generate_latest

    class Once:
        def collect(self) -> Iterator[Metric]:
            yield from _counters(told["tally"])
            yield from _gauges(told["status"])

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Once())
    return generate_latest(registry).decode()


def _counters(tally: dict[str, Any]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    decided = CounterMetricFamily(
        "client_agent_calls_decided", "Calls by decision.", labels=("workspace", "tool", "decision")
    )
    for *labels, count in tally["decided"]:
        decided.add_metric(labels, count)
    ended = CounterMetricFamily("client_agent_calls_ended", "Calls by end.", labels=("workspace", "tool", "state"))
    for *labels, count in tally["ended"]:
        ended.add_metric(labels, count)
    took = HistogramMetricFamily(
        "client_agent_call_duration_seconds", "How long executions took.", labels=("workspace", "tool")
    )
    for workspace, tool, counts, sum_s in tally["durations"]:
        bounds = [*map(str, BUCKETS_S), "+Inf"]
        running = [sum(counts[: place + 1]) for place in range(len(counts))]
        took.add_metric([workspace, tool], list(zip(bounds, running, strict=True)), sum_s)
    yield from (decided, ended, took)


def _gauges(status: dict[str, Any]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

    yield InfoMetricFamily("client_agent", "The daemon.", value={"version": status["version"]})
    yield GaugeMetricFamily("client_agent_start_time_seconds", "When it started.", value=status["started_at"])
    yield GaugeMetricFamily("client_agent_questions_open", "Questions that wait.", value=status["questions"])
    yield GaugeMetricFamily("client_agent_dead_posts", "Results refused for good.", value=status["dead_posts"])
    trouble = status["journal_trouble"] is not None
    yield GaugeMetricFamily("client_agent_journal_trouble", "1 while nothing can be recorded.", value=trouble)
    of_workspaces: dict[str, tuple[str, Callable[[dict[str, Any]], float]]] = {
        "connected": ("1 while the server's stream is open.", lambda each: each["state"] == "connected"),
        "calls_open": ("Calls taken in and not ended.", lambda each: each["calls_open"]),
        "outbox_posts": ("Results and answers not delivered yet.", lambda each: each["outbox"]),
    }
    for name, (help_text, read) in of_workspaces.items():
        gauge = GaugeMetricFamily(f"client_agent_{name}", help_text, labels=("workspace",))
        for workspace, each in status["workspaces"].items():
            gauge.add_metric([workspace], read(each))
        yield gauge
