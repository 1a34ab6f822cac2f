"""When the page opens by itself: rarely, and only for what is worth it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from client_agent.approvals.broker import Broker
from client_agent.approvals.desktop import has_screen
from client_agent.approvals.opener import MIN_INTERVAL_S, PageOpener
from client_agent.policy.decision import Risk
from tests.unit.approvals.test_broker import Clock, Watcher, question

HIGH = replace(question(), decision=replace(question().decision, risk=Risk.HIGH))


class Room:
    def __init__(self) -> None:
        self.now = Clock()
        self.pages = 0
        self.wanted, self.watched, self.screen = True, False, True
        self.opener = PageOpener(
            self.now,
            open_page=self._open,
            wanted=lambda workspace: self.wanted,
            watched=lambda: self.watched,
            screen=lambda: self.screen,
        )

    def _open(self) -> None:
        self.pages += 1


def test_it_opens_for_a_high_question_and_for_no_other() -> None:
    room = Room()
    room.opener.opened(question())
    assert room.pages == 0
    room.opener.opened(HIGH)
    assert room.pages == 1


@pytest.mark.parametrize(("name", "value"), [("wanted", False), ("watched", True), ("screen", False)])
def test_it_does_not_open_where_it_is_not_wanted_not_needed_or_not_seen(name: str, value: bool) -> None:
    room = Room()
    setattr(room, name, value)
    room.opener.opened(HIGH)
    assert room.pages == 0
    setattr(room, name, not value)
    room.opener.opened(HIGH)
    assert room.pages == 1, "what did not open did not count"


def test_a_server_that_asks_and_asks_opens_one_a_minute() -> None:
    room = Room()
    for second in range(3 * int(MIN_INTERVAL_S)):
        room.now.time = float(second)
        room.opener.opened(HIGH)
    assert room.pages == 3


def test_a_terminal_counts_as_somebody_there_and_other_channels_say_for_themselves() -> None:
    broker, terminal = Broker(Clock()), Watcher()
    broker.attach(Watcher(), lambda asked: True)
    assert not broker.attended
    broker.attach(terminal)
    assert broker.attended
    broker.detach(terminal)
    assert not broker.attended


def test_a_screen_is_told_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert not has_screen({})
    assert has_screen({"DISPLAY": ":0"})
    assert has_screen({"WAYLAND_DISPLAY": "wayland-0"})
    monkeypatch.setattr("sys.platform", "darwin")
    assert has_screen({})
