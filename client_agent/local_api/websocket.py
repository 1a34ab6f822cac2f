"""The page's live connection. The protocol is `websockets`' own, fed by hand with what the gate has let through."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from websockets.frames import Frame, Opcode
from websockets.http11 import Request as Handshake
from websockets.protocol import CLOSED
from websockets.server import ServerProtocol

from client_agent.local_api.conversation import Conversation
from client_agent.local_api.keys import Greeting
from client_agent.local_api.messages import MAX_REQUEST_BYTES

CLOSE_TIMEOUT_S = 2.0

log = logging.getLogger(__name__)


class WebSocket:
    """One page, live, once both sides have proven that they have the key."""

    def __init__(
        self,
        handshake: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        conversation: Conversation,
        key: str,
    ) -> None:
        self._handshake = handshake
        self._reader = reader
        self._writer = writer
        self._conversation = conversation
        self._greeting = Greeting(key)
        self._protocol = ServerProtocol(max_size=MAX_REQUEST_BYTES, logger=log)
        self._parts: list[bytes] = []
        self._trusted = False

    async def run(self) -> None:
        """Until either side has enough."""
        self._protocol.receive_data(self._handshake)
        (request,) = self._protocol.events_received()
        assert isinstance(request, Handshake)  # noqa: S101 - the gate has read it as well
        self._protocol.send_response(self._protocol.accept(request))
        await self._flush()
        sender = asyncio.create_task(self._send())
        try:
            while self._protocol.state is not CLOSED:
                async with asyncio.timeout(CLOSE_TIMEOUT_S if self._protocol.close_expected() else None):
                    data = await self._reader.read(65_536)
                if not data:
                    break
                self._protocol.receive_data(data)
                for event in self._protocol.events_received():
                    await self._take(event)
                await self._flush()
        finally:
            self._conversation.end()
            sender.cancel()
            await asyncio.wait([sender])

    async def _take(self, frame: object) -> None:
        if not isinstance(frame, Frame) or frame.opcode not in (Opcode.TEXT, Opcode.CONT):
            return
        if self._protocol.close_expected():
            return
        self._parts.append(bytes(frame.data))
        if not frame.fin:
            return
        message = b"".join(self._parts)
        self._parts.clear()
        if self._trusted:
            await self._conversation.take(message)
        else:
            self._greet(message)

    def _greet(self, message: bytes) -> None:
        try:
            if not self._greeting.greeted:
                self._protocol.send_text(self._greeting.answer_hello(message))
                return
            self._trusted = self._greeting.is_proven(message)
        except ValueError:
            self._trusted = False
        if not self._trusted:
            self._protocol.send_close(1008, "not the key")

    async def _send(self) -> None:
        with contextlib.suppress(ConnectionError):
            while (message := await self._conversation.next_message()) is not None:
                if self._protocol.close_expected():
                    return
                self._protocol.send_text(message)
                await self._flush()
        self._writer.close()

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._writer.write(data)
            elif self._writer.can_write_eof():
                self._writer.write_eof()
        await self._writer.drain()
