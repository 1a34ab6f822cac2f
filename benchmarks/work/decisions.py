"""Deciding: `Judge.decide` itself, in this process, on typical calls, with many rules about other things."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.figures import Effort, Reading
from benchmarks.fixtures import KIB
from benchmarks.stage import FLOOR, OURS, Stage
from benchmarks.timing import Batch, take_turns
from client_agent.assembly import open_root
from client_agent.config import local_workspace
from client_agent.policy.decision import Risk
from client_agent.policy.judge import Judge
from client_agent.policy.rules import Rule, RuleBook
from client_agent.protocol.calls import Call

RULES = 1000
_TOOLS = ("read_file", "list_directory", "write_file", "execute_command")


def make_rules(count: int) -> RuleBook:
    """Rules as people write them: about one command, one directory, one tool; none is about the calls below."""
    return RuleBook(_rule(number) for number in range(count))


def _rule(number: int) -> Rule:
    tool = _TOOLS[number % len(_TOOLS)]
    pattern = f"tool-{number} run ..." if tool == "execute_command" else f"place-{number}/**"
    times: dict[str, Any] = {"created_at": float(number), "updated_at": float(number)}
    return Rule(
        id=f"rule-{number}",
        auto_approve=True,
        tool_name=tool,
        argument_pattern=pattern,
        priority=number % 10,
        max_risk=Risk.MEDIUM,
        **times,
    )


def typical_calls(stage: Stage) -> list[Call]:
    wanted: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": stage.files.text(4 * KIB)}),
        ("list_directory", {"path": ".", "recursive": True, "pattern": "*.py"}),
        ("write_file", {"path": "notes.md", "content": "x" * 400}),
        ("execute_command", {"command": "git", "args": ["status", "--short"]}),
        ("execute_command", {"command": "grep", "args": ["-rn", "fox", "."]}),
    ]
    return [Call(tool_id="typical", tool_name=name, tool_params=params) for name, params in wanted]


def decider(stage: Stage, rules: RuleBook) -> Callable[[int], Batch]:
    """Times so many rounds of the typical calls, each decision by itself."""
    workspace = local_workspace(stage.files.root)
    root, judge, calls = open_root(workspace), Judge(workspace), typical_calls(stage)

    def decide(rounds: int) -> Batch:
        latencies = []
        for _ in range(rounds):
            for call in calls:
                began = time.perf_counter()
                judge.decide(call, root.inspect, rules)
                latencies.append(time.perf_counter() - began)
        return Batch(latencies_s=latencies, wall_s=sum(latencies))

    return decide


async def with_rules(stage: Stage, effort: Effort) -> Reading:
    without, many = decider(stage, make_rules(0)), decider(stage, make_rules(RULES))
    rounds = effort.times(400)

    async def run_without() -> Batch:
        return without(rounds)

    async def run_many() -> Batch:
        return many(rounds)

    comparison = await take_turns(
        {FLOOR: run_without, OURS: run_many}, repeats=effort.repeats, budget_s=effort.budget_s
    )
    ours, floor = comparison.latencies_us(OURS), comparison.latencies_us(FLOOR)
    return Reading(ours=ours, floor=floor, ratio=comparison.ratios(OURS, FLOOR, lambda batch: batch.p50_s))
