"""Questions, calls, rules and grants as people see them: every text that came from a server already made honest."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from client_agent.approvals.change import count_changes, is_diff
from client_agent.approvals.honest import reveal, reveal_content, reveal_value, shorten
from client_agent.approvals.questions import Question
from client_agent.journal.audit import describe
from client_agent.journal.grants import StoredGrant
from client_agent.journal.pauses import StoredPause
from client_agent.journal.records import CallRecord, Post
from client_agent.journal.writes import Write
from client_agent.local_api.house import PendingSettings
from client_agent.policy.decision import CallClass
from client_agent.policy.rules import Rule
from client_agent.protocol.calls import Call
from client_agent.protocol.tools import find_spec
from client_agent.sandbox import Background
from client_agent.undo import Preview

# What a question shows at first; `questions.show` gives all of it. What is left out is always counted.
MAX_VALUE_CHARS = 8_000
MAX_DIFF_LINES = 300
MAX_LINE_CHARS = 2_000
MAX_WHOLE_CHARS = 4_000_000
MAX_TARGET_CHARS = 300
MAX_FACT_CHARS = 2_000
MAX_SESSION_CHARS = 120


def show_line(question: Question, now: float) -> dict[str, Any]:
    """A question on one line, small whatever was asked for: a thousand of them are sent at once."""
    call, decision = question.call, question.decision
    spec = find_spec(call.tool_name)
    return {
        "id": question.id,
        "binding": question.binding,
        "workspace": question.workspace,
        "tool": shorten(call.tool_name, MAX_TARGET_CHARS),
        "kind": spec.name if spec else None,
        "target": shorten(_describe_exactly(call), MAX_TARGET_CHARS, reveal_value),
        "risk": decision.risk.name,
        "session": show_session(call.session_id),
        "seconds_left": max(0.0, question.deadline - now),
        "timeout_s": question.timeout_s,
    }


def show_question(question: Question, now: float, *, whole: bool = False) -> dict[str, Any]:
    """All that a person needs to answer."""
    call, decision = question.call, question.decision
    spec = find_spec(call.tool_name)
    return {
        **show_line(question, now),
        "again": question.again,
        "server": question.server_id,
        "facts": [
            shorten(reason.text, MAX_FACT_CHARS) for reason in decision.reasons if reason.code != "needs_network"
        ],
        "parameters": _show_parameters(question, whole=whole),
        "change": _show_change(question.change, whole=whole) if question.change else None,
        "network": decision.network,
        "writes": not decision.read_only and (spec is None or spec.effects),
        "grantable": question.grantable,
        "class": shorten(decision.call_class.label, MAX_TARGET_CHARS) if decision.call_class else None,
    }


def show_session(session_id: str | None) -> str | None:
    """What a server calls a session: it may be of any length."""
    return None if session_id is None else shorten(session_id, MAX_SESSION_CHARS)


def show_target(call: Call, max_chars: int) -> str:
    """What a call is about, on one line, with secrets masked."""
    return shorten(describe(call)[1], max_chars)


def _describe_exactly(call: Call) -> str:
    """What a call is about, secrets and all: whoever is asked must see what would happen."""
    command, args = call.tool_params.get("command"), call.tool_params.get("args")
    if isinstance(command, str):
        return shlex.join([command, *(str(arg) for arg in args)] if isinstance(args, list) else [command])
    return describe(call)[1]


def _show_parameters(question: Question, *, whole: bool) -> list[dict[str, Any]]:
    params = _without_content(question)
    return [_show_value(name, value, whole=whole) for name, value in params.items()]


def _without_content(question: Question) -> dict[str, Any]:
    """The parameters, but for the content of a write whose diff shows it."""
    shown = is_diff(question.change)
    return {name: value for name, value in question.call.tool_params.items() if not (shown and name == "content")}


def _show_value(name: str, value: Any, *, whole: bool) -> dict[str, Any]:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    limit = MAX_WHOLE_CHARS if whole else MAX_VALUE_CHARS
    left_out = len(text) - 2 * (limit // 2) if len(text) > limit else 0
    return {
        "name": shorten(name, MAX_TARGET_CHARS, reveal_value),
        "value": shorten(text, limit, reveal_value),
        "left_out": left_out,
    }


def _show_change(change: str, *, whole: bool) -> dict[str, Any]:
    added, removed = count_changes(change)
    lines = change.rstrip("\n").split("\n")
    shown = lines if whole else lines[:MAX_DIFF_LINES]
    limit = MAX_WHOLE_CHARS if whole else MAX_LINE_CHARS
    left_out = len(lines) - len(shown) + sum(len(line) > limit for line in shown)
    revealed = [shorten(line, limit, reveal_content) for line in shown]
    return {"added": added, "removed": removed, "lines": revealed, "left_out": left_out}


def pack_question(question: Question) -> dict[str, Any]:
    """The question itself, for a terminal that draws it; the content that its diff shows is not sent twice."""
    call = msgspec.structs.replace(question.call, tool_params=_without_content(question))
    return {"question": msgspec.to_builtins(msgspec.structs.replace(question, call=call))}


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
        "facts": [shorten(reason.text, MAX_FACT_CHARS) for reason in record.reasons],
        "rule_id": record.rule_id,
        "grant_id": record.grant_id,
        "approver": record.approver,
        "session": show_session(record.session_id),
        "parameters": reveal(msgspec.json.encode(record.params).decode()) if record.params is not None else None,
        "at": record.created_at,
        "took_s": (record.finished_at or 0) - (record.started_at or 0) if ended else None,
    }


def show_write(write: Write) -> dict[str, Any]:
    """A write that may be taken back, or the taking back of one."""
    what = "removed" if write.after is None else "changed" if write.existed else "created"
    return {
        "id": write.id,
        "workspace": write.workspace,
        "path": reveal_value(write.path),
        "what": what,
        "at": write.at,
        "undoes": write.undoes,
        "undone_by": write.undone_by,
        "kept": write.before is not None or not write.existed,
    }


def show_undo(preview: Preview, *, whole: bool = False) -> dict[str, Any]:
    """What an undo would do."""
    return {
        "write": show_write(preview.write),
        "action": preview.action.value,
        "change": _show_change(preview.change, whole=whole),
    }


def show_process(workspace: str, background: Background) -> dict[str, Any]:
    """A command in the background."""
    command, *args = background.argv
    call = Call(tool_id=background.handle, tool_name="execute_command", tool_params={"command": command, "args": args})
    ended = background.process.ended_by
    return {
        "workspace": workspace,
        "process_id": reveal(background.handle),
        "session": show_session(background.session_id),
        "command": show_target(call, 500),
        "started_at": background.started_at,
        "ends_at": background.ends_at,
        "running": background.process.is_running,
        "ended_by": ended.value if ended is not None else None,
    }


def show_rule(rule: Rule) -> dict[str, Any]:
    return {**msgspec.structs.asdict(rule), "max_risk": rule.max_risk.name}


def show_grant(grant: StoredGrant) -> dict[str, Any]:
    label = CallClass.from_text(grant.command_class).label if grant.command_class else None
    return {
        "id": grant.id,
        "workspace": grant.workspace,
        "session": show_session(grant.session_id or ""),
        "covers": shorten(label, MAX_TARGET_CHARS) if label else "everything",
        "everything": label is None,
        "max_risk": grant.max_risk.name,
        "created_at": grant.created_at,
        "expires_at": grant.expires_at,
    }


def show_pause(pause: StoredPause | None) -> dict[str, Any] | None:
    return None if pause is None else {**msgspec.structs.asdict(pause), "note": reveal(pause.note)}


def show_post(post: Post) -> dict[str, Any]:
    return {**msgspec.to_builtins(post), "problem": reveal(post.problem or "")}


def show_pending(pending: PendingSettings | None) -> dict[str, Any] | None:
    """Changed settings that allow more, and wait. The digest is what a confirmation must name."""
    if pending is None:
        return None
    widenings = [{"key": reveal(each.key), "text": reveal(each.text)} for each in pending.widenings]
    return {
        "digest": pending.digest,
        "since": pending.since,
        "declined": pending.declined,
        "widenings": widenings,
    }
