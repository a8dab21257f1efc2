"""Errors of the library. All are subclasses of `HotdeskError`."""

from __future__ import annotations

import math
from typing import Any

import httpx

_LONGEST_TEXT = 500
"""Characters of an answer that is no error body (a proxy's page, for example) which an error shows."""


class HotdeskError(Exception):
    """Anything that this library raises on its own behalf."""


class ConfigurationError(HotdeskError):
    """There is no API key, or what should name a server is no address."""


class ConnectionFailed(HotdeskError):
    """The service gave no answer: it cannot be reached, the connection broke, or its address redirects. Its cause is
    httpx's error, if there is one."""


class NoAnswer(ConnectionFailed):
    """The service did not answer in time. A change may have been made."""


class NoSuchComputer(HotdeskError, LookupError):
    """No computer has this name, or several have it."""


class WaitTimeout(HotdeskError, TimeoutError):
    """What was waited for did not happen in time."""


class SocketClosed(HotdeskError):
    """A socket ended in another way than normally. The codes are those of docs/channels.md, "Close codes"."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"socket closed: {reason or 'no reason'} ({code})")
        self.code = code
        self.reason = reason


class ApiError(HotdeskError):
    """The service refused a request or failed.

    Attributes:
        status: HTTP status.
        code: Code of docs/api/errors.md, such as `NAME_TAKEN`; None where the status says it all.
        message: What failed and why, in English.
        request_id: Id of the request in the log of the service.
        retry_after: Seconds after which a retry may succeed; None where it would not help.
        details: The whole error body, with the extra fields of some codes.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        named = f"{status} {code}" if code else str(status)
        ending = f" (request {request_id})" if request_id else ""
        super().__init__(f"{named}: {message}{ending}")
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id
        self.retry_after = retry_after
        self.details = details or {}

    @property
    def thread_id(self) -> str | None:
        """Thread of a run of a model that failed or was refused; None for other requests."""
        inner = self.details.get("error")
        id = inner.get("thread_id") if isinstance(inner, dict) else None
        return None if id is None else str(id)

    def __reduce__(self) -> Any:
        return _restore, (type(self), self.__dict__)


class InvalidRequest(ApiError):
    """400, 405, 412, 413, 415, 416 or 422: the request cannot be carried out as it is."""


class Unauthenticated(ApiError):
    """401: no API key, or an unknown one."""


class PaymentRequired(ApiError):
    """402: a trial has ended, or a payment has lapsed."""


class AccessDenied(ApiError):
    """403: the key may not do this, or a limit of the plan is reached."""


class NotFound(ApiError):
    """404: no such thing."""


class Conflict(ApiError):
    """409: the state of the thing blocks the operation."""


class RateLimited(ApiError):
    """429: too many requests, also after the retries."""


class ServerError(ApiError):
    """500 and above: the service or the computer failed."""


class Unavailable(ServerError):
    """503: not ready, or something needed is unavailable, also after the retries."""


class TimedOut(ServerError):
    """504: the computer did not answer in time."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthenticated,
    402: PaymentRequired,
    403: AccessDenied,
    404: NotFound,
    409: Conflict,
    429: RateLimited,
    503: Unavailable,
    504: TimedOut,
}


def _restore(kind: type[ApiError], fields: dict[str, Any]) -> ApiError:
    """The error with these fields: for `pickle` and `copy`, which would call `__init__` with one text."""
    error = kind.__new__(kind)
    named = {name: fields[name] for name in ("code", "request_id", "retry_after", "details")}
    ApiError.__init__(error, fields["status"], fields["message"], **named)
    return error


def api_error(response: httpx.Response) -> ApiError:
    """The error of an answer with a status from 400 on, whose body has been read."""
    try:
        body = response.json()
    except ValueError:
        body = None
    details: dict[str, Any] = body if isinstance(body, dict) else {}
    message, code = details.get("error"), details.get("code")
    if isinstance(message, dict):
        # The chat completions have errors of the form of OpenAI's.
        code = message.get("code", code)
        message = message.get("message")
    if not message:
        message = response.text[:_LONGEST_TEXT].strip() or response.reason_phrase
    status = response.status_code
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else InvalidRequest)
    return kind(
        status,
        str(message),
        code=None if code is None else str(code),
        request_id=response.headers.get("X-Request-Id") or details.get("request_id"),
        retry_after=_seconds(response.headers.get("Retry-After")),
        details=details,
    )


_STATUS_OF_RUN = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "rate_limit_error": 429,
}
"""Status of a failure of a run by its type, where the code does not say more (docs/api/chat.md#errors)."""
_STATUS_OF_CODE = {"model_unavailable": 503, "model_rate_limited": 503, "unavailable": 503, "timed_out": 504}
"""Status of a failure with the type `api_error` by its code."""


def run_error(response: httpx.Response, event: dict[str, Any]) -> ApiError:
    """The error of a run that failed after the head of its answer, whose status is that of a success."""
    inner = event["error"] if isinstance(event["error"], dict) else {}
    code = str(inner.get("code", ""))
    status = _STATUS_OF_RUN.get(str(inner.get("type"))) or _STATUS_OF_CODE.get(code, 500)
    request_id = response.headers.get("X-Request-Id") or inner.get("request_id")
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else InvalidRequest)
    message = str(inner.get("message") or "the run failed")
    return kind(status, message, code=code or None, request_id=request_id, details=event)


def _seconds(text: str | None) -> float | None:
    """The seconds of a `Retry-After`; None for a date, which the service never sends."""
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
