from __future__ import annotations

import contextlib

import pytest
from yarl import URL

from client_agent.link.origin import RedirectRefused, follow, is_loopback, origin_of

HERE = URL("http://server.example/my/projects/p/chat/stream")


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/next?a=1", "http://server.example/next?a=1"),
        ("next", "http://server.example/my/projects/p/chat/next"),
        ("../x", "http://server.example/my/projects/p/x"),
        ("http://server.example/y", "http://server.example/y"),
        ("HTTP://SERVER.example:80/y#part", "http://server.example/y"),
        ("//server.example/y", "http://server.example/y"),
        ("http://server.example//evil.example/y", "http://server.example//evil.example/y"),
        ("/.//evil.example/y", "http://server.example//evil.example/y"),
    ],
)
def test_a_redirect_within_the_origin_is_followed(location: str, target: str) -> None:
    assert str(follow(HERE, location)) == target


@pytest.mark.parametrize(
    "location",
    [
        "https://server.example/",
        "http://server.example:8080/",
        "http://evil.example/",
        "//evil.example/",
        "http://server.example.evil.example/",
        "http://server.example@evil.example/",
        "http://user:password@server.example/",
        "http://server.example\\@evil.example/",
        "ftp://server.example/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://[::1",
        "http://server.example:99999/",
        "",
    ],
)
def test_any_other_is_refused(location: str) -> None:
    with pytest.raises(RedirectRefused) as caught:
        follow(HERE, location)
    assert "http://server.example" in caught.value.message
    assert "password" not in caught.value.message


@pytest.mark.parametrize(
    "location", ["http:\\\\evil.example/", "http://", "http:evil.example", "\\\\evil.example", "///evil.example"]
)
def test_one_that_may_be_read_this_way_or_that_does_not_leave(location: str) -> None:
    with contextlib.suppress(RedirectRefused):
        assert str(follow(HERE, location)).startswith("http://server.example/")


def test_the_refusal_says_what_to_do() -> None:
    with pytest.raises(RedirectRefused) as caught:
        follow(HERE, "https://server.example/stream?token=1")
    assert caught.value.message == (
        "the server at http://server.example redirects to https://server.example/stream: "
        "change `server` in the configuration if that is right"
    )


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("http://localhost", True),
        ("http://LOCALHOST.:80", True),
        ("http://dev.localhost", True),
        ("http://127.0.0.1:8000", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:8000", True),
        ("http://localhost.example", False),
        ("http://notlocalhost", False),
        ("http://0.0.0.0", False),
        ("http://10.0.0.1", False),
        ("http://127.0.0.1.example", False),
    ],
)
def test_loopback_is_only_what_cannot_be_another_machine(address: str, loopback: bool) -> None:
    assert is_loopback(URL(address)) is loopback


def test_one_origin_has_one_spelling() -> None:
    assert origin_of(URL("HTTPS://Server.Example/a")) == origin_of(URL("https://server.example:443/b"))
    assert origin_of(URL("http://[::1]/a")) == "http://[::1]:80"
