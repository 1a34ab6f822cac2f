"""Logging in at the server: device codes and refresh tokens, by a client that is not ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from client_agent.server import logins
from client_agent.server.auth import issue_token
from tests.integration.server.harness import SECRET, WAIT_S, live_server, make_settings

GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class Device:
    """A device without a token, and the user who is asked about it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def post(self, path: str, **fields: str) -> requests.Response:
        return requests.post(self.url + path, data=fields, timeout=WAIT_S)

    def begin(self) -> dict[str, Any]:
        reply = self.post("/oauth/device_authorization", client_id="d")
        assert reply.status_code == 200, reply.text
        return dict(reply.json())

    def collect(self, device_code: str) -> tuple[int, dict[str, Any]]:
        reply = self.post("/oauth/token", grant_type=GRANT, device_code=device_code, client_id="d")
        return reply.status_code, reply.json()

    def refresh(self, refresh_token: str) -> tuple[int, dict[str, Any]]:
        reply = self.post("/oauth/token", grant_type="refresh_token", refresh_token=refresh_token)
        assert reply.headers["cache-control"] == "no-store"
        return reply.status_code, reply.json()

    def decide(self, user_code: str, decision: str = "approved", **claims: Any) -> int:
        headers = {"Authorization": f"Bearer {issue_token(SECRET, 'ann', **claims)}"}
        body = {"user_code": user_code, "decision": decision}
        return requests.post(f"{self.url}/device", json=body, headers=headers, timeout=WAIT_S).status_code

    def log_in(self) -> dict[str, Any]:
        code = self.begin()
        assert self.decide(code["user_code"]) == 200
        status, tokens = self.collect(code["device_code"])
        assert status == 200
        return tokens

    def is_let_in(self, token: str) -> bool:
        headers = {"Authorization": f"Bearer {token}"}
        reply = requests.get(f"{self.url}/my/projects/login/tools/available", headers=headers, timeout=WAIT_S)
        return reply.status_code == 200


@pytest.fixture
def device(shared_server: str) -> Device:
    return Device(shared_server)


@pytest.fixture
def short_lived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """A server whose codes are over at once."""
    monkeypatch.setattr(logins, "CODE_LIFETIME_S", 0)
    with live_server(make_settings(tmp_path)) as url:
        yield Device(url)


def test_a_device_gets_tokens_once_the_user_has_confirmed_its_code(device: Device) -> None:
    code = device.begin()
    assert (code["expires_in"], code["interval"]) == (600, 5)
    assert code["verification_uri"] == f"{device.url}/device"
    assert device.collect(code["device_code"]) == (400, {"error": "authorization_pending"})
    assert device.decide(code["user_code"].replace("-", " ").lower()) == 200
    status, tokens = device.collect(code["device_code"])
    assert (status, tokens["token_type"], tokens["expires_in"]) == (200, "Bearer", 3600)
    assert device.is_let_in(tokens["access_token"])
    assert device.collect(code["device_code"]) == (400, {"error": "invalid_grant"})
    assert device.decide(code["user_code"]) == 404


def test_who_asks_too_often_is_told_to_slow_down(device: Device) -> None:
    code = device.begin()["device_code"]
    told = [device.collect(code)[1]["error"] for _ in range(3)]
    assert told == ["authorization_pending", "slow_down", "slow_down"]


def test_a_code_that_is_turned_down_gives_nothing_and_cannot_be_confirmed_later(device: Device) -> None:
    code = device.begin()
    assert device.decide(code["user_code"], "denied") == 200
    assert device.collect(code["device_code"]) == (400, {"error": "access_denied"})
    assert device.decide(code["user_code"]) == 409


def test_a_code_whose_time_is_over_gives_nothing(short_lived: Device) -> None:
    code = short_lived.begin()
    assert short_lived.decide(code["user_code"]) == 404
    assert short_lived.collect(code["device_code"]) == (400, {"error": "expired_token"})


def test_only_a_user_can_confirm_never_an_agent_and_never_nobody(device: Device) -> None:
    code = device.begin()
    assert device.decide(code["user_code"], agent_id="robot") == 403
    assert requests.post(f"{device.url}/device", json={"user_code": code["user_code"]}, timeout=WAIT_S).status_code in (
        400,
        401,
    )
    assert device.decide("BBBB-BBBB") == 404
    assert device.collect(code["device_code"]) == (400, {"error": "authorization_pending"})


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, "unsupported_grant_type"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": GRANT}, "invalid_grant"),
        ({"grant_type": GRANT, "device_code": "x"}, "invalid_grant"),
        ({"grant_type": "refresh_token", "refresh_token": "x.y"}, "invalid_grant"),
    ],
)
def test_what_is_no_grant_gives_nothing(device: Device, fields: dict[str, str], error: str) -> None:
    reply = device.post("/oauth/token", **fields)
    assert (reply.status_code, reply.json()) == (400, {"error": error})


def test_a_refresh_token_is_renewed_with_every_use(device: Device) -> None:
    first = device.log_in()
    status, second = device.refresh(first["refresh_token"])
    assert status == 200
    assert second["refresh_token"] != first["refresh_token"]
    assert device.is_let_in(second["access_token"])
    assert device.refresh(second["refresh_token"])[0] == 200


def test_an_answer_that_was_lost_can_be_asked_for_again(device: Device) -> None:
    first = device.log_in()
    device.refresh(first["refresh_token"])  # and nobody reads it
    status, second = device.refresh(first["refresh_token"])
    assert status == 200
    assert device.refresh(second["refresh_token"])[0] == 200


def test_a_refresh_token_that_was_copied_ends_the_login(device: Device) -> None:
    first = device.log_in()
    _, second = device.refresh(first["refresh_token"])
    _, third = device.refresh(second["refresh_token"])
    assert device.refresh(first["refresh_token"]) == (400, {"error": "invalid_grant"})
    assert device.refresh(third["refresh_token"]) == (400, {"error": "invalid_grant"})


def test_a_revoked_login_is_over_and_a_guess_revokes_nothing(device: Device) -> None:
    tokens = device.log_in()
    login_id = tokens["refresh_token"].split(".")[0]
    assert device.post("/oauth/revoke", token=f"{login_id}.guess").status_code == 200
    _, tokens = device.refresh(tokens["refresh_token"])
    assert device.post("/oauth/revoke", token=tokens["refresh_token"]).status_code == 200
    assert device.refresh(tokens["refresh_token"]) == (400, {"error": "invalid_grant"})


def test_the_database_holds_no_code_and_no_refresh_token(tmp_path: Path) -> None:
    with live_server(make_settings(tmp_path)) as url:
        device = Device(url)
        waiting, tokens = device.begin(), device.log_in()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert waiting["user_code"].encode() in stored
    for secret in (waiting["device_code"], tokens["refresh_token"], tokens["access_token"]):
        assert secret.encode() not in stored
