"""The endpoints of logging in: OAuth's device flow, refresh and revocation. Bodies are forms, as OAuth has them."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs

import msgspec
from fastapi import APIRouter, Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials
from starlette.responses import PlainTextResponse, Response

from client_agent.protocol import routes
from client_agent.server import wire
from client_agent.server.auth import verify_token
from client_agent.server.logins import NotYet
from client_agent.server.problems import Forbidden, Unauthenticated
from client_agent.server.routes import bearer
from client_agent.server.services import Services
from client_agent.server.wire import body_reader, describe_route, json_response

router = APIRouter(tags=["login"])
_MAX_FORM_BYTES = 16_384
_NO_STORE = {"Cache-Control": "no-store"}


class OAuthError(msgspec.Struct, frozen=True):
    error: str


async def read_form(request: Request) -> dict[str, str]:
    """The form's fields, each once; of what is not a form, nothing."""
    raw = await wire.read_bytes(request, _MAX_FORM_BYTES)
    fields = parse_qs(raw.decode("ascii", "replace"))
    return {name: values[0] for name, values in fields.items() if len(values) == 1}


Form = Annotated[dict[str, str], Depends(read_form)]


@router.post(routes.DEVICE_AUTHORIZATION, response_class=Response)
async def begin_device_login(request: Request, form: Form) -> Response:
    """A code for the device and one for its user."""
    code = await _services(request).logins.begin()
    where = str(request.base_url).rstrip("/") + routes.DEVICE
    return json_response(
        wire.DeviceReply(
            device_code=code.device_code,
            user_code=code.user_code,
            verification_uri=where,
            expires_in=code.expires_in,
            interval=code.interval,
        ),
        headers=_NO_STORE,
    )


@router.post(routes.TOKEN, response_class=Response)
async def give_token(request: Request, form: Form) -> Response:
    """Tokens for a device code that its user has confirmed, or for a refresh token."""
    logins = _services(request).logins
    try:
        match form.get("grant_type"):
            case routes.DEVICE_GRANT:
                tokens = await logins.collect(form.get("device_code", ""))
            case "refresh_token":
                tokens = await logins.refresh(form.get("refresh_token", ""))
            case _:
                return json_response(OAuthError("unsupported_grant_type"), 400, _NO_STORE)
    except NotYet as problem:
        return json_response(OAuthError(problem.error), 400, _NO_STORE)
    return json_response(tokens, headers=_NO_STORE)


@router.post(routes.REVOKE, response_class=Response)
async def revoke(request: Request, form: Form) -> Response:
    """Ends a login; says the same to whoever never had one."""
    await _services(request).logins.revoke(form.get("token", ""))
    return Response(status_code=200, headers=_NO_STORE)


@router.get(routes.DEVICE, response_class=PlainTextResponse)
async def explain_device() -> str:
    """What to do with a code."""
    return (
        "This reference server has no page to sign in to. Whoever runs it confirms a code with\n\n"
        "    client-agent server confirm CODE --user NAME\n\nor turns it down with --deny.\n"
    )


@router.post(routes.DEVICE, **describe_route(wire.DeviceDecisionReply, 400, 403, 409, body=wire.DeviceDecisionBody))
async def decide_device_login(
    request: Request,
    body: Annotated[wire.DeviceDecisionBody, Depends(body_reader(wire.DeviceDecisionBody))],
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)],
) -> Response:
    """The word of a user who is logged in already; the device then works for them."""
    services = _services(request)
    if credentials is None:
        raise Unauthenticated("expected a header `Authorization: Bearer <token>`")
    identity = verify_token(services.settings.jwt_secret, credentials.credentials)
    if identity.agent_id is not None:
        raise Forbidden("an agent cannot log anybody in")
    await services.logins.decide(body.user_code, identity.user_id, approve=body.decision == "approved")
    return json_response(wire.DeviceDecisionReply(success=True, status=body.decision))


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services
