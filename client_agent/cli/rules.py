"""`client-agent rules`: what runs without a question, and what is always asked."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client_agent.cli.calls import AsJson, ToolName, ToolParams, WorkspaceDir, WorkspaceName, one_call, open_workspace
from client_agent.cli.durations import find_seconds
from client_agent.cli.printing import fail, print_json
from client_agent.cli.state import open_permissions

if TYPE_CHECKING:
    from client_agent.approvals.permissions import Permissions
    from client_agent.journal.records import CallRecord
    from client_agent.policy.rules import Rule, RuleDraft, Subject

app = typer.Typer(
    help="Permission rules: what runs without a question, and what is always asked.", no_args_is_help=True
)

_SHOWN = 10


class RiskWord(StrEnum):
    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"


Approve = Annotated[
    bool | None,
    typer.Option(
        "--auto-approve/--require-approval", help="Run matching calls unasked, or always ask.", show_default=False
    ),
]
ServerId = Annotated[str | None, typer.Option(help="The tool's server: filesystem, shell, …", show_default=False)]
ExactTool = Annotated[str | None, typer.Option("--tool-name", help="The exact tool.", show_default=False)]
ToolPattern = Annotated[str | None, typer.Option(help="Tools by pattern; * is any text.", show_default=False)]
ArgumentPattern = Annotated[
    str | None, typer.Option(help="The path (src/**), or the command line (git log ...).", show_default=False)
]
MaxRisk = Annotated[
    RiskWord | None, typer.Option(help="Approve nothing riskier; MEDIUM unless said.", show_default=False)
]
Priority = Annotated[
    int | None, typer.Option(help="The highest that matches decides; 0 unless said.", show_default=False)
]
Expires = Annotated[str | None, typer.Option(help="After 30m, 8h, 7d, or at an ISO time.", show_default=False)]
Note = Annotated[str | None, typer.Option(help="A name for people.", show_default=False)]
RuleId = Annotated[str, typer.Argument(metavar="ID", help="As `rules list` shows it; its beginning is enough.")]


@app.command("list")
def list_rules(as_json: AsJson = False) -> None:
    """List the rules in the order in which they are tried."""
    with open_permissions() as permissions:
        rules = permissions.rules.rules
    if as_json:
        print_json({"rules": [_to_json(rule) for rule in rules]})
    elif not rules:
        typer.echo("no rules: LOW calls run, all others ask. `client-agent rules preset` shows ready-made ones.")
    for rule in () if as_json else rules:
        typer.echo(_line(rule))


@app.command()
def add(
    approve: Approve = None,
    server_id: ServerId = None,
    tool_name: ExactTool = None,
    tool_pattern: ToolPattern = None,
    argument_pattern: ArgumentPattern = None,
    max_risk: MaxRisk = None,
    priority: Priority = None,
    expires: Expires = None,
    note: Note = None,
    as_json: AsJson = False,
) -> None:
    """Add a rule, in force for the next call, and show which recorded calls it matches."""
    if approve is None:
        fail("say what the rule does: --auto-approve or --require-approval")
    draft = _draft(
        None, approve, server_id, tool_name, tool_pattern, argument_pattern, max_risk, priority, expires, note
    )
    if draft.auto_approve and not any((draft.server_id, draft.tool_name, draft.tool_pattern, draft.argument_pattern)):
        fail("this would approve every call: give it a condition, or --tool-pattern '*' if you mean it")
    from client_agent.local_api.rulebook import keep_rule

    with open_permissions() as permissions:
        rule = keep_rule(permissions, draft)
    _show_matches(rule, "added", as_json)


@app.command()
def edit(
    rule_id: RuleId,
    approve: Approve = None,
    server_id: ServerId = None,
    tool_name: ExactTool = None,
    tool_pattern: ToolPattern = None,
    argument_pattern: ArgumentPattern = None,
    max_risk: MaxRisk = None,
    priority: Priority = None,
    expires: Expires = None,
    note: Note = None,
    as_json: AsJson = False,
) -> None:
    """Change what is given, keep the rest; an empty text takes a condition away."""
    import time

    import msgspec

    from client_agent.policy.rules import Rule, check_draft

    with open_permissions() as permissions:
        old = _find(permissions, rule_id)
        draft = _draft(
            old, approve, server_id, tool_name, tool_pattern, argument_pattern, max_risk, priority, expires, note
        )
        now = time.time()
        check_draft(draft, now)
        fields = msgspec.structs.asdict(draft)
        rule = Rule(**{**fields, "id": old.id, "created_at": old.created_at, "updated_at": now})
        permissions.rule_store.update(rule)
    _show_matches(rule, "changed", as_json)


@app.command()
def remove(rule_id: RuleId) -> None:
    """Remove a rule."""
    with open_permissions() as permissions:
        rule = _find(permissions, rule_id)
        permissions.rule_store.remove(rule.id)
    typer.echo(f"removed  {_line(rule)}")


@app.command()
def preset(
    name: Annotated[
        str | None, typer.Argument(help="The preset; without one they are listed.", show_default=False)
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Remove its rules again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn a ready-made set of rules on or off, or list them."""
    from client_agent.local_api.rulebook import list_presets, switch_preset

    with open_permissions() as permissions:
        if name is not None:
            count = switch_preset(permissions, name, on=not off)
            typer.echo(f"{name}: {count} rules {'removed' if off else 'in force'}")
            return
        found = list_presets(permissions)
    if as_json:
        print_json({"presets": found})
    for each in () if as_json else found:
        typer.echo(f"{each['name']:16} {'on ' if each['on'] else 'off'}  {each['title']}  ({each['rules']} rules)")


