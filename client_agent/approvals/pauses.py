"""Sessions that keep asking for what was refused: after three like refusals in a row nobody is asked for them again."""

from __future__ import annotations

import msgspec

from client_agent.approvals.honest import reveal
from client_agent.approvals.questions import Answer, Outcome, Question

LIKE_REFUSALS = 3


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is paused, and after what."""

    workspace: str
    session_id: str | None
    what: str


class Pauses:
    """Counts refusals by a person, session by session; any yes begins anew."""

    def __init__(self) -> None:
        self._refusals: dict[tuple[str, str | None], tuple[str, int]] = {}
        self._paused: dict[tuple[str, str | None], Pause] = {}

    @property
    def standing(self) -> list[Pause]:
        return list(self._paused.values())

    def find(self, question: Question) -> Pause | None:
        return self._paused.get(_session(question))

    def note(self, question: Question, answer: Answer) -> Answer:
        """The answer, with word of the pause added where this refusal brought it about."""
        session = _session(question)
        if answer.approved:
            self._refusals.pop(session, None)
        if answer.outcome is not Outcome.REJECTED:
            return answer
        what = _kind(question)
        before, count = self._refusals.get(session, (what, 0))
        count = count + 1 if before == what else 1
        self._refusals[session] = (what, count)
        if count < LIKE_REFUSALS:
            return answer
        pause = self._paused[session] = Pause(workspace=session[0], session_id=session[1], what=what)
        reason = f"{answer.reason}; {explain(pause)}" if answer.reason else explain(pause)
        return msgspec.structs.replace(answer, reason=reason)

    def resume(self, workspace: str, session_id: str | None) -> bool:
        self._refusals.pop((workspace, session_id), None)
        return self._paused.pop((workspace, session_id), None) is not None


def explain(pause: Pause) -> str:
    return (
        f"the user refused {pause.what} {LIKE_REFUSALS} times in a row, and this session is paused: "
        "nothing more is asked until the user resumes it"
    )


def _session(question: Question) -> tuple[str, str | None]:
    return question.workspace, question.call.session_id


def _kind(question: Question) -> str:
    call_class = question.decision.call_class
    return reveal(call_class.label if call_class else question.call.tool_name)
