"""What a terminal shows of a command's output."""

from __future__ import annotations

import io

from client_agent.cli.live import LINES_PER_S, MAX_LINE_CHARS, LiveLines
from tests.unit.approvals.test_broker import Clock


class Terminal:
    """A screen, a clock, and whether a question is open."""

    def __init__(self) -> None:
        self.out = io.StringIO()
        self.clock = Clock()
        self.asking = False
        self.live = LiveLines(self.out, lambda: self.asking, self.clock)

    def write(self, text: str, stream: str = "stdout") -> list[str]:
        self.live("w", "0123456789", stream, text)
        return self.out.getvalue().splitlines()


def test_lines_are_shown_whole_and_marked_with_their_call() -> None:
    terminal = Terminal()
    assert terminal.write("on") == []
    assert terminal.write("e\ntwo\nthr") == ["  │ w 01234567  one", "  │ w 01234567  two"]


def test_the_streams_of_a_call_are_not_mixed_up_within_a_line() -> None:
    terminal = Terminal()
    terminal.write("out")
    terminal.write("err\n", "stderr")
    assert terminal.write("put\n") == ["  │ w 01234567  err", "  │ w 01234567  output"]


def test_a_flood_is_cut_and_said_to_be() -> None:
    terminal = Terminal()
    shown = terminal.write("x\n" * (LINES_PER_S + 70))
    assert len(shown) == LINES_PER_S
    terminal.clock.time += 1
    assert terminal.write("y\n")[-2:] == ["  │ … 70 lines of output are not shown here", "  │ w 01234567  y"]


def test_nothing_is_printed_over_an_open_question() -> None:
    terminal = Terminal()
    terminal.asking = True
    assert terminal.write("hidden\n") == []
    terminal.asking = False
    assert terminal.write("seen\n") == ["  │ … 1 lines of output are not shown here", "  │ w 01234567  seen"]


def test_output_cannot_move_the_cursor_or_fill_the_screen_with_one_line() -> None:
    shown = Terminal().write("\x1b[2J── LOW ──\r\n" + "x" * 10_000 + "\n")
    assert len(shown) == 2
    assert "\x1b" not in shown[0]
    assert len(shown[1]) < MAX_LINE_CHARS + 40
