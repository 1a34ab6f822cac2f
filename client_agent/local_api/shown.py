"""Questions, calls, rules and grants as people see them: every text that came from a server already made honest."""

from __future__ import annotations

from typing import Any

import msgspec

from client_agent.approvals.change import count_changes
from client_agent.approvals.honest import reveal, reveal_lines
from client_agent.approvals.questions import Question
from client_agent.journal.audit import describe
from client_agent.journal.grants import StoredGrant
from client_agent.journal.records import CallRecord, Post
from client_agent.policy.decision import CallClass, Decision
from client_agent.policy.rules import Rule
from client_agent.protocol.calls import Call
from client_agent.protocol.tools import find_spec

# What a question shows at first; `questions.show` gives all of it. What is left out is always counted.
MAX_VALUE_CHARS = 8_000
MAX_DIFF_LINES = 300
MAX_LINE_CHARS = 2_000
MAX_WHOLE_CHARS = 4_000_000


def show_question(question: Question, now: float, *, whole: bool = False) -> dict[str, Any]:
    """All that a person needs to answer."""
    call, decision = question.call, question.decision
    spec = find_spec(call.tool_name)
    return {
        "id": question.id,
        "binding": question.binding,
        "workspace": question.workspace,
        "tool": reveal(call.tool_name),
        "server": question.server_id,
        "target": show_target(call, 200),
        "risk": decision.risk.name,
        "facts": [reveal(reason.text) for reason in decision.reasons],
        "parameters": _show_parameters(question, whole=whole),
        "change": _show_change(question.change, whole=whole) if question.change else None,
        "network": decision.network,
        "access": _describe_access(decision, changes=spec is None or spec.effects),
        "session": reveal(call.session_id) if call.session_id is not None else None,
        "grantable": question.grantable,
        "class": reveal(decision.call_class.label) if decision.call_class else None,
        "seconds_left": max(0.0, question.deadline - now),
        "timeout_s": question.timeout_s,
    }


def show_target(call: Call, max_chars: int) -> str:
    """What a call is about, on one line; the parameters say all of it."""
    text = reveal(describe(call)[1][: max_chars + 1])
    return text if len(text) <= max_chars else f"{text[:max_chars]}…"


def _show_parameters(question: Question, *, whole: bool) -> list[dict[str, Any]]:
    # The content of a write is what its diff shows.
    hidden = {"content"} if question.change and not question.change.startswith("(no preview") else set()
    params = question.call.tool_params
    return [_show_value(name, value, whole=whole) for name, value in params.items() if name not in hidden]


def _show_value(name: str, value: Any, *, whole: bool) -> dict[str, Any]:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    limit = MAX_WHOLE_CHARS if whole else MAX_VALUE_CHARS
    if len(text) <= limit:
        return {"name": reveal(name), "value": reveal(text), "left_out": 0}
    half = limit // 2
    left_out = len(text) - 2 * half
    shown = f"{reveal(text[:half])} ⟨{left_out} characters left out⟩ {reveal(text[-half:])}"
    return {"name": reveal(name), "value": shown, "left_out": left_out}


def _show_change(change: str, *, whole: bool) -> dict[str, Any]:
    added, removed = count_changes(change)
    lines = reveal_lines(change.rstrip("\n"))
    shown = lines if whole else lines[:MAX_DIFF_LINES]
    cut = shown if whole else [_cut(line) for line in shown]
    left_out = len(lines) - len(shown) + sum(len(line) > MAX_LINE_CHARS for line in shown) * (not whole)
    return {"added": added, "removed": removed, "lines": cut, "left_out": left_out}


def _cut(line: str) -> str:
    extra = len(line) - MAX_LINE_CHARS
    return line if extra <= 0 else f"{line[:MAX_LINE_CHARS]} ⟨{extra} characters left out⟩"


def _describe_access(decision: Decision, *, changes: bool) -> str:
    if decision.read_only or not changes:
        return "reads inside the workspace, writes nothing"
    return "may write inside the workspace"


def pack_question(question: Question) -> dict[str, Any]:
    """The question itself, for a terminal that draws it; the content that its diff shows is not sent twice."""
    call = question.call
    if question.change:
        params = {name: value for name, value in call.tool_params.items() if name != "content"}
        call = msgspec.structs.replace(call, tool_params=params)
    return {"question": msgspec.to_builtins(msgspec.structs.replace(question, call=call)), "binding": question.binding}


def show_call(record: CallRecord) -> dict[str, Any]:
    """A recorded call. Its parameters are masked already, and long ones replaced by their size and hash."""
    call = Call(tool_id=record.tool_id, tool_name=record.tool_name, tool_params=record.params or {})
    ended = record.finished_at is not None and record.started_at is not None
    return {
        "workspace": record.workspace,
        "tool_id": reveal(record.tool_id),
        "tool": reveal(record.tool_name),
        "target": show_target(call, 500),
        "risk": record.risk,
        "verdict": record.verdict,
        "code": record.decision_code,
        "state": record.state.value,
        "failure": record.failure_code,
        "facts": [reveal(reason.text) for reason in record.reasons],
        "rule_id": record.rule_id,
        "grant_id": record.grant_id,
        "approver": record.approver,
        "session": reveal(record.session_id) if record.session_id is not None else None,
        "parameters": reveal(msgspec.json.encode(record.params).decode()) if record.params is not None else None,
        "at": record.created_at,
        "took_s": (record.finished_at or 0) - (record.started_at or 0) if ended else None,
    }


def show_rule(rule: Rule) -> dict[str, Any]:
    return {**msgspec.structs.asdict(rule), "max_risk": rule.max_risk.name}


def show_grant(grant: StoredGrant) -> dict[str, Any]:
    label = CallClass.from_text(grant.command_class).label if grant.command_class else None
    return {
        "id": grant.id,
        "workspace": grant.workspace,
        "session": reveal(grant.session_id or ""),
        "covers": reveal(label) if label else "everything",
        "everything": label is None,
        "max_risk": grant.max_risk.name,
        "created_at": grant.created_at,
        "expires_at": grant.expires_at,
    }


def show_post(post: Post) -> dict[str, Any]:
    return {**msgspec.to_builtins(post), "problem": reveal(post.problem or "")}
