"""Which requests are sent again, and when: pure rules (docs/api/errors.md, docs/api/conventions.md#idempotency)."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass

import httpx

from .errors import ApiError

READS = frozenset({"GET", "HEAD", "OPTIONS"})
LARGEST_KEYED_BODY = 2 * 1024 * 1024
"""Bytes of a body with an `Idempotency-Key`: the service refuses more."""
REPEATABLE = "hotdesk.repeatable"
"""Extension of a request whose content can be read again: whether a second delivery has no second effect."""
_IN_PROGRESS = "idempotency_in_progress"
"""Code of an answer to a repeated request whose first delivery is still carried out."""
_CONTROL_HELD = "control_held"
"""Code of input that is refused because somebody else holds the screen. After the hand-back the screen is another one, so
the program has to look again."""
_FIRST_PAUSE = 0.5
"""Seconds before the first retry that no `Retry-After` times; each further one waits twice as long."""
_LONGEST_PAUSE = 10.0
"""Seconds that no such pause exceeds."""


@dataclass
class Retries:
    """The retries of one request."""

    method: str
    can_repeat: bool
    """Whether a second delivery of the request has no second effect."""
    remaining: int
    """How often it may still be sent again."""
    wait_budget: float
    """Seconds that it may still wait, in all."""
    pause: float = _FIRST_PAUSE

    def after_answer(self, error: ApiError) -> float | None:
        """Seconds to wait before the request is sent again; None when the error is final."""
        if error.code == _CONTROL_HELD:
            return None
        # The service did nothing, or still does it: the same request is right after the time that it names.
        if error.status in (409, 429, 503) and error.retry_after is not None:
            if error.code == _IN_PROGRESS:
                # A command may run for minutes. The wait is bounded, and its number of looks with it.
                return self._wait(max(error.retry_after, _FIRST_PAUSE))
            return self._take(error.retry_after)
        if error.status == 429 or (error.status >= 500 and self.method in READS):
            return self._take_pause()
        return None

    def after_failure(self, error: httpx.TransportError) -> float | None:
        """Seconds to wait after a request without an answer; None when the error is final."""
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)):
            # Nothing was sent.
            return self._take_pause()
        if isinstance(error, httpx.TimeoutException) or not self.can_repeat:
            return None
        return self._take_pause()

    def _take(self, seconds: float) -> float | None:
        if self.remaining <= 0:
            return None
        self.remaining -= 1
        return self._wait(seconds)

    def _wait(self, seconds: float) -> float | None:
        if seconds > self.wait_budget:
            return None
        self.wait_budget -= seconds
        return seconds

    def _take_pause(self) -> float | None:
        # Clients whose service restarted do not come back all at once.
        seconds = self.pause * random.uniform(0.5, 1.0)
        self.pause = min(self.pause * 2, _LONGEST_PAUSE)
        return self._take(seconds)


def prepare(request: httpx.Request, remaining: int, wait_budget: float) -> Retries:
    """The retries of a request. A change gets an `Idempotency-Key`, unless it has one or its body is too large."""
    is_read = request.method in READS
    is_stream = "Transfer-Encoding" in request.headers
    length = int(request.headers.get("Content-Length", 0))
    if not is_read and not is_stream and length <= LARGEST_KEYED_BODY:
        request.headers.setdefault("Idempotency-Key", uuid.uuid4().hex)
    has_key = "Idempotency-Key" in request.headers
    can_repeat = is_read or has_key or bool(request.extensions.get(REPEATABLE))
    # The content of a stream is gone once it has been sent.
    is_lost = is_stream and REPEATABLE not in request.extensions
    return Retries(request.method, can_repeat, 0 if is_lost else remaining, wait_budget)
