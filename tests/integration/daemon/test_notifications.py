"""Questions on a desktop: a real session bus, a small notification service on it, and a real daemon."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus

from client_agent.approvals.questions import Answer, Outcome
from tests.integration.daemon.conftest import World
from tests.integration.daemon.test_undo import command

pytestmark = pytest.mark.skipif(
    shutil.which("dbus-daemon") is None, reason="dbus-daemon is not installed (apt install dbus-daemon)"
)


PATH, INTERFACE = "/org/freedesktop/Notifications", "org.freedesktop.Notifications"
INTROSPECTION = f"""<node><interface name="{INTERFACE}">
<method name="GetServerInformation">{'<arg type="s" direction="out"/>' * 4}</method>
<method name="GetCapabilities"><arg type="as" direction="out"/></method>
<method name="Notify">{
    "".join(f'<arg type="{kind}" direction="in"/>' for kind in ("s", "u", "s", "s", "s", "as", "a{sv}", "i"))
}<arg type="u" direction="out"/></method>
<method name="CloseNotification"><arg type="u" direction="in"/></method>
<signal name="ActionInvoked"><arg type="u"/><arg type="s"/></signal>
<signal name="NotificationClosed"><arg type="u"/><arg type="u"/></signal>
</interface></node>"""


class Notifications:
    """org.freedesktop.Notifications, as a desktop has it."""

    def __init__(self, bus: MessageBus) -> None:
        self._bus = bus
        self.shown: dict[int, dict[str, Any]] = {}
        self.changed = asyncio.Event()
        self._number = 0

    def take(self, message: Message) -> Message | None:
        """The reply to a method call."""
        if message.path != PATH or message.message_type is not MessageType.METHOD_CALL:
            return None
        match message.member:
            case "Introspect":
                return Message.new_method_return(message, "s", [INTROSPECTION])
            case "GetServerInformation":
                return Message.new_method_return(message, "ssss", ["small", "test", "1", "1.2"])
            case "GetCapabilities":
                return Message.new_method_return(message, "as", [["actions", "body", "body-markup"]])
            case "Notify":
                return Message.new_method_return(message, "u", [self._notify(*message.body[3:6])])
            case "CloseNotification":
                self.shown.pop(message.body[0], None)
                self.changed.set()
        return Message.new_method_return(message)

    def _notify(self, summary: str, body: str, actions: list[str]) -> int:
        self._number += 1
        buttons = {label: key for key, label in zip(actions[::2], actions[1::2], strict=True)}
        self.shown[self._number] = {"summary": summary, "body": body, "buttons": buttons}
        self.changed.set()
        return self._number

    def press(self, number: int, label: str) -> None:
        key = self.shown.pop(number)["buttons"][label]
        self._bus.send(Message.new_signal(PATH, INTERFACE, "ActionInvoked", "us", [number, key]))
        self._bus.send(Message.new_signal(PATH, INTERFACE, "NotificationClosed", "uu", [number, 2]))

    async def note(self) -> tuple[int, dict[str, Any]]:
        async with asyncio.timeout(20):
            while not self.shown:
                await self.changed.wait()
                self.changed.clear()
        return next(iter(self.shown.items()))

    async def gone(self) -> None:
        async with asyncio.timeout(20):
            while self.shown:
                self.changed.clear()
                await self.changed.wait()


@contextlib.asynccontextmanager
async def session_bus() -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        "dbus-daemon", "--session", "--nofork", "--print-address", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()


@pytest.fixture
async def bus(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    async with session_bus() as address:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
        yield address


@pytest.fixture
async def desktop(bus: str) -> AsyncIterator[Notifications]:
    connection = await MessageBus(bus).connect()
    service = Notifications(connection)
    connection.add_message_handler(service.take)
    await connection.request_name(INTERFACE)
    yield service
    connection.disconnect()


async def press(desktop: Notifications, label: str, asking: asyncio.Task[Any]) -> None:
    """A press that comes too soon after the question is no answer, and shows it again: it may take two."""
    while not asking.done():
        number, _ = await desktop.note()
        await asyncio.sleep(0.6)  # sooner it would be taken for an accident
        desktop.press(number, label)
        await asyncio.wait([asking], timeout=2)


async def known(world: World) -> None:
    """Until the daemon has heard that its note is shown."""
    assert world.daemon is not None
    async with asyncio.timeout(20):
        while not world.daemon.notifications._shown:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("label", "status"), [("Approve", "completed"), ("Reject", "rejected")])
async def test_a_write_is_answered_from_a_notification(
    world: World, desktop: Notifications, label: str, status: str
) -> None:
    world.person.says = None
    async with world.running_daemon():
        asking = asyncio.create_task(world.execute("write_file", path="a.md", content="<b>x</b>\n"))
        _, note = await desktop.note()
        assert note["summary"].startswith("MEDIUM: write_file in w? (")
        assert "path: a.md" in note["body"]
        assert "+&lt;b&gt;x&lt;/b&gt;" in note["body"]
        await press(desktop, label, asking)
        assert (await asking)["status"] == status
        assert world.person.answers[0].by == "notification"
        assert (await command(world, "status"))["notifications"] == {"state": "on", "detail": ""}


async def test_answered_elsewhere_or_at_the_daemons_end_it_is_taken_back(world: World, desktop: Notifications) -> None:
    world.person.says = None
    async with world.running_daemon():
        asking = asyncio.create_task(world.execute("write_file", path="a.md", content="x"))
        await desktop.note()
        world.person.answer_last(Answer(outcome=Outcome.APPROVED, by="person"))
        await desktop.gone()
        await asking
        again = asyncio.create_task(world.execute("write_file", path="b.md", content="x"))
        await desktop.note()
    await desktop.gone()
    again.cancel()


async def test_a_high_question_opens_the_page_and_no_more(
    world: World, desktop: Notifications, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    world.person.says = None
    async with world.running_daemon():
        asking = asyncio.create_task(world.execute("write_file", path="run.sh", content="x"))
        number, note = await desktop.note()
        assert note["summary"].startswith("HIGH: write_file in w? (")
        assert list(note["buttons"]) == ["", "Open"]  # the first is a click on the note itself
        await known(world)
        desktop.press(number, "Open")
        async with asyncio.timeout(20):
            while not opened:
                await asyncio.sleep(0.01)
        assert opened[0].startswith("http://127.0.0.1:")
        assert not asking.done()
        world.person.answer_last(Answer(outcome=Outcome.REJECTED, by="person"))
        await asking


async def test_a_bus_without_a_service_is_quiet_and_said_in_the_status(world: World, bus: str) -> None:
    world.broker.detach(world.person)
    async with world.running_daemon(unattended="reject"):
        response = await world.execute("write_file", path="a.md", content="x")
        assert "nobody can be asked" in response["error"]
        told = (await command(world, "status"))["notifications"]
        assert told["state"] == "missing"
        assert "no notification service answers" in told["detail"]


async def test_without_a_desktop_nothing_is_loaded(world: World) -> None:
    async with world.running_daemon():
        told = (await command(world, "status"))["notifications"]
    assert told == {"state": "missing", "detail": "there is no desktop session"}
