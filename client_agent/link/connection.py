"""The server as one workspace sees it: events come in, results and approvals go out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType

import msgspec
from yarl import URL

from client_agent.config import Link
from client_agent.link.answers import describe_answer
from client_agent.link.credentials import Credentials
from client_agent.link.http import TRANSPORT_ERRORS, HttpPool, describe
from client_agent.link.login import TokenEndpoint, keep_fresh
from client_agent.link.network import Addresses, read_addresses, watch_network
from client_agent.link.origin import RedirectRefused, is_loopback
from client_agent.link.sleep import SleepGauge, watch_sleep
from client_agent.link.status import LinkState, LinkStatus, StatusBoard
from client_agent.link.stream import EventStream, Received
from client_agent.link.verdicts import Answer, Delivery, Outcome, judge_post
from client_agent.protocol import batches, routes

_log = logging.getLogger(__name__)
_Post = Callable[[str, bytes, dict[str, str]], Awaitable[Answer]]


class ServerConnection:
    """One project on one server. What goes wrong on the way is in `status` and in verdicts, never an exception.

    Use it as an async context manager. Entering raises ConfigError for a proxy or CA that cannot be used.
    """

    def __init__(
        self,
        settings: Link,
        server_url: str,
        project_id: str,
        credentials: Credentials,
        *,
        sleep_gauge: SleepGauge | None = None,
        read_addresses: Callable[[], Addresses] = read_addresses,
    ) -> None:
        self._settings = settings
        self._server = URL(server_url)
        self._project_id = project_id
        self._credentials = credentials
        self._status = StatusBoard()
        self._stream: EventStream | None = None
        self._sleep_gauge = sleep_gauge or SleepGauge()
        self._read_addresses = read_addresses

    async def __aenter__(self) -> ServerConnection:
        if self._server.scheme == "http" and not is_loopback(self._server):
            _log.warning("%s is not encrypted: anyone on the way can read the token and all files", self._server)
        await self._credentials.renew(None)
        self._pool = HttpPool(self._settings, self._server)
        self._pool.open()
        self._credentials.refresh = TokenEndpoint(self._pool, self._server).refresh
        self._watches = [
            asyncio.create_task(watch_sleep(self._sleep_gauge, self._wake_after_sleep)),
            asyncio.create_task(watch_network(self._wake_on_another_network, self._read_addresses)),
            asyncio.create_task(keep_fresh(self._credentials.refresh_when_due, _tell_not_renewed)),
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watch in self._watches:
            watch.cancel()
        await asyncio.wait(self._watches)
        await self._pool.close()
        self._status.post(LinkState.CLOSED)

    @property
    def status(self) -> LinkStatus:
        return self._status.current

    async def wait_until(self, holds: Callable[[LinkStatus], bool]) -> LinkStatus:
        """Waits for a status of which this holds."""
        return await self._status.wait_until(holds)

    def events(self, last_event_id: str = "") -> AsyncGenerator[Received, None]:
        """The project's events after this one, for ever, for one consumer (see `EventStream`)."""
        self._stream = EventStream(
            self._pool,
            URL(f"{self._server.origin()}{self._path(routes.STREAM)}", encoded=True),
            self._credentials,
            self._settings,
            self._status,
            last_event_id=last_event_id,
        )
        return self._stream.__aiter__()

    def wake(self) -> None:
        """Connects anew at once: the user asks, a new token is there, the network changed."""
        if self._stream is not None:
            self._stream.wake()

    async def reload_credentials(self) -> None:
        """Takes the token that is kept now, or that none is, and connects anew."""
        await self._credentials.reload()
        self.wake()

    async def post_result(self, tool_id: str, body: bytes) -> Delivery:
        """Posts a call's result, already encoded; the same one may be posted again."""
        return await self._deliver(self._pool.post_result, self._path(routes.TOOL_RESULT, tool_id=tool_id), body)

    @property
    def batch_max(self) -> int:
        """How many results the server takes in one post; 0 where it does not offer it."""
        return self._stream.batch_max if self._stream is not None else 0

    async def post_results(self, results: Sequence[tuple[str, bytes]]) -> dict[str, Delivery] | None:
        """Posts several results at once: the verdict on each; None where the server does not take them so after all."""
        path = self._path(routes.TOOL_RESULTS)
        delivery = await self._deliver(self._pool.post_result, path, batches.pack(results))
        if delivery.outcome in (Outcome.RETRY, Outcome.UNAUTHORIZED):
            return {tool_id: delivery for tool_id, _ in results}
        verdicts = batches.read_verdicts(delivery.body) if delivery.outcome is Outcome.DELIVERED else None
        if verdicts is None:
            _log.warning("the server offers batches of results and does not take one: %s", delivery.detail)
            if self._stream is not None:
                self._stream.batch_max = 0
            return None
        return {tool_id: self._judge(verdicts[tool_id]) for tool_id, _ in results if tool_id in verdicts}

    def _judge(self, verdict: batches.Verdict) -> Delivery:
        return self._masked(judge_post(describe_answer(verdict.code, {}, verdict.message.encode()), datetime.now(UTC)))

    async def approve(self, approval_id: str) -> Delivery:
        body = msgspec.json.encode({"decision": "approved"})
        return await self._deliver(self._pool.post, self._path(routes.APPROVE, approval_id=approval_id), body)

    async def reject(self, approval_id: str, reason: str) -> Delivery:
        body = msgspec.json.encode({"reason": reason})
        return await self._deliver(self._pool.post, self._path(routes.REJECT, approval_id=approval_id), body)

    def _path(self, route: str, **names: str) -> str:
        return self._server.raw_path.rstrip("/") + routes.fill(route, project_id=self._project_id, **names)

    async def _deliver(self, post: _Post, path: str, body: bytes) -> Delivery:
        """One post; after a 401, one more with a new token where there is one."""
        token = self._credentials.known
        delivery = await self._try_deliver(post, path, body, token)
        if delivery.outcome is Outcome.UNAUTHORIZED and await self._credentials.renew(token):
            return await self._try_deliver(post, path, body, self._credentials.known)
        return delivery

    async def _try_deliver(self, post: _Post, path: str, body: bytes, token: str | None) -> Delivery:
        if token is None:
            return Delivery(outcome=Outcome.UNAUTHORIZED, detail=self._credentials.problem)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": "application/json"}
        try:
            answer = await post(path, body, headers)
        except RedirectRefused as error:
            return Delivery(outcome=Outcome.RETRY, detail=error.message)
        except TRANSPORT_ERRORS as error:
            return Delivery(outcome=Outcome.RETRY, detail=self._credentials.mask(describe(error)))
        return self._masked(judge_post(answer, datetime.now(UTC)))

    def _masked(self, delivery: Delivery) -> Delivery:
        return msgspec.structs.replace(delivery, detail=self._credentials.mask(delivery.detail))

    def _wake_on_another_network(self) -> None:
        if not is_loopback(self._server):  # the way to this very machine stays
            _log.info("another network: connecting anew")
            self.wake()

    def _wake_after_sleep(self, slept_s: float) -> None:
        _log.info("the machine slept for about %d s: connecting anew", slept_s)
        self.wake()


def _tell_not_renewed(problem: str) -> None:
    _log.warning("the token ends soon and could not be renewed: %s", problem)
