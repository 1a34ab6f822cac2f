"""The daemon's own door: a socket for the commands, a loopback page for the browser, one protocol for both.

unix socket (0600) ─ lines ─┐
                            ├─ Conversation ─ Operations ─ broker, permissions, journal, workspaces
127.0.0.1 ─ gate ─ WebSocket ┘        ▲
                                      └─ Feed: what opens, closes and happens, pushed to whoever watches
"""
