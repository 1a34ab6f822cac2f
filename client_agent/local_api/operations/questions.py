"""Open questions and their answers; sessions and workspaces that stand still."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Literal

from client_agent.approvals.permissions import GRANT_LIFETIME_S, explain_pause
from client_agent.approvals.questions import Answer, Outcome, Question, Scope
from client_agent.errors import UserError
from client_agent.local_api.house import House
from client_agent.local_api.operations.operation import MAX_REASON_CHARS, Args, Table
from client_agent.local_api.shown import pack_question, show_line, show_pause, show_question

MAX_PAUSE_S = 30 * 86_400.0


class ListQuestions(Args, frozen=True):
    packed: bool = False


class ShowQuestion(Args, frozen=True):
    id: str
    whole: bool = False


class GiveAnswer(Args, frozen=True):
    id: str
    binding: str  # of what was shown
    answer: Literal["approve", "reject"]
    scope: Scope = Scope.ONCE
    for_s: float | None = None  # how long a yes beyond this call holds
    reason: str = ""


class ResumeSession(Args, frozen=True):
    workspace: str
    session_id: str | None = None


class PauseWorkspaces(Args, frozen=True):
    """These, or all of them."""

    workspaces: list[str] | None = None
    note: str = ""
    for_s: float | None = None


class ResumeWorkspaces(Args, frozen=True):
    workspaces: list[str] | None = None


class QuestionOperations:
    def __init__(self, house: House) -> None:
        self._house = house
        self.table: Table = {
            "questions.list": (ListQuestions, self._list),
            "questions.show": (ShowQuestion, self._show),
            "questions.answer": (GiveAnswer, self._answer),
            "sessions.resume": (ResumeSession, self._resume_session),
            "workspaces.pause": (PauseWorkspaces, self._pause_workspaces),
            "workspaces.resume": (ResumeWorkspaces, self._resume_workspaces),
        }

    def standing(self, *, packed: bool) -> list[dict[str, Any]]:
        """The open ones as a watcher is told of them, oldest first."""
        show = pack_question if packed else partial(show_line, now=self._house.broker.now())
        return [show(each) for each in self._house.broker.open_questions]

    async def _list(self, args: ListQuestions, by: str) -> Any:
        show = pack_question if args.packed else partial(show_question, now=self._house.broker.now())
        return {"questions": [show(each) for each in self._house.broker.open_questions]}

    async def _show(self, args: ShowQuestion, by: str) -> Any:
        question = self._find(args.id)
        return await asyncio.to_thread(show_question, question, self._house.broker.now(), whole=args.whole)

    async def _answer(self, args: GiveAnswer, by: str) -> Any:
        question = self._find(args.id)
        _check_answer(args, question)
        outcome = Outcome.APPROVED if args.answer == "approve" else Outcome.REJECTED
        answer = Answer(outcome=outcome, scope=args.scope, for_s=args.for_s, reason=args.reason, by=by)
        if not self._house.broker.answer(question.id, args.binding, answer):
            raise UserError("the question was answered elsewhere, or its time was over", code="question_closed")
        return {"id": question.id, "outcome": outcome.value}

    def _find(self, question_id: str) -> Question:
        broker = self._house.broker
        if (question := broker.find(question_id)) is not None:
            return question
        found = [each for each in broker.open_questions if question_id and each.id.startswith(question_id)]
        if len(found) > 1:
            raise UserError(f"several questions begin with {question_id!r}", code="ambiguous")
        if not found:
            raise UserError(f"there is no open question {question_id!r}", code="question_closed")
        return found[0]

    async def _resume_session(self, args: ResumeSession, by: str) -> Any:
        return {"resumed": self._house.broker.pauses.resume(args.workspace, args.session_id)}

    async def _pause_workspaces(self, args: PauseWorkspaces, by: str) -> Any:
        """What waits for an answer is withdrawn; what is being executed goes on."""
        if len(args.note) > MAX_REASON_CHARS or (args.for_s is not None and not 0 < args.for_s <= MAX_PAUSE_S):
            limits = f"at most {MAX_REASON_CHARS} characters, and a time of at most 30 days"
            raise UserError(f"a pause has a note of {limits}", code="invalid_arguments")
        names = self._choose(args.workspaces)
        pauses = [self._house.permissions.pause(name, args.note, args.for_s) for name in names]
        for question in self._house.broker.open_questions:
            if question.workspace in names:
                self._house.broker.withdraw(question.call.tool_id, explain_pause(pauses[0]))
        return {"paused": [show_pause(pause) for pause in pauses]}

    async def _resume_workspaces(self, args: ResumeWorkspaces, by: str) -> Any:
        names = self._choose(args.workspaces)
        return {"resumed": [name for name in names if self._house.permissions.resume(name)]}

    def _choose(self, names: list[str] | None) -> list[str]:
        known = list(self._house.inside)
        for name in names or ():
            if name not in known:
                raise UserError(f"there is no workspace {name!r}; there is: {', '.join(known)}", code="no_workspace")
        return known if names is None else names


def _check_answer(args: GiveAnswer, question: Question) -> None:
    """That it answers what was shown, and says no more than it may. Raises UserError."""
    if args.binding != question.binding:
        raise UserError("this is not what was shown: look again", code="binding_differs")
    if args.scope is not Scope.ONCE and not question.grantable:
        raise UserError("this call belongs to no session: it can only be allowed once", code="not_grantable")
    if args.for_s is not None and (args.scope is Scope.ONCE or not 0 < args.for_s <= GRANT_LIFETIME_S):
        text = f"a yes to a class or a session holds for at most {GRANT_LIFETIME_S / 3600:.0f} hours"
        raise UserError(f"for_s: {text}", code="invalid_arguments")
    if len(args.reason) > MAX_REASON_CHARS:
        raise UserError(f"a reason has at most {MAX_REASON_CHARS} characters", code="invalid_arguments")
