"""Opens the page for a HIGH question that nobody is there to see.

It is the server that brings this about, and the user's screen that it takes: so never beside a page, a watching command
or a terminal that is there already, and never more often than once a minute, whatever is asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from client_agent.approvals.desktop import has_screen
from client_agent.approvals.questions import Answer, Question
from client_agent.policy.decision import Risk

MIN_INTERVAL_S = 60.0


class PageOpener:
    """A channel of the broker that reaches nobody by itself."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        open_page: Callable[[], None],
        wanted: Callable[[str], bool],
        watched: Callable[[], bool],
        screen: Callable[[], bool] = has_screen,
    ) -> None:
        self._now = now
        self._open_page = open_page
        self._wanted = wanted
        self._watched = watched
        self._screen = screen
        self._opened_at = float("-inf")

    def reaches(self, question: Question) -> bool:
        return False

    def opened(self, question: Question) -> None:
        if question.decision.risk < Risk.HIGH or not self._wanted(question.workspace):
            return
        if self._now() - self._opened_at >= MIN_INTERVAL_S and not self._watched() and self._screen():
            self._opened_at = self._now()
            self._open_page()

    def closed(self, question: Question, answer: Answer) -> None:
        """The page says so itself."""
