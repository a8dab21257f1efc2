"""Requests to a service: API key, retries, errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from .. import _retries, _settings
from .._io import async_sleep
from ..errors import ConnectionFailed, NoAnswer, api_error
from .context import AsyncClosing
from .secrets import AsyncSecrets
from .streaming import AsyncConnections
from .templates import AsyncTemplates


class AsyncClient(AsyncClosing):
    """A service, with an API key. It may be shared by tasks.

    Args:
        base_url: Address of the service; by default `HOTDESK_URL`, then the current profile of the command line, then
            `http://127.0.0.1:8700`.
        api_key: API key; by default `HOTDESK_API_KEY`, then that of the profile.
        timeout: Seconds to wait for an answer. Commands in a computer may take 300.
        max_retries: How often a request is sent again.
        max_retry_wait: Seconds that all retries of a request wait together; a longer `Retry-After` is an error at once.
        transport: Another transport of httpx, for tests and proxies.

    Raises:
        ConfigurationError: There is no API key, or `base_url` is no address.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = 330.0,
        max_retries: int = 6,
        max_retry_wait: float = 120.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.origin, key = _settings.resolve(base_url, api_key)
        self._max_retries = max_retries
        self._max_retry_wait = max_retry_wait
        self._http = httpx.AsyncClient(
            base_url=f"{self.origin}/api",
            headers={"Authorization": f"Bearer {key}", "User-Agent": _user_agent()},
            timeout=httpx.Timeout(timeout, connect=10.0),
            transport=transport,
        )
        self.secrets = AsyncSecrets(self)
        """Secrets that computers use."""
        self.connections = AsyncConnections(self)
        """RTMP servers for live streams."""
        self.templates = AsyncTemplates(self)
        """Templates, from which computers are launched."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.origin!r})"

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def request(self, method: str, url: str, **kwargs: Any) -> httpx.Response:
        """The answer to a request; `url` is below `/api`, and `kwargs` are those of httpx's `build_request`.

        Changes get an `Idempotency-Key`, and every request is retried as docs/api/errors.md says.

        Raises:
            ApiError: The status is 400 or above.
            ConnectionFailed: There was no answer.
        """
        content = kwargs.get("content")
        if content is not None and hasattr(content, "read"):
            # A file could be sent only once.
            kwargs["content"] = content.read()
        return await self._send(self._http.build_request(method, url, **kwargs), stream=False)

    @asynccontextmanager
    async def stream(self, method: str, url: str, **kwargs: Any) -> AsyncIterator[httpx.Response]:
        """As `request`, but the body of the answer is read by the caller."""
        response = await self._send(self._http.build_request(method, url, **kwargs), stream=True)
        try:
            yield response
        except httpx.TransportError as error:
            raise ConnectionFailed(f"{method.upper()} {url}: the answer broke off: {error}") from error
        finally:
            await response.aclose()

    async def _send(self, request: httpx.Request, stream: bool) -> httpx.Response:
        retries = _retries.prepare(request, self._max_retries, self._max_retry_wait)
        while True:
            try:
                response = await self._http.send(request, stream=stream)
                if response.has_redirect_location:
                    # A redirected change would become a read (RFC 9110, section 15.4.2).
                    await response.aclose()
                    target = response.headers["Location"]
                    raise ConnectionFailed(f"{request.url.host} redirects to {target}: use that address")
                if response.status_code < 400:
                    return response
                await response.aread()
            except httpx.TransportError as failure:
                wait = retries.after_failure(failure)
                if wait is None:
                    raise _failed(request, failure) from failure
            else:
                await response.aclose()
                error = api_error(response)
                # A run of a model that failed after it began would work twice (docs/api/chat.md#errors).
                is_final = response.headers.get("X-Should-Retry") == "false"
                wait = None if is_final else retries.after_answer(error)
                if wait is None:
                    raise error
            await async_sleep(wait)


def _failed(request: httpx.Request, failure: httpx.TransportError) -> ConnectionFailed:
    kind = NoAnswer if isinstance(failure, httpx.TimeoutException) else ConnectionFailed
    reason = str(failure) or type(failure).__name__
    return kind(f"{request.method} {request.url.path}: no answer from {request.url.host}: {reason}")


def _user_agent() -> str:
    from .. import __version__

    return f"hotdesk-python/{__version__}"
