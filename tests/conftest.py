"""For every test: the same examples each time, held to no stop-watch, and nobody is disturbed."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("same each time", derandomize=True, deadline=None)
settings.load_profile("same each time")

# No test asks its questions on the desktop of the person who runs it.
for name in ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY"):
    os.environ.pop(name, None)
