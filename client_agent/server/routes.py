"""The endpoints. Each reads its request, asks one part of the server, and answers."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated
from uuid import uuid4

import msgspec
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.responses import Response

from client_agent import __version__
from client_agent.protocol import batches, routes
from client_agent.protocol.states import CallState
from client_agent.protocol.tools import SPECS, ToolSpec, parameter_schema
from client_agent.server import wire
from client_agent.server.auth import verify_token
from client_agent.server.payloads import Origin
from client_agent.server.problems import BadRequest, Forbidden, Problem, Unauthenticated
from client_agent.server.records import CallFilter, find_call, list_calls, now, to_record
from client_agent.server.services import Services
from client_agent.server.settings import EventShape
from client_agent.server.streams import EventStream, StreamRequest, wait_for_disconnect
from client_agent.server.wire import body_reader, describe_route, json_response

router = APIRouter()
bearer = HTTPBearer(auto_error=False, description="A JWT whose `sub` is the user", bearerFormat="JWT")

PAGE_MAX_RECORDS = 200
TOOLS = routes.PROJECT + "/tools"
TOOL = TOOLS + "/{tool_id}"
TOOL_CANCEL = TOOL + "/cancel"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is let in: its user, who owns its project, and the parts that will serve it."""

    services: Services
    project_id: str
    user_id: str
    agent_id: str | None
    expires_at: float


async def admit(
    request: Request,
    project_id: Annotated[str, Path(min_length=1, max_length=200)],
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)],
) -> Access:
    """Lets in whoever has a valid token, to a project that is theirs."""
    services: Services = request.app.state.services
    if credentials is None:
        raise Unauthenticated("expected a header `Authorization: Bearer <token>`")
    identity = verify_token(services.settings.jwt_secret, credentials.credentials)
    await services.projects.admit(project_id, identity.user_id)
    return Access(
        services=services,
        project_id=project_id,
        user_id=identity.user_id,
        agent_id=identity.agent_id,
        expires_at=identity.expires_at,
    )


Anyone = Annotated[Access, Depends(admit)]


async def admit_user(access: Anyone) -> Access:
    """Lets in the user and the user's client, not an agent: it could approve or answer its own calls."""
    if access.agent_id is not None:
        raise Forbidden("an agent's token cannot be used here")
    return access


UserOnly = Annotated[Access, Depends(admit_user)]


@router.get(routes.STREAM, response_class=Response, responses={200: {"content": {"text/event-stream": {}}}})
async def stream(
    access: UserOnly,
    last_event_id: Annotated[str | None, Header()] = None,
    shape: Annotated[EventShape | None, Query(description="bare data, or the envelope {event, data}")] = None,
) -> Response:
    """The project's events, for as long as the client listens."""
    settings = access.services.settings
    wanted = StreamRequest(
        project_id=access.project_id,
        last_event_id=last_event_id,
        shape=shape or settings.event_shape,
        expires_at=access.expires_at,
        heartbeat_s=settings.heartbeat_s,
        retry_ms=settings.retry_ms,
    )
    return EventStream(access.services.log, wanted)


@router.post(routes.MESSAGES, **describe_route(wire.MessageReply, 400, body=wire.MessageBody))
async def post_message(
    access: UserOnly, body: Annotated[wire.MessageBody, Depends(body_reader(wire.MessageBody))]
) -> Response:
    """A message or task of the user."""
    message_id, created_at = str(uuid4()), now()
    message = {
        "id": message_id,
        "project_id": access.project_id,
        "user_id": access.user_id,
        "session_id": body.session_id,
        "content": body.content,
        "created_at": created_at,
    }
    await access.services.post_message(message)
    return json_response(wire.MessageReply(success=True, message_id=message_id, timestamp=created_at))


@router.get(routes.TOOLS_AVAILABLE, **describe_route(wire.ToolsReply))
async def list_tools(access: Anyone) -> Response:
    """The tools a call can name, with the risk and the time to decide that are usual for them."""
    approvals = access.services.settings.approvals
    timeouts_s = {"LOW": 0.0, "MEDIUM": approvals.medium_timeout_s, "HIGH": approvals.high_timeout_s}
    tools = [_describe_tool(spec, timeouts_s[spec.risk]) for spec in SPECS]
    return json_response(wire.ToolsReply(success=True, tools=tools, total_count=len(tools)))


def _describe_tool(spec: ToolSpec, timeout_s: float) -> wire.ToolEntry:
    return wire.ToolEntry(
        name=spec.name,
        description=spec.description,
        parameters=parameter_schema(spec),
        requires_approval=spec.risk != "LOW",
        risk_level=spec.risk,
        timeout_seconds=timeout_s,
    )


