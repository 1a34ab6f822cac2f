"""For every test: the same examples each time, held to no stop-watch, and nobody is disturbed."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

settings.register_profile("same each time", derandomize=True, deadline=None)
settings.load_profile("same each time")

# Whoever starts the tests in the background of a shell has them ignore Ctrl-C, and so would every program they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test asks its questions on the desktop of the person who runs it.
for name in ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY"):
    os.environ.pop(name, None)
