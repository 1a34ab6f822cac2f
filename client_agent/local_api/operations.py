"""What can be asked of the daemon through its door, one method an operation."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from client_agent import __version__
from client_agent.approvals.questions import Answer, Outcome, Question, Scope
from client_agent.errors import UserError
from client_agent.journal.reader import Reader, reading
from client_agent.journal.records import CallRecord, Post, PostKind, PostState
from client_agent.local_api import rulebook
from client_agent.local_api.house import House
from client_agent.local_api.shown import pack_question, show_call, show_grant, show_post, show_question, show_rule
from client_agent.policy.rules import RuleDraft

MAX_REASON_CHARS = 500
MAX_ROWS = 500
_SCANNED_CALLS = 5_000
PLOT_BUCKETS = 60


class _Args(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Nothing(_Args, frozen=True):
    pass


class ListQuestions(_Args, frozen=True):
    packed: bool = False


class ById(_Args, frozen=True):
    id: str


class GiveAnswer(_Args, frozen=True):
    id: str
    answer: Literal["approve", "reject"]
    scope: Scope = Scope.ONCE
    reason: str = ""
    binding: str | None = None


class Resume(_Args, frozen=True):
    workspace: str
    session_id: str | None = None


class Draft(_Args, frozen=True):
    rule: dict[str, Any]


class Edit(_Args, frozen=True):
    id: str
    rule: dict[str, Any]


class Switch(_Args, frozen=True):
    name: str
    on: bool


class Look(_Args, frozen=True):
    """Filters on what happened; what is left out matches everything."""

    workspace: str | None = None
    tool: str | None = None
    risk: str | None = None
    outcome: Literal["ran", "failed", "refused", "rejected", "open"] | None = None
    text: str = ""
    limit: int = 100
    before: float | None = None


class Plot(_Args, frozen=True):
    minutes: int = 60


class OfPost(_Args, frozen=True):
    workspace: str
    kind: PostKind
    target: str


_Handler = Callable[[Any, str], Awaitable[Any]]


class Operations:
    """All of them, by name. `perform` raises UserError for what the caller can put right."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._started_at = time.time()
        self._dead = 0
        self._table: dict[str, tuple[type[_Args], _Handler]] = {
            "status": (Nothing, self._status),
            "questions.list": (ListQuestions, self._list_questions),
            "questions.show": (ById, self._show_question),
            "questions.answer": (GiveAnswer, self._answer),
            "sessions.resume": (Resume, self._resume),
            "grants.list": (Nothing, self._list_grants),
            "grants.revoke": (ById, self._revoke),
            "rules.list": (Nothing, self._list_rules),
            "rules.add": (Draft, self._add_rule),
            "rules.edit": (Edit, self._edit_rule),
            "rules.remove": (ById, self._remove_rule),
            "rules.preview": (Draft, self._preview_rule),
            "rules.preset": (Switch, self._switch_preset),
            "activity.list": (Look, self._list_activity),
            "activity.plot": (Plot, self._plot),
            "outbox.list": (Nothing, self._list_outbox),
            "outbox.retry": (OfPost, self._retry),
            "outbox.drop": (OfPost, self._drop),
        }

    async def perform(self, op: str, args: dict[str, Any], by: str) -> Any:
        """The operation's result. `by` names the channel, for the record."""
        if op not in self._table:
            raise UserError(f"there is no operation {op!r}", code="unknown_operation")
        model, handler = self._table[op]
        try:
            typed = msgspec.convert(args, model)
        except msgspec.ValidationError as error:
            raise UserError(f"{op}: {error}", code="invalid_arguments") from None
        return await handler(typed, by)

    # Status.

    def status(self) -> dict[str, Any]:
        """What is true now, without looking at the disk."""
        house = self._house
        trouble = house.journal.trouble
        return {
            "version": __version__,
            "pid": os.getpid(),
            "started_at": self._started_at,
            "questions": len(house.broker.open_questions),
            "journal_trouble": trouble.message if trouble else None,
            "paused": [msgspec.to_builtins(pause) for pause in house.broker.pauses.standing],
            "dead_posts": self._dead,
            "workspaces": {
                name: {
                    **msgspec.to_builtins(inside.status),
                    "server": inside.server,
                    "calls_open": inside.calls_open,
                    "outbox": len(inside.outbox) if inside.outbox is not None else 0,
                }
                for name, inside in house.inside.items()
            },
        }

    async def _status(self, args: Nothing, by: str) -> Any:
        await self._read_posts()
        return self.status()

    # Questions.

    async def _list_questions(self, args: ListQuestions, by: str) -> Any:
        return {"questions": self.questions(packed=args.packed)}

    def questions(self, *, packed: bool) -> list[dict[str, Any]]:
        """The open ones, oldest first."""
        broker = self._house.broker
        now = broker.now()
        return [pack_question(each) if packed else show_question(each, now) for each in broker.open_questions]

    async def _show_question(self, args: ById, by: str) -> Any:
        question = self._find_question(args.id)
        return await asyncio.to_thread(show_question, question, self._house.broker.now(), whole=True)

    async def _answer(self, args: GiveAnswer, by: str) -> Any:
        question = self._find_question(args.id)
        if args.binding is not None and args.binding != question.binding:
            raise UserError("this is not what was shown: look again", code="binding_differs")
        if args.scope is not Scope.ONCE and not question.grantable:
            raise UserError("this call belongs to no session: it can only be allowed once", code="not_grantable")
        if len(args.reason) > MAX_REASON_CHARS:
            raise UserError(f"a reason has at most {MAX_REASON_CHARS} characters", code="invalid_arguments")
        outcome = Outcome.APPROVED if args.answer == "approve" else Outcome.REJECTED
        answer = Answer(outcome=outcome, scope=args.scope, reason=args.reason, by=by)
        if not self._house.broker.answer(question.id, answer):
            raise UserError("the question was answered elsewhere, or its time was over", code="question_closed")
        return {"id": question.id, "outcome": outcome.value}

    def _find_question(self, question_id: str) -> Question:
        broker = self._house.broker
        if (question := broker.find(question_id)) is not None:
            return question
        found = [each for each in broker.open_questions if question_id and each.id.startswith(question_id)]
        if len(found) > 1:
            raise UserError(f"several questions begin with {question_id!r}", code="ambiguous")
        if not found:
            raise UserError(f"there is no open question {question_id!r}", code="question_closed")
        return found[0]

    async def _resume(self, args: Resume, by: str) -> Any:
        return {"resumed": self._house.broker.pauses.resume(args.workspace, args.session_id)}

    # Grants and rules.

    async def _list_grants(self, args: Nothing, by: str) -> Any:
        return self.grants()

    def grants(self) -> dict[str, Any]:
        return {"grants": [show_grant(each) for each in self._house.permissions.grant_store.list(now=time.time())]}

    async def _revoke(self, args: ById, by: str) -> Any:
        return {"revoked": self._house.permissions.grant_store.revoke(args.id, now=time.time())}

    async def _list_rules(self, args: Nothing, by: str) -> Any:
        return self.rules()

    def rules(self) -> dict[str, Any]:
        permissions = self._house.permissions
        return {
            "rules": [show_rule(rule) for rule in permissions.rules.rules],
            "presets": rulebook.list_presets(permissions),
        }

    async def _add_rule(self, args: Draft, by: str) -> Any:
        return rulebook.add_rule(self._house.permissions, rulebook.read_draft(args.rule))

    async def _edit_rule(self, args: Edit, by: str) -> Any:
        return rulebook.edit_rule(self._house.permissions, args.id, rulebook.read_draft(args.rule))

    async def _remove_rule(self, args: ById, by: str) -> Any:
        self._house.permissions.rule_store.remove(args.id)
        return {"removed": args.id}

    async def _preview_rule(self, args: Draft, by: str) -> Any:
        draft: RuleDraft = rulebook.read_draft(args.rule)
        return await asyncio.to_thread(rulebook.preview_rule, self._house.state_dir, draft)

    async def _switch_preset(self, args: Switch, by: str) -> Any:
        rulebook.switch_preset(self._house.permissions, args.name, on=args.on)
        return self.rules()

    # What happened.

    async def _list_activity(self, args: Look, by: str) -> Any:
        limit = max(1, min(args.limit, MAX_ROWS))
        before = args.before if args.before is not None else float("inf")

        def look(reader: Reader) -> list[CallRecord]:
            filtered = any((args.tool, args.risk, args.outcome, args.text))
            scanned = _SCANNED_CALLS if filtered else limit
            return reader.recent_calls(workspace=args.workspace, limit=scanned, before=before)

        rows = [show_call(record) for record in await self._read(look)]
        return {"calls": [row for row in rows if _fits(row, args)][:limit]}

    async def _plot(self, args: Plot, by: str) -> Any:
        """Calls of the last minutes, counted by what was decided, oldest first."""
        width_s = max(1, min(args.minutes, 60 * 24 * 7)) * 60 / PLOT_BUCKETS
        start = time.time() - width_s * PLOT_BUCKETS
        counts: dict[str, list[int]] = {kind: [0] * PLOT_BUCKETS for kind in ("run", "ask", "refuse")}
        for record in await self._read(lambda reader: reader.recent_calls(limit=_SCANNED_CALLS)):
            place = int((record.created_at - start) / width_s)
            if 0 <= place < PLOT_BUCKETS and record.verdict in counts:
                counts[record.verdict][place] += 1
        return {"start": start, "width_s": width_s, "counts": counts}

    # What the server does not have yet.

    async def _list_outbox(self, args: Nothing, by: str) -> Any:
        return {"posts": [show_post(post) for post in await self._read_posts()]}

    async def _retry(self, args: OfPost, by: str) -> Any:
        outbox = self._house.inside[args.workspace].outbox if args.workspace in self._house.inside else None
        return {"done": outbox is not None and outbox.retry(args.kind, args.target)}

    async def _drop(self, args: OfPost, by: str) -> Any:
        outbox = self._house.inside[args.workspace].outbox if args.workspace in self._house.inside else None
        return {"done": outbox is not None and outbox.drop(args.kind, args.target)}

    async def _read_posts(self) -> list[Post]:
        posts: list[Post] = await self._read(lambda reader: reader.posts_not_delivered())
        self._dead = sum(post.state is PostState.DEAD for post in posts)
        return posts

    async def _read(self, look: Callable[[Reader], Any]) -> Any:
        """The journal, in a thread: one slow disk holds up nobody."""

        def read() -> Any:
            with reading(self._house.state_dir) as reader:
                return look(reader)

        return await asyncio.to_thread(read)


def _fits(row: dict[str, Any], args: Look) -> bool:
    return (
        (args.tool is None or row["tool"] == args.tool)
        and (args.risk is None or row["risk"] == args.risk)
        and (args.outcome is None or _outcome(row) == args.outcome)
        and (not args.text or args.text.lower() in f"{row['target']} {row['tool_id']} {row['parameters']}".lower())
    )


def _outcome(row: dict[str, Any]) -> str:
    match row["state"]:
        case "COMPLETED":
            return "ran"
        case "REJECTED" | "TIMEOUT":
            return "rejected"
        case "FAILED":
            return "refused" if row["verdict"] == "refuse" else "failed"
        case _:
            return "open"
