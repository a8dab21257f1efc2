"""Events, terminals and sound of a computer: iterators over WebSockets (docs/channels.md)."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Callable, Generic, TypeVar
from urllib.parse import urlencode

from .._io import CONNECT_TIMEOUT, AsyncSocket, Message, async_connect
from ..errors import HotdeskError, SocketClosed, WaitTimeout
from ..events import Event
from ..rest.api.computers import computers_vnc_password
from ..rest.api.events import events_catalogue
from .context import AsyncClosing

if TYPE_CHECKING:
    from .computer import AsyncComputer

T = TypeVar("T")

_INPUT_PIECE = 64 * 1024
"""Characters of one input message. The service takes at most 2 MiB, and JSON may need twelve bytes for a character."""


class AsyncStream(AsyncClosing, Generic[T]):
    """A socket that is opened by `async with`, or by its first use. Iteration yields what it sends, until its end."""

    _channel = ""

    def __init__(self, computer: AsyncComputer, **query: Any) -> None:
        self._computer = computer
        self._query = {name: value for name, value in query.items() if value is not None}
        self._socket: AsyncSocket | None = None
        self._ended = False

    async def _enter(self) -> None:
        await self._open()

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        item = await self._item(None)
        if item is None:
            raise StopAsyncIteration
        return item

    async def _item(self, timeout: float | None) -> T | None:
        """The next item; None at the end. Raises `WaitTimeout` after `timeout` seconds."""
        raise NotImplementedError

    async def close(self) -> None:
        """Closes the socket."""
        self._ended = True
        if self._socket is not None:
            await self._socket.close()

    async def _open(self) -> AsyncSocket:
        if self._socket is not None:
            return self._socket
        if self._ended:
            raise SocketClosed(1000, "the socket was closed")
        client, id = await self._computer.target()
        password = (await computers_vnc_password.asyncio(client, id)).password
        query = f"?{urlencode(self._query)}" if self._query else ""
        url = f"ws{client.origin[len('http') :]}/desktops/{id}/ws/{self._channel}{query}"
        socket = await async_connect(url, password)
        try:
            await self._begin(socket)
        except BaseException:
            # No block was entered that would close it.
            await socket.close()
            raise
        self._socket = socket
        return socket

    async def _begin(self, socket: AsyncSocket) -> None:
        """Sends and receives what comes before the first message for the caller."""

    async def _next(self, timeout: float | None) -> Message | None:
        if self._ended:
            return None
        message = await (await self._open()).receive(timeout)
        self._ended = message is None
        return message

    async def _next_of(self, kind: str, timeout: float | None) -> dict[str, Any] | None:
        """The next message of a type, as JSON; None at the end. Those of other types go to `_other`."""
        left = _countdown(timeout)
        while True:
            message = await self._next(left())
            if message is None:
                return None
            parsed = _parsed(message)
            if parsed.get("type") == kind:
                return parsed
            self._other(parsed)

    def _other(self, message: dict[str, Any]) -> None:
        """Takes a message of another type than the awaited one."""


def _countdown(timeout: float | None) -> Callable[[], float | None]:
    """Tells how much of a timeout is left, at least 0; None without one."""
    if timeout is None:
        return lambda: None
    end = time.monotonic() + timeout
    return lambda: max(end - time.monotonic(), 0.0)


def _parsed(message: Message | None) -> dict[str, Any]:
    """A JSON message. Raises `SocketClosed` at the end, and `HotdeskError` for a message of type `error`."""
    if message is None:
        raise SocketClosed(1000, "the socket ended")
    parsed: dict[str, Any] = json.loads(message)
    if parsed.get("type") == "error":
        raise HotdeskError(str(parsed.get("message")))
    return parsed


class AsyncEvents(AsyncStream[Event]):
    """Events of a computer, as they happen. Iteration ends when `close` is called; it raises `SocketClosed` when the
    computer stops."""

    _channel = "events"

    def __init__(self, computer: AsyncComputer, types: tuple[str, ...]) -> None:
        super().__init__(computer)
        self._types = types
        self.dropped = 0
        """Events that this socket has missed, because they were not read in time."""

    async def _begin(self, socket: AsyncSocket) -> None:
        types = list(self._types)
        if not types:
            types = (await events_catalogue.asyncio(*await self._computer.target())).event_types
        await socket.send(json.dumps({"type": "subscribe", "event_types": types}))
        while _parsed(await socket.receive(CONNECT_TIMEOUT)).get("type") != "subscribed":
            pass

    async def _item(self, timeout: float | None) -> Event | None:
        message = await self._next_of("event", timeout)
        if message is None:
            return None
        self.dropped = message.get("dropped", self.dropped)
        event = message["event"]
        return Event(event["type"], event["timestamp"], event.get("data") or {})

    async def next(self, timeout: float | None = None) -> Event | None:
        """The next event; None at the end. Raises `WaitTimeout` after `timeout` seconds."""
        return await self._item(timeout)

    async def wait_for(self, check: Callable[[Event], bool], timeout: float = 60.0) -> Event:
        """The next event for which `check` is true; the others are lost. Raises `WaitTimeout`."""
        end = time.monotonic() + timeout
        while True:
            event = await self.next(max(end - time.monotonic(), 0.0))
            if event is None:
                raise SocketClosed(1000, "the socket ended")
            if check(event):
                return event


class AsyncTerminal(AsyncStream[str]):
    """An interactive login shell in the computer: iteration yields what it writes, and ends with the shell.

    Everything that was started in it ends when the terminal is closed.
    """

    _channel = "terminal"

    def __init__(self, computer: AsyncComputer, cols: int, rows: int, screen: str | None) -> None:
        super().__init__(computer, cols=cols, rows=rows, screen=screen)
        self.exit_code: int | None = None
        """Exit code of the shell; 128 + signal for a signal. None while it runs."""

    async def send(self, text: str) -> None:
        """Types a text; `\\r` is Enter."""
        socket = await self._open()
        for at in range(0, len(text), _INPUT_PIECE):
            await socket.send(json.dumps({"type": "input", "data": text[at : at + _INPUT_PIECE]}))

    async def resize(self, cols: int, rows: int) -> None:
        """Changes the size."""
        await (await self._open()).send(json.dumps({"type": "resize", "cols": cols, "rows": rows}))

    async def _item(self, timeout: float | None) -> str | None:
        message = await self._next_of("output", timeout)
        return None if message is None else str(message["data"])

    def _other(self, message: dict[str, Any]) -> None:
        if message.get("type") == "exit":
            self.exit_code = message["code"]

    async def read(self, timeout: float | None = None) -> str | None:
        """What the shell wrote next; None after its end. Raises `WaitTimeout` after `timeout` seconds."""
        return await self._item(timeout)

    async def read_until(self, text: str, timeout: float = 60.0) -> str:
        """What the shell writes, up to the piece in which `text` appears. Raises `WaitTimeout`, or `SocketClosed` when
        the shell ends before."""
        written = ""
        end = time.monotonic() + timeout
        while text not in written:
            try:
                piece = await self.read(max(end - time.monotonic(), 0.0))
            except WaitTimeout:
                raise WaitTimeout(
                    f"the terminal did not write {text!r} within {timeout} s: {written[-500:]!r}"
                ) from None
            if piece is None:
                raise SocketClosed(1000, f"the shell ended before it wrote {text!r}")
            written += piece
        return written


class AsyncAudio(AsyncStream[bytes]):
    """What a computer plays: iteration yields frames of 20 ms, signed 16-bit little-endian samples. Silence too."""

    _channel = "audio"

    def __init__(self, computer: AsyncComputer, sample_rate: int, channels: int) -> None:
        super().__init__(computer, sample_rate=sample_rate, channels=channels)
        self.sample_rate = sample_rate
        """Samples a second."""
        self.channels = channels
        """1 or 2."""

    async def _begin(self, socket: AsyncSocket) -> None:
        _parsed(await socket.receive(CONNECT_TIMEOUT))

    async def _item(self, timeout: float | None) -> bytes | None:
        left = _countdown(timeout)
        while True:
            message = await self._next(left())
            if message is None or isinstance(message, bytes):
                return message
            _parsed(message)

    async def read(self, timeout: float | None = None) -> bytes | None:
        """The next frame; None at the end. Raises `WaitTimeout` after `timeout` seconds."""
        return await self._item(timeout)
