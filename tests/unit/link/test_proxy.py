from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from yarl import URL

from client_agent.config import Link
from client_agent.errors import ConfigError
from client_agent.link.proxy import choose_proxy
from client_agent.link.trust import make_trust

SERVER = URL("https://api.server.example")


def chosen(env: dict[str, str], server: URL = SERVER, proxy: str = "") -> str | None:
    found = choose_proxy(Link(proxy=proxy), server, env)
    return None if found is None else str(found)


def test_the_settings_come_first_even_for_this_machine() -> None:
    assert chosen({"HTTPS_PROXY": "http://b:1"}, proxy="http://a:1") == "http://a:1"
    assert chosen({}, URL("http://127.0.0.1"), proxy="http://a:1") == "http://a:1"


def test_the_environment_is_asked_by_the_servers_scheme() -> None:
    env = {"HTTPS_PROXY": "http://s:1", "http_proxy": "http://p:1", "ALL_PROXY": "http://all:1"}
    assert chosen(env) == "http://s:1"
    assert chosen(env, URL("http://server.example")) == "http://p:1"
    assert chosen({"ALL_PROXY": "http://all:1"}) == "http://all:1"
    assert chosen({"https_proxy": "bare.example:3128"}) == "http://bare.example:3128"
    assert chosen({"HTTPS_PROXY": "  "}) is None
    assert chosen({}) is None


def test_the_environments_proxy_never_serves_this_machine() -> None:
    env = {"HTTP_PROXY": "http://p:1", "HTTPS_PROXY": "http://p:1"}
    for server in ("http://localhost:8000", "http://127.0.0.1", "https://[::1]"):
        assert chosen(env, URL(server)) is None


@pytest.mark.parametrize(
    ("no_proxy", "exempt"),
    [
        ("*", True),
        ("server.example", True),
        (".server.example", True),
        ("*.server.example", True),
        ("other, API.server.example", True),
        ("api.server.example:443", True),
        ("api.server.example:8443", False),
        ("rver.example", False),
        ("example.org", False),
        ("", False),
        (",", False),
    ],
)
def test_no_proxy_exempts_what_it_names(no_proxy: str, exempt: bool) -> None:
    assert (chosen({"HTTPS_PROXY": "http://p:1", "NO_PROXY": no_proxy}) is None) is exempt


@pytest.mark.parametrize(
    ("server", "no_proxy", "exempt"),
    [
        ("https://10.1.2.3", "10.0.0.0/8", True),
        ("https://11.1.2.3", "10.0.0.0/8", False),
        ("https://10.1.2.3", "10.1.2.3", True),
        ("https://[fd00::1]", "fd00::/8", True),
        ("https://[fd00::1]", "[fd00::1]:443", True),
        ("https://server.example", "10.0.0.0/8", False),
        ("https://10.1.2.3", "not/anetwork", False),
    ],
)
def test_no_proxy_knows_addresses_and_networks(server: str, no_proxy: str, exempt: bool) -> None:
    assert (chosen({"HTTPS_PROXY": "http://p:1", "NO_PROXY": no_proxy}, URL(server)) is None) is exempt


@pytest.mark.parametrize("proxy", ["socks5://user:hush@a:1", "http://", "http://user:hush@[", "ftp://user:hush@a"])
def test_a_proxy_that_cannot_be_used_is_named_without_its_password(proxy: str) -> None:
    with pytest.raises(ConfigError) as from_settings:
        chosen({}, proxy=proxy)
    assert "link.proxy" in from_settings.value.message
    with pytest.raises(ConfigError) as from_environment:
        chosen({"all_proxy": proxy})
    assert "ALL_PROXY" in from_environment.value.message
    for caught in (from_settings, from_environment):
        assert "hush" not in caught.value.message


@pytest.mark.parametrize("settings", [Link(), Link(trust="bundled")])
def test_certificates_and_names_are_always_checked(settings: Link) -> None:
    trust = make_trust(settings)
    assert trust.verify_mode is ssl.CERT_REQUIRED
    assert trust.check_hostname


@pytest.mark.parametrize("content", [None, b"", b"not a certificate"])
def test_a_ca_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        make_trust(Link(ca_file=str(path)))
    assert "link.ca_file" in caught.value.message
    assert str(path) in caught.value.message
