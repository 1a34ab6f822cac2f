from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from client_agent.errors import LinkError
from client_agent.link.credentials import Credentials, Tokens
from client_agent.link.vault import TokenSource

SERVER = "https://Server.example/base"
TOKEN = "very.secret-token"


class Ring:
    """A keyring in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service_name: str, username: str) -> str | None:
        return self.kept.get((service_name, username))

    def set_password(self, service_name: str, username: str, password: str) -> None:
        self.kept[service_name, username] = password

    def delete_password(self, service_name: str, username: str) -> None:
        del self.kept[service_name, username]


class BrokenRing(Ring):
    def get_password(self, service_name: str, username: str) -> str | None:
        raise RuntimeError("no desktop session")

    def set_password(self, service_name: str, username: str, password: str) -> None:
        raise RuntimeError(f"no desktop session for {password}")


def made(state: Path, ring: Ring | None = None, server: str = SERVER, **env: str) -> Credentials:
    return Credentials(server, state, env=env, load_keyring=lambda: ring or Ring())


def jwt(claims: str) -> str:
    return f"e30.{urlsafe_b64encode(claims.encode()).decode().rstrip('=')}.c2ln"


def test_the_environment_comes_before_the_keyring_before_the_file(tmp_path: Path) -> None:
    ring = Ring()
    made(tmp_path, BrokenRing()).store(Tokens("of-file"))
    assert made(tmp_path, ring).token() == "of-file"
    ring.set_password("client-agent", "https://server.example:443", "of-keyring")
    assert made(tmp_path, ring).token() == "of-keyring"
    with_variable = made(tmp_path, ring, CLIENT_AGENT_TOKEN="of-environment")
    assert with_variable.token() == "of-environment"
    assert with_variable.source is TokenSource.ENVIRONMENT


def test_a_token_is_for_one_origin(tmp_path: Path) -> None:
    for ring in (Ring(), BrokenRing()):
        made(tmp_path, ring).store(Tokens(TOKEN))
        assert made(tmp_path, ring, "https://server.example:443/other").token() == TOKEN
        for other in ("http://server.example", "https://server.example:8443", "https://other.example"):
            with pytest.raises(LinkError):
                made(tmp_path, ring, other).token()


def test_no_token_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LinkError) as caught:
        made(tmp_path).token()
    assert caught.value.code == "token_missing"
    assert "CLIENT_AGENT_TOKEN" in caught.value.message


@pytest.mark.parametrize("bad", ["a\nX-Evil: 1", "a\r\n", "a b", "\x00a", "a\x7f", "ключ", "x" * 20_000])
def test_a_token_that_no_header_may_hold_is_refused_and_not_repeated(tmp_path: Path, bad: str) -> None:
    with pytest.raises(LinkError) as caught:
        made(tmp_path, CLIENT_AGENT_TOKEN=bad).token()
    assert caught.value.code == "token_invalid"
    assert bad not in caught.value.message


def test_without_a_keyring_the_token_is_kept_in_a_private_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    credentials = made(tmp_path / "state", BrokenRing())
    assert credentials.store(Tokens(TOKEN + "\n")) is TokenSource.FILE
    (kept,) = (tmp_path / "state" / "tokens").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    assert TOKEN not in caplog.text
    assert credentials.token() == TOKEN


async def test_a_renewed_token_that_the_keyring_no_longer_takes_is_said_to_be_in_a_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rings: list[Ring] = [Ring()]
    credentials = Credentials(SERVER, tmp_path, env={}, load_keyring=lambda: rings[-1])
    credentials.store(Tokens(TOKEN, refresh_token="again"))
    await credentials.reload()

    async def refresh(_: str) -> Tokens:
        rings.append(BrokenRing())
        return Tokens("a.new.token", refresh_token="and-again")

    credentials.refresh = refresh
    assert await credentials.renew(TOKEN)
    assert f"unencrypted in {credentials.file}" in caplog.text
    assert "a.new.token" not in caplog.text


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    made(tmp_path, BrokenRing()).store(Tokens(TOKEN))
    (kept,) = (tmp_path / "tokens").iterdir()
    kept.chmod(0o640)
    with pytest.raises(LinkError) as caught:
        made(tmp_path).token()
    assert caught.value.code == "token_exposed"


def test_a_link_or_a_fifo_in_its_place_is_refused(tmp_path: Path) -> None:
    made(tmp_path, BrokenRing()).store(Tokens(TOKEN))
    (kept,) = (tmp_path / "tokens").iterdir()
    kept.rename(tmp_path / "moved")
    kept.symlink_to(tmp_path / "moved")
    with pytest.raises(LinkError):
        made(tmp_path).token()
    kept.unlink()
    os.mkfifo(kept, 0o600)
    with pytest.raises(LinkError):
        made(tmp_path).token()


def test_a_token_stored_in_the_keyring_leaves_no_file(tmp_path: Path) -> None:
    made(tmp_path, BrokenRing()).store(Tokens("old"))
    ring = Ring()
    assert made(tmp_path, ring).store(Tokens(TOKEN)) is TokenSource.KEYRING
    assert list((tmp_path / "tokens").iterdir()) == []
    assert made(tmp_path, ring).token() == TOKEN


def test_a_forgotten_token_is_nowhere(tmp_path: Path) -> None:
    ring = Ring()
    made(tmp_path, BrokenRing()).store(Tokens(TOKEN))
    credentials = made(tmp_path, ring)
    ring.set_password("client-agent", "https://server.example:443", TOKEN)
    assert credentials.token() == TOKEN
    credentials.forget()
    with pytest.raises(LinkError):
        credentials.token()


def test_the_token_is_read_once_until_asked_again(tmp_path: Path) -> None:
    env = {"CLIENT_AGENT_TOKEN": "one"}
    credentials = Credentials(SERVER, tmp_path, env=env, load_keyring=Ring)
    assert credentials.token() == "one"
    env["CLIENT_AGENT_TOKEN"] = "two"
    assert credentials.token() == "one"
    assert credentials.read_again() == "two"
    assert credentials.known == "two"


async def test_many_who_were_refused_read_again_once(tmp_path: Path) -> None:
    class CountingRing(Ring):
        reads = 0

        def get_password(self, service_name: str, username: str) -> str | None:
            self.reads += 1
            return f"token-{self.reads}"

    ring = CountingRing()
    credentials = made(tmp_path, ring)
    assert credentials.token() == "token-1"
    renewed = await asyncio.gather(*(credentials.renew("token-1") for _ in range(20)))
    assert set(renewed) == {True}
    assert credentials.known == "token-2"


async def test_renewing_without_another_token_says_so(tmp_path: Path) -> None:
    same = made(tmp_path, CLIENT_AGENT_TOKEN="one")
    assert same.token() == "one"
    assert await same.renew("one") is False
    none = made(tmp_path)
    assert await none.renew(None) is False
    assert "CLIENT_AGENT_TOKEN" in none.problem


@pytest.mark.parametrize(
    ("token", "subject"),
    [
        (jwt('{"sub":"user-7","exp":1}'), "user-7"),
        (jwt('{"sub":"ж"}'), "ж"),
        (jwt('{"sub":42}'), "42"),
        (jwt('{"sub":null}'), None),
        (jwt('{"name":"x"}'), None),
        (jwt("[" * 100_000)[:16_000] + ".x", None),
        ("opaque-token", None),
        ("a.b.c", None),
        ("...", None),
    ],
)
def test_the_subject_is_what_the_token_says(tmp_path: Path, token: str, subject: str | None) -> None:
    credentials = made(tmp_path, CLIENT_AGENT_TOKEN=token)
    assert credentials.subject is None
    credentials.token()
    assert credentials.subject == subject


def test_the_token_is_not_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    credentials = made(tmp_path, CLIENT_AGENT_TOKEN=TOKEN)
    credentials.token()
    assert TOKEN not in repr(credentials)
    assert credentials.mask(f"refused {TOKEN}!") == "refused ***!"
    assert TOKEN not in caplog.text


def test_a_daemon_does_not_load_what_it_has_no_use_for() -> None:
    program = (
        "import sys, client_agent.link.connection\n"
        "print([name for name in ('click', 'rich', 'pygments', 'keyring', 'truststore') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
