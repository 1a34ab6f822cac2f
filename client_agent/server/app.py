"""The web application: routes, and every problem as one shape of JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from client_agent import __version__
from client_agent.server import oauth
from client_agent.server.problems import Problem
from client_agent.server.routes import router
from client_agent.server.services import Services
from client_agent.server.settings import ServerSettings
from client_agent.server.wire import ProblemReply, json_response, schema_components


def create_app(settings: ServerSettings) -> FastAPI:
    """The server as an ASGI application with a lifespan. `app.state.services` are its parts."""
    services = Services(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await services.open()
        try:
            yield
        finally:
            await services.close()

    app = FastAPI(
        title="client-agent reference server",
        version=__version__,
        description="Agents ask here for tool calls; the user's client carries them out.",
        lifespan=lifespan,
    )
    app.state.services = services
    app.include_router(router)
    app.include_router(oauth.router)
    app.add_exception_handler(Problem, _answer_problem)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(Exception, _answer_unexpected)
    _add_schemas(app)
    return app


def _add_schemas(app: FastAPI) -> None:
    """Puts the schemas of our bodies, which FastAPI does not know, into its OpenAPI document."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        document.setdefault("components", {}).setdefault("schemas", {}).update(schema_components())
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _problem(status: HTTPStatus, detail: str, headers: dict[str, str] | None = None) -> Response:
    return json_response(ProblemReply(success=False, message=status.phrase, detail=detail), status, headers)


async def _answer_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101
    return _problem(error.status, error.message, error.headers)


async def _answer_http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    headers = dict(error.headers) if error.headers else None
    return _problem(HTTPStatus(error.status_code), str(error.detail), headers)


async def _answer_invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    problems = (f"{'.'.join(str(part) for part in item['loc'][1:])}: {item['msg']}" for item in error.errors())
    return _problem(HTTPStatus.BAD_REQUEST, "; ".join(problems))


async def _answer_unexpected(_request: Request, _error: Exception) -> Response:
    """The web server logs the error; the client learns nothing of our insides."""
    return _problem(HTTPStatus.INTERNAL_SERVER_ERROR, "the server could not do its job; its log says why")
