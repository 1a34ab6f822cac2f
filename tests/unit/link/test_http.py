from __future__ import annotations

import ssl

import aiohttp
import httpx
import pytest
from aiohttp.http_exceptions import TransferEncodingError

from client_agent.link.http import TRANSPORT_ERRORS, describe


@pytest.mark.parametrize(
    "error",
    [
        TransferEncodingError("bad chunk"),  # aiohttp's parser in Python lets its own errors through
        aiohttp.ServerDisconnectedError(),
        aiohttp.ClientPayloadError(),
        httpx.ReadTimeout("slow"),
        httpx.DecodingError("not gzip"),
        ssl.SSLCertVerificationError("self-signed"),
        ConnectionResetError(),
        TimeoutError(),
        UnicodeError("label too long"),
    ],
)
def test_whatever_the_far_side_can_do_is_the_transports_trouble(error: Exception) -> None:
    assert isinstance(error, TRANSPORT_ERRORS)
    assert describe(error)


def test_a_mistake_of_our_own_is_not() -> None:
    assert not isinstance(ValueError("ours"), TRANSPORT_ERRORS)
    assert not isinstance(RuntimeError("ours"), TRANSPORT_ERRORS)


def test_no_name_or_password_in_an_address_is_repeated() -> None:
    assert describe(OSError("cannot reach http://user:hush@proxy:3128/")) == "cannot reach http://proxy:3128/"