@app.command("test")
def explain_rules(
    tool: ToolName = None,
    params: ToolParams = None,
    workspace: WorkspaceDir = None,
    name: WorkspaceName = None,
    as_json: AsJson = False,
) -> None:
    """Say which rule would decide a call, which others match but come too late, and what comes of it."""
    from client_agent.approvals.honest import reveal

    call = one_call(tool, params)
    with open_permissions() as permissions, open_workspace(workspace, name, permissions) as local:
        decision, explanation = local.check(call), local.explain(call)
    if as_json:
        told = {"decides": explanation.decides and _to_json(explanation.decides)}
        print_json({**decision.to_json(), **told, "too_late": [_to_json(rule) for rule in explanation.too_late]})
        return
    typer.echo(f"{decision.verdict.value}  {decision.risk.name}  ({decision.code})")
    for reason in decision.reasons:
        typer.echo(f"  · {reveal(reason.text)}")
    typer.echo(f"decides:  {_line(explanation.decides) if explanation.decides else 'no rule'}")
    for rule in explanation.too_late:
        typer.echo(f"too late: {_line(rule)}")


@app.command()
def simulate(
    approve: Approve = None,
    server_id: ServerId = None,
    tool_name: ExactTool = None,
    tool_pattern: ToolPattern = None,
    argument_pattern: ArgumentPattern = None,
    max_risk: MaxRisk = None,
    priority: Priority = None,
    as_json: AsJson = False,
) -> None:
    """Replay the recorded calls and say what a new rule would have let through. Nothing is changed."""
    import time

    import msgspec

    from client_agent.policy.rules import Rule, RuleBook, check_draft

    if approve is None:
        fail("say what the rule would do: --auto-approve or --require-approval")
    draft = _draft(None, approve, server_id, tool_name, tool_pattern, argument_pattern, max_risk, priority, None, None)
    now = time.time()
    check_draft(draft, now)
    with open_permissions() as permissions:
        before = permissions.rules
    candidate = Rule(**msgspec.structs.asdict(draft), id="(new)", created_at=now, updated_at=now)
    after = RuleBook([*before.rules, candidate])
    rows = [
        {"call": record.tool_id, "what": f"{subject.tool_name} {subject.text}", "before": was, "after": becomes}
        for record, subject in _history()
        if (was := _verdict(before, subject, now)) != (becomes := _verdict(after, subject, now))
    ]
    if as_json:
        print_json({"changed": rows})
        return
    typer.echo(f"{len(rows)} recorded calls would have been decided otherwise")
    for row in rows:
        typer.echo(f"  {row['before']} → {row['after']}  {row['what']}")


