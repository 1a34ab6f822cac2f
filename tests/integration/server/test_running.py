"""Starting and stopping the server, as a program and inside another one."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from client_agent.errors import ConfigError
from client_agent.server.runner import running
from client_agent.server.settings import ServerSettings
from tests.integration.server.harness import SECRET, WAIT_S, Connect, make_settings

PROGRAM = f"""
import sys
from client_agent.server.runner import serve
from client_agent.server.settings import ServerSettings
serve(
    ServerSettings(jwt_secret={SECRET!r}, port=0, database_url="sqlite:///" + sys.argv[1]),
    on_ready=lambda base_url: print(base_url, flush=True),
)
print(*{{name.split(".")[1] for name in sys.modules if name.startswith("client_agent.")}})
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_program_cleanly_with_streams_open(
    tmp_path: Path, connect: Connect, number: signal.Signals
) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "server.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            api = connect(process.stdout.readline().strip())
            stream = api.stream()
            api.submit("read_file", path="a.txt")
            stream.expect("tool.execution_signal")
            process.send_signal(number)
            output, errors = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
    stream.read_to_end()
    assert (process.returncode, errors) == (0, "")
    assert set(output.split()) <= {"server", "protocol", "policy", "config", "errors"}


async def test_a_server_inside_another_program_is_gone_when_its_block_ends(tmp_path: Path) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with running(make_settings(tmp_path)) as base_url:
        assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        host, port = base_url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=WAIT_S):
            pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=WAIT_S)


async def test_an_address_in_use_is_said_plainly(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = make_settings(tmp_path, port=taken.getsockname()[1])
        with pytest.raises(ConfigError, match="cannot listen on"):
            async with running(settings):
                pass


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite://", "expected a file"),
        ("sqlite:///:memory:", "expected a file"),
        ("nonsense", "expected an address"),
        ("sqlite:////proc/no/such/place.db", "cannot be used"),
        ("postgresql://user:hunter2@127.0.0.1:1/db", "cannot be used"),
    ],
)
async def test_a_database_that_cannot_be_used_is_said_plainly_and_without_its_password(
    tmp_path: Path, url: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        async with running(make_settings(tmp_path, database_url=url)):
            pass
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("changes", [{"jwt_secret": "short"}, {"heartbeat_s": 0}, {"body_max_bytes": -1}])
def test_a_setting_that_cannot_be_used_is_named(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(changes))):
        ServerSettings(**({"jwt_secret": SECRET} | changes))


def test_the_settings_do_not_show_their_secret() -> None:
    settings = ServerSettings(jwt_secret=SECRET, database_url="postgresql://u:hunter2@h/d")
    assert SECRET not in repr(settings)
    assert "hunter2" not in repr(settings)
