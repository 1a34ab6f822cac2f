"""The desktop's notification service, as far as we use it. Loaded when the first question comes, and not before.

Tried on Linux against a real session bus; never run on macOS or Windows.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from desktop_notifier import DesktopNotifier

APP_NAME = "client-agent"


class NoService(Exception):
    """There is nobody who would show a notification; says why."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown. `buttons` are called when they are pressed, `on_click` when the note itself is."""

    title: str
    body: str
    buttons: dict[str, Callable[[], None]]
    on_click: Callable[[], None]
    timeout_s: float


def has_session(env: Mapping[str, str] = os.environ) -> bool:
    """Whether there may be a desktop at all; cheap, and without loading anything."""
    if not sys.platform.startswith("linux"):
        return True
    if env.get("DBUS_SESSION_BUS_ADDRESS"):
        return True
    runtime = env.get("XDG_RUNTIME_DIR")
    return bool(runtime) and Path(runtime or "", "bus").exists()


def has_screen(env: Mapping[str, str] = os.environ) -> bool:
    """Whether a browser would come up in a window. Without one it may be a browser that takes over a terminal."""
    return not sys.platform.startswith("linux") or bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"))


class Desktop:
    """The service. Every method raises NoService when there is none."""

    def __init__(self) -> None:
        self._notifier: DesktopNotifier | None = None
        self.has_buttons = False

    async def open(self) -> None:
        from desktop_notifier import Capability, DesktopNotifier

        # It reports what fails as a warning with a trace; we say the same in the status, and nowhere else.
        logging.getLogger("desktop_notifier").setLevel(logging.CRITICAL)
        try:
            self._notifier = DesktopNotifier(app_name=APP_NAME, app_icon=None)
            self.has_buttons = Capability.BUTTONS in await self._notifier.get_capabilities()
        except Exception as error:  # noqa: BLE001 - every platform fails in its own way
            self.close()  # it may have come as far as the bus
            raise NoService(f"no notification service answers: {error}") from None

    async def show(self, note: Note) -> str:
        """The id by which it can be taken back."""
        from desktop_notifier import Button, Urgency

        assert self._notifier is not None  # noqa: S101
        shown = await self._notifier.send(
            note.title,
            _as_text(note.body),
            urgency=Urgency.Critical,  # stays until it is answered or taken back
            buttons=[Button(title=title, on_pressed=pressed) for title, pressed in note.buttons.items()],
            on_clicked=note.on_click,
            timeout=int(note.timeout_s),
        )
        if shown not in await self._notifier.get_current_notifications():
            raise NoService("the notification service refused")
        return shown

    async def clear(self, shown: str) -> None:
        if self._notifier is None or shown not in await self._notifier.get_current_notifications():
            return  # closed by a press already
        try:
            await self._notifier.clear(shown)
        except Exception as error:  # noqa: BLE001 - see `open`
            raise NoService(f"the notification service is gone: {error}") from None

    def close(self) -> None:
        bus: Any = getattr(getattr(self._notifier, "_backend", None), "bus", None)
        if bus is not None:
            bus.disconnect()
        self._notifier = None


def _as_text(text: str) -> str:
    """The freedesktop services read the body as markup; those of macOS and Windows do not."""
    from html import escape

    return escape(text, quote=False) if sys.platform.startswith("linux") else text