def _draft(
    old: Rule | None,
    approve: bool | None,
    server_id: str | None,
    tool_name: str | None,
    tool_pattern: str | None,
    argument_pattern: str | None,
    max_risk: RiskWord | None,
    priority: int | None,
    expires: str | None,
    note: str | None,
) -> RuleDraft:
    """The rule a person describes, on top of the one it changes."""
    from client_agent.policy.decision import Risk
    from client_agent.policy.rules import RuleDraft

    def text(given: str | None, name: str) -> str | None:
        return (getattr(old, name) if old else None) if given is None else given or None

    return RuleDraft(
        auto_approve=approve if approve is not None else bool(old and old.auto_approve),
        server_id=text(server_id, "server_id"),
        tool_name=text(tool_name, "tool_name"),
        tool_pattern=text(tool_pattern, "tool_pattern"),
        argument_pattern=text(argument_pattern, "argument_pattern"),
        priority=priority if priority is not None else (old.priority if old else 0),
        max_risk=Risk[max_risk.value] if max_risk else (old.max_risk if old else Risk.MEDIUM),
        expires_at=_expiry(old, expires),
        note=note if note is not None else (old.note if old else ""),
    )


def _expiry(old: Rule | None, given: str | None) -> float | None:
    if given is None:
        return old.expires_at if old else None
    return _moment(given) if given else None


def _moment(text: str) -> float:
    import time
    from datetime import datetime

    if (lifetime_s := find_seconds(text)) is not None:
        return time.time() + lifetime_s
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        fail(f"--expires: found {text!r}, expected 30m, 8h, 7d or an ISO time")


def _find(permissions: Permissions, rule_id: str) -> Rule:
    found = [rule for rule in permissions.rules.rules if rule_id and rule.id.startswith(rule_id)]
    if len(found) != 1:
        fail(f"{'several rules begin' if found else 'no rule begins'} with {rule_id!r}: see `client-agent rules list`")
    return found[0]


def _history() -> list[tuple[CallRecord, Subject]]:
    from client_agent import config
    from client_agent.local_api.rulebook import read_history

    return read_history(config.state_dir(), limit=10_000)


def _verdict(book: Any, subject: Subject, now: float) -> str:
    from client_agent.policy.decision import Risk

    rule = book.match(subject, now)
    if rule is None:
        return "run" if subject.risk is Risk.LOW else "ask"
    return "run" if rule.auto_approve and subject.risk <= rule.max_risk else "ask"


def _show_matches(rule: Rule, done: str, as_json: bool) -> None:
    import time

    from client_agent.policy.rules import select_matching
    from client_agent.protocol.tools import find_spec

    matched = select_matching(rule, [subject for _, subject in _history()], time.time())
    examples = list(dict.fromkeys(f"{subject.tool_name} {subject.text}" for subject in matched))
    if as_json:
        print_json({"rule": _to_json(rule), "matches": len(matched), "examples": examples[:_SHOWN]})
        return
    typer.echo(f"{done}  {_line(rule)}")
    if rule.tool_name is not None and find_spec(rule.tool_name) is None:
        typer.echo(f"there is no tool {rule.tool_name!r} here now: `client-agent tools` lists them")
    different = f", {len(examples)} different" if len(examples) < len(matched) else ""
    typer.echo(f"of the recorded calls it matches {len(matched)}{different}" + (":" if examples else ""))
    for example in examples[:_SHOWN]:
        typer.echo(f"  {example}")
    if len(examples) > _SHOWN:
        typer.echo(f"  … and {len(examples) - _SHOWN} others")


def _line(rule: Rule) -> str:
    import time
    from datetime import UTC, datetime

    what = f"approve ≤{rule.max_risk.name}" if rule.auto_approve else "ask"
    conditions = [
        f"{name}={value!r}"
        for name in ("server_id", "tool_name", "tool_pattern", "argument_pattern")
        if (value := getattr(rule, name)) is not None
    ]
    until = f"  until {datetime.fromtimestamp(rule.expires_at, UTC):%F %TZ}" if rule.expires_at else ""
    if rule.expires_at is not None and rule.expires_at <= time.time():
        until += " (over)"
    note = f"  # {rule.note}" if rule.note else ""
    return f"{rule.id}  {rule.priority:>4}  {what:16}  {' '.join(conditions) or 'everything'}{until}{note}"


def _to_json(rule: Rule) -> dict[str, Any]:
    import msgspec

    return {**msgspec.structs.asdict(rule), "max_risk": rule.max_risk.name}
