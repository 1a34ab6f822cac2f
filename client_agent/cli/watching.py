"""The live view of `client-agent approvals watch`: a screen, a keyboard, and the daemon's word."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from client_agent.approvals.broker import clock
from client_agent.approvals.honest import reveal
from client_agent.approvals.live import LiveView
from client_agent.approvals.questions import Answer, Question
from client_agent.approvals.terminal import Keyboard, paint, wants_colour
from client_agent.local_api.client import Client

_TICK_S = 1.0
# The other screen, without a cursor and without wrapping; and everything as it was.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"


class _Watch:
    def __init__(self, daemon: Client) -> None:
        self._daemon = daemon
        self._known: set[str] = set()
        self.view = LiveView(self._send, clock)  # the same machine, the same clock
        self.stir = asyncio.Event()
        self.done = False

    def press(self, key: str) -> None:
        if key in ("q", "Q") and not self.view.typing:
            self.done = True
        else:
            self.view.press(key)
        self.stir.set()

    def open(self, packed: dict[str, Any]) -> None:
        question = msgspec.convert(packed["question"], Question)
        if question.id not in self._known:
            self._known.add(question.id)
            self.view.open(question)

    def take(self, message: dict[str, Any]) -> None:
        data = message.get("data", {})
        if message.get("event") == "question_opened":
            self.open(data)
        elif message.get("event") == "question_closed":
            self._known.discard(data["id"])
            by = f" ({data['by']})" if data["by"] not in ("", "command line") else ""
            reason = f": {data['reason']}" if data["reason"] else ""
            self.view.close(data["id"], f"{data['outcome'].replace('_', ' ')}{by}{reason}")
        elif "error" in message:
            self.view.message = reveal(message["error"]["message"])
        self.stir.set()

    def _send(self, question: Question, answer: Answer) -> None:
        args = {
            "id": question.id,
            "answer": "approve" if answer.approved else "reject",
            "scope": answer.scope.value,
            "for_s": answer.for_s,
            "reason": answer.reason,
            "binding": question.binding,
        }
        request = {"id": 0, "op": "questions.answer", "args": args}
        self._daemon.connection.sendall(msgspec.json.encode(request) + b"\n")


async def watch_questions(daemon: Client) -> None:
    """Until q, Ctrl-C or the daemon's end. Raises NoDaemon. The terminal is left as it was found."""
    watch = _Watch(daemon)
    for each in daemon.request("watch", packed=True)["questions"]:
        watch.open(each)
    with contextlib.ExitStack() as stack:
        stack.callback(_hang_up, daemon)  # ends the thread that waits for the next message
        stack.enter_context(_screen())
        stack.enter_context(Keyboard(watch.press))
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, watch.stir.set)
        receiving = asyncio.create_task(_receive(daemon, watch))
        try:
            await _draw_until_done(watch, receiving)
        finally:
            receiving.cancel()


async def _draw_until_done(watch: _Watch, receiving: asyncio.Task[None]) -> None:
    while not watch.done:
        size = shutil.get_terminal_size()
        lines = watch.view.draw(size.columns, size.lines)
        if wants_colour(sys.stdout):
            lines = [paint(line) for line in lines]
        sys.stdout.write("\x1b[H" + "\r\n".join(f"\x1b[K{line}" for line in lines) + "\x1b[J")
        sys.stdout.flush()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(watch.stir.wait(), _TICK_S)  # the time left goes on
        watch.stir.clear()
        if receiving.done():
            receiving.result()


async def _receive(daemon: Client, watch: _Watch) -> None:
    try:
        while True:
            watch.take(await asyncio.to_thread(daemon.receive))
    finally:
        watch.stir.set()


@contextlib.contextmanager
def _screen() -> Iterator[None]:
    sys.stdout.write(_ENTER)
    try:
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


def _hang_up(daemon: Client) -> None:
    with contextlib.suppress(OSError):
        daemon.connection.shutdown(socket.SHUT_RDWR)
