"""What commands write, on the terminal of `client-agent run`: marked as such, line by line, and never much of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

LINES_PER_S = 50
MAX_LINE_CHARS = 200
_BEGUN_LINES = 100  # streams whose last line is not finished yet; beyond it the oldest is forgotten


class LiveLines:
    """Prints whole lines, each behind a bar. While `is_busy`, as with an open question, it prints nothing."""

    def __init__(self, out: TextIO, is_busy: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._is_busy = is_busy
        self._clock = clock
        self._begun: dict[tuple[str, str], str] = {}
        self._allowance = float(LINES_PER_S)
        self._refilled = clock()
        self._left_out = 0

    def __call__(self, workspace: str, tool_id: str, stream: str, text: str) -> None:
        key = (tool_id, stream)
        *whole, rest = (self._begun.pop(key, "") + text).split("\n")
        if rest:
            self._begun[key] = rest[: MAX_LINE_CHARS + 1]
            if len(self._begun) > _BEGUN_LINES:
                del self._begun[next(iter(self._begun))]
        for line in whole:
            self._say(f"{workspace} {tool_id[:8]}", line)

    def _say(self, whose: str, line: str) -> None:
        from client_agent.approvals.honest import reveal

        if not self._may_print():
            self._left_out += 1
            return
        if self._left_out:
            print(f"  │ … {self._left_out} lines of output are not shown here", file=self._out)
            self._left_out = 0
        shown = reveal(line[:MAX_LINE_CHARS].rstrip("\r").replace("\t", "    "))
        print(f"  │ {reveal(whose)}  {shown}{'…' if len(line) > MAX_LINE_CHARS else ''}", file=self._out, flush=True)

    def _may_print(self) -> bool:
        now = self._clock()
        self._allowance = min(LINES_PER_S, self._allowance + (now - self._refilled) * LINES_PER_S)
        self._refilled = now
        if self._is_busy() or self._allowance < 1:
            return False
        self._allowance -= 1
        return True