@router.post(routes.TOOLS_EXECUTE, **describe_route(wire.ExecuteReply, 400, 413, body=wire.ExecuteBody))
async def execute(
    request: Request,
    access: Anyone,
    body: Annotated[wire.ExecuteBody, Depends(body_reader(wire.ExecuteBody))],
    wait: Annotated[bool, Query(description="false answers at once with the present status")] = True,
) -> Response:
    """Asks for a call, and by default blocks until its outcome."""
    agent_id = access.agent_id or body.agent_id
    origin = Origin(user_id=access.user_id, project_id=access.project_id, agent_id=agent_id)
    executions = access.services.executions
    if not wait:
        return json_response(await executions.submit(origin, body))
    return json_response(await executions.execute(origin, body, lambda: wait_for_disconnect(request.receive)))


@router.get(TOOLS, **describe_route(wire.RecordsReply, 400))
async def list_records(
    *,
    access: Anyone,
    status: Annotated[str | None, Query(max_length=50)] = None,
    tool_name: Annotated[str | None, Query(max_length=50)] = None,
    session_id: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX_RECORDS)] = 50,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> Response:
    """The records of the project, the newest first, without results."""
    if status is not None and status.upper() not in CallState.__members__:
        raise BadRequest(f"status: expected one of {', '.join(state.lower() for state in CallState)}")
    wanted = CallFilter(
        project_id=access.project_id,
        status=status and status.upper(),
        tool_name=tool_name,
        session_id=session_id,
        limit=limit,
        offset=offset,
    )
    async with access.services.database.read() as connection:
        records, total = await list_calls(connection, wanted)
    return json_response(wire.RecordsReply(success=True, tools=records, total_count=total))


@router.get(TOOL, **describe_route(wire.Record))
async def get_record(access: Anyone, tool_id: str) -> Response:
    """The record of one call."""
    async with access.services.database.read() as connection:
        return json_response(to_record(await find_call(connection, access.project_id, tool_id)))


@router.post(routes.TOOL_RESULT, **describe_route(wire.CallReply, 400, 403, 409, 413, 500, body=wire.ResultBody))
async def post_result(
    access: UserOnly, tool_id: str, body: Annotated[wire.ResultBody, Depends(body_reader(wire.ResultBody))]
) -> Response:
    """What became of a signalled call."""
    return json_response(await access.services.executions.finish(access.project_id, tool_id, body))


@router.post(routes.TOOL_RESULTS, **describe_route(batches.BatchReply, 400, 403, 413, body=wire.BatchBody))
async def post_results(
    access: UserOnly, body: Annotated[wire.BatchBody, Depends(body_reader(wire.BatchBody))]
) -> Response:
    """What became of several calls: one that cannot be taken holds up no other."""
    verdicts = [await _take_result(access, item) for item in body.results]
    return json_response(batches.BatchReply(success=True, results=verdicts))


async def _take_result(access: Access, item: wire.BatchItem) -> batches.Verdict:
    try:
        reply = await access.services.executions.finish(access.project_id, item.tool_id, item)
    except Problem as problem:
        return batches.Verdict(item.tool_id, problem.status, problem.message)
    return batches.Verdict(item.tool_id, HTTPStatus.OK, reply.message)


@router.post(TOOL_CANCEL, **describe_route(wire.CallReply, 400, 409, body=wire.CancelBody))
async def cancel(
    access: Anyone, tool_id: str, body: Annotated[wire.CancelBody, Depends(body_reader(wire.CancelBody))]
) -> Response:
    """Takes a call back."""
    reason = body.reason or "no longer wanted"
    return json_response(await access.services.executions.cancel(access.project_id, tool_id, reason))


@router.post(routes.APPROVE, **describe_route(wire.ApprovalReply, 400, 403, 409, body=wire.ApproveBody))
async def approve(
    access: UserOnly, approval_id: str, body: Annotated[wire.ApproveBody, Depends(body_reader(wire.ApproveBody))]
) -> Response:
    """The user's yes."""
    return json_response(await access.services.executions.approvals.approve(access.project_id, approval_id))


@router.post(routes.REJECT, **describe_route(wire.ApprovalReply, 400, 403, 409, body=wire.RejectBody))
async def reject(
    access: UserOnly, approval_id: str, body: Annotated[wire.RejectBody, Depends(body_reader(wire.RejectBody))]
) -> Response:
    """The user's no."""
    approvals = access.services.executions.approvals
    return json_response(await approvals.reject(access.project_id, approval_id, body.reason))


@router.get("/health", **describe_route(wire.HealthReply))
async def get_health(request: Request) -> Response:
    """Whether the server and its database answer. Needs no token."""
    services: Services = request.app.state.services
    await services.check()
    return json_response(wire.HealthReply(status="healthy", version=__version__))
