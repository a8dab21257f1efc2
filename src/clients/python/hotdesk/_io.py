"""What the library awaits and what it blocks on: pairs of functions of one name, with and without `async_`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, Callable, Generic, Protocol, TypeVar, Union

import websockets.asyncio.client
import websockets.sync.client
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from .errors import ConnectionFailed, SocketClosed, WaitTimeout

LARGEST_MESSAGE = 4 * 1024 * 1024
"""Bytes of a message of a socket: twice what the service sends at most (docs/channels.md#sockets)."""
CONNECT_TIMEOUT = 60.0
"""Seconds until a socket is open: a socket of a computer that starts waits up to 45 s."""

NORMAL_END = 1000
_TURN = 0.001
"""Seconds that a look for a message takes at least: without time asyncio would not look, and miss one that is there."""

T = TypeVar("T")


class _Context(Protocol):
    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


C = TypeVar("C", bound=_Context)


class Opening(Generic[C]):
    """Something that is being made: `await` it, or use it in `async with`."""

    def __init__(self, making: Coroutine[Any, Any, C]) -> None:
        self._making = making
        self._made: C | None = None

    def __await__(self) -> Generator[Any, Any, C]:
        return self._making.__await__()

    async def __aenter__(self) -> C:
        self._made = await self._making
        await self._made.__aenter__()
        return self._made

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._made is not None:
            await self._made.__aexit__(kind, error, trace)


def async_opening(making: Coroutine[Any, Any, C]) -> Opening[C]:
    """What `making` makes, for `await` and `async with`."""
    return Opening(making)


def opening(made: T) -> T:
    """What is made already."""
    return made


async def async_sleep(seconds: float) -> None:
    """Waits."""
    await asyncio.sleep(seconds)


def sleep(seconds: float) -> None:
    """Waits."""
    time.sleep(seconds)


class AsyncRepeater:
    """Calls a function again and again while other code runs, until it fails or is stopped."""

    def __init__(self, seconds: float, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.failure: Exception | None = None
        """Why the calls ended by themselves."""
        self._stopped = asyncio.Event()
        self._task = asyncio.ensure_future(self._repeat(seconds, act))

    async def _repeat(self, seconds: float, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            while True:
                try:
                    await asyncio.wait_for(self._stopped.wait(), seconds)
                    return
                except (TimeoutError, asyncio.TimeoutError):
                    await act()
        except Exception as failure:
            # Whoever stops it raises that.
            self.failure = failure

    async def stop(self) -> None:
        """Returns when no call is in progress and none comes."""
        self._stopped.set()
        await self._task


class Repeater:
    """Calls a function again and again while other code runs, until it fails or is stopped."""

    def __init__(self, seconds: float, act: Callable[[], None]) -> None:
        self.failure: Exception | None = None
        """Why the calls ended by themselves."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._repeat, args=(seconds, act), daemon=True)
        self._thread.start()

    def _repeat(self, seconds: float, act: Callable[[], None]) -> None:
        try:
            while not self._stopped.wait(seconds):
                act()
        except Exception as failure:
            # Whoever stops it raises that.
            self.failure = failure

    def stop(self) -> None:
        """Returns when no call is in progress and none comes."""
        self._stopped.set()
        self._thread.join()


Message = Union[str, bytes]


class AsyncSocket:
    """A WebSocket with the errors of this library."""

    def __init__(self, connection: websockets.asyncio.client.ClientConnection) -> None:
        self._connection = connection

    async def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None at the normal end. Raises `SocketClosed`, and `WaitTimeout` after `timeout` seconds."""
        allowed = None if timeout is None else max(timeout, _TURN)
        try:
            return await asyncio.wait_for(self._connection.recv(), allowed)
        except (TimeoutError, asyncio.TimeoutError):
            raise WaitTimeout(f"no message within {timeout} s") from None
        except ConnectionClosed as error:
            _check_end(error)
            return None

    async def send(self, message: str) -> None:
        """Sends a text. Raises `SocketClosed`."""
        try:
            await self._connection.send(message)
        except ConnectionClosed as error:
            raise _closed(error) from error

    async def close(self) -> None:
        """Closes the socket; does nothing when it is closed."""
        await self._connection.close()


class Socket:
    """A WebSocket with the errors of this library."""

    def __init__(self, connection: websockets.sync.client.ClientConnection) -> None:
        self._connection = connection

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None at the normal end. Raises `SocketClosed`, and `WaitTimeout` after `timeout` seconds."""
        try:
            return self._connection.recv(timeout)
        except TimeoutError:
            raise WaitTimeout(f"no message within {timeout} s") from None
        except ConnectionClosed as error:
            _check_end(error)
            return None

    def send(self, message: str) -> None:
        """Sends a text. Raises `SocketClosed`."""
        try:
            self._connection.send(message)
        except ConnectionClosed as error:
            raise _closed(error) from error

    def close(self) -> None:
        """Closes the socket; does nothing when it is closed."""
        self._connection.close()


def _closed(error: ConnectionClosed) -> SocketClosed:
    # 1006 is the code of a connection that broke (RFC 6455, section 7.1.5).
    return (
        SocketClosed(error.rcvd.code, error.rcvd.reason)
        if error.rcvd
        else SocketClosed(1006, "connection lost")
    )


def _check_end(error: ConnectionClosed) -> None:
    closed = _closed(error)
    if closed.code != NORMAL_END:
        raise closed from error


# Before Python 3.11 the timeout of asyncio is another class.
_REFUSED = (OSError, TimeoutError, asyncio.TimeoutError, InvalidHandshake, InvalidMessage)


async def async_connect(url: str, password: str) -> AsyncSocket:
    """Opens a socket. Raises `ConnectionFailed`."""
    try:
        connection = await websockets.asyncio.client.connect(
            url,
            additional_headers={"Authorization": f"Bearer {password}"},
            max_size=LARGEST_MESSAGE,
            open_timeout=CONNECT_TIMEOUT,
        )
    except _REFUSED as error:
        raise ConnectionFailed(f"the socket {url} cannot be opened: {error}") from error
    return AsyncSocket(connection)


def connect(url: str, password: str) -> Socket:
    """Opens a socket. Raises `ConnectionFailed`."""
    try:
        connection = websockets.sync.client.connect(
            url,
            additional_headers={"Authorization": f"Bearer {password}"},
            max_size=LARGEST_MESSAGE,
            open_timeout=CONNECT_TIMEOUT,
        )
    except _REFUSED as error:
        raise ConnectionFailed(f"the socket {url} cannot be opened: {error}") from error
    return Socket(connection)
