"""Runs of models on a computer, and their threads (docs/api/chat.md)."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import httpx

from .._io import async_sleep
from .._lines import ServerEvents
from ..chat import ChatAnswer, ChatEvent, ChatOptions, RunProgress, messages_of
from ..errors import ConnectionFailed, HotdeskError, WaitTimeout, run_error
from ..rest.api.threads import (
    threads_change,
    threads_list,
    threads_read,
    threads_remove,
    threads_steps,
    threads_stop,
)
from ..rest.models.change_thread import ChangeThread
from ..rest.models.chat_run import ChatRun
from ..rest.models.chat_usage import ChatUsage
from ..rest.models.screen_actor import ScreenActor
from .context import AsyncClosing

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..rest.models import ThreadRecord, ThreadStepRecord, ThreadSummary
    from .computer import AsyncComputer

SILENCE_TIMEOUT = 120.0
"""Seconds without a byte after which a stream of events is lost. The service sends a comment every 15 s; a computer that is
asleep wakes before the first one."""
_END = "[DONE]"
"""Data of the last event of a run that ended as it should."""
_LONGEST_TEXT = 1024 * 1024
"""Characters of an answer, as the service has them without a stream."""
_PAGE = 50
"""Steps in one answer: one has up to 64 KiB, twice."""
_PAUSE = 1.0
"""Seconds between two looks at the steps of a run that goes on."""


class AsyncChatStream(AsyncClosing):
    """A run of a model, as it happens: iteration yields what it writes and waits for, and ends with the run.

    It is begun by `async with`, or by its first use. Leaving it early ends the run, unless `background` is true.
    """

    def __init__(self, computer: AsyncComputer, body: dict[str, Any], headers: dict[str, str]) -> None:
        self._computer = computer
        self._body = body
        self._headers = headers
        self._held = AsyncExitStack()
        self._answer: httpx.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._parser = ServerEvents()
        self._events: deque[ChatEvent] = deque()
        self._text = ""
        self._failure: HotdeskError | None = None
        self._ended = False
        self.thread_id: str | None = None
        """Thread of the run; None until it has begun."""
        self.answer: ChatAnswer | None = None
        """What came of the run; None until it has ended."""

    async def _enter(self) -> None:
        await self._begin()

    async def close(self) -> None:
        """Leaves the run. It ends within a second, unless `background` is true."""
        self._ended = True
        await self._held.aclose()

    async def _begin(self) -> AsyncIterator[bytes]:
        if self._pieces is None:
            client, id = await self._computer.target()
            asking = client.stream(
                "POST",
                "/v1/chat/completions",
                json={**self._body, "computer_id": id, "stream": True},
                headers=self._headers,
                timeout=httpx.Timeout(SILENCE_TIMEOUT, connect=10.0),
            )
            self._answer = await self._held.enter_async_context(asking)
            self.thread_id = self._answer.headers.get("X-Thread-Id")
            self._pieces = self._answer.aiter_bytes()
        return self._pieces

    def __aiter__(self) -> AsyncIterator[ChatEvent]:
        return self

    async def __anext__(self) -> ChatEvent:
        while not self._events:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if self._ended:
                raise StopAsyncIteration
            await self._read()
        return self._events.popleft()

    async def _read(self) -> None:
        """Takes the next bytes of the answer."""
        pieces = await self._begin()
        try:
            piece = await pieces.__anext__()
            for data in self._parser.feed(piece):
                self._take(data)
                if self._ended:
                    break
        except StopAsyncIteration:
            self._failure = ConnectionFailed(f"the answer of thread {self.thread_id} broke off")
        except httpx.TransportError as error:
            self._failure = ConnectionFailed(f"the answer of thread {self.thread_id} broke off: {error}")
            self._failure.__cause__ = error
        except HotdeskError as error:
            self._failure = error
        if self._failure is not None or self._ended:
            await self.close()

    def _take(self, data: str) -> None:
        if data == _END:
            self._ended = True
            return
        event: dict[str, Any] = json.loads(data)
        if "error" in event and self._answer is not None:
            raise run_error(self._answer, event)
        choices = event.get("choices") or [{}]
        text = (choices[0].get("delta") or {}).get("content") or ""
        self._text = (self._text + text)[-_LONGEST_TEXT:]
        progress = event.get("progress")
        if text or progress:
            self._events.append(ChatEvent(text, _progress(progress) if progress else None))
        if event.get("orgo"):
            usage = ChatUsage.from_dict(event["usage"]) if event.get("usage") else None
            self.answer = ChatAnswer(self._text, ChatRun.from_dict(event["orgo"]), usage)


def _progress(progress: dict[str, Any]) -> RunProgress:
    holder = progress.get("holder")
    return RunProgress(
        progress.get("waiting_for"),
        ScreenActor.from_dict(holder) if holder else None,
        progress.get("message"),
    )


class AsyncChat:
    """Models that work on a computer, as `computer.chat`, and the threads that say what they did."""

    def __init__(self, computer: AsyncComputer) -> None:
        self._computer = computer

    def stream(
        self, messages: str | Sequence[dict[str, Any]] = (), **options: Unpack[ChatOptions]
    ) -> AsyncChatStream:
        """Lets a model work on the computer, and yields what it writes: `async with computer.chat.stream("...") as run`.

        Args:
            messages: What the user says, or messages of the API; with `thread_id` only what is new.
            options: Those of docs/api/chat.md#request; `anthropic_key` is the header `x-anthropic-key`.
        """
        body: dict[str, Any] = {"messages": messages_of(messages), **options}
        key = body.pop("anthropic_key", None)
        return AsyncChatStream(self._computer, body, {"x-anthropic-key": key} if key else {})

    async def run(
        self, messages: str | Sequence[dict[str, Any]] = (), **options: Unpack[ChatOptions]
    ) -> ChatAnswer:
        """Lets a model work on the computer, and returns when the run has ended. The arguments are those of `stream`.

        `ApiError` says why a run failed, also after it began; `thread_id` of it is the thread, which can be continued.
        """
        async with self.stream(messages, **options) as run:
            async for _ in run:
                pass
        if run.answer is None:
            raise ConnectionFailed(f"the answer of thread {run.thread_id} ended without its summary")
        return run.answer

    async def threads(self) -> list[ThreadSummary]:
        """The threads of the computer, the last changed first."""
        client, id = await self._computer.target()
        return (await threads_list.asyncio(client, computer_id=id)).threads

    async def thread(self, thread_id: str) -> ThreadRecord:
        """A thread with its messages, and the state of its last run."""
        client, _ = await self._computer.target()
        return await threads_read.asyncio(client, thread_id)

    async def steps(
        self, thread_id: str, *, follow: bool = False, timeout: float = 3600.0
    ) -> AsyncIterator[ThreadStepRecord]:
        """The steps of a thread, in their order: calls of tools with their results.

        Args:
            thread_id: The thread.
            follow: Whether those of a run that goes on are waited for, until it ends.
            timeout: Seconds after which that raises `WaitTimeout`.
        """
        client, _ = await self._computer.target()
        end = time.monotonic() + timeout
        # The cursor of the page after a step is its number.
        last = 0
        while True:
            # Before the steps: those of a run that ended are complete.
            goes_on = follow and (await threads_read.asyncio(client, thread_id)).run == "running"
            page = await threads_steps.asyncio(client, thread_id, cursor=str(last), limit=_PAGE)
            for step in page.steps:
                last = step.number
                yield step
            if page.next_cursor:
                continue
            if not goes_on:
                return
            if time.monotonic() > end:
                raise WaitTimeout(f"the run of {thread_id} has not ended within {timeout} s")
            await async_sleep(_PAUSE)

    async def stop(self, thread_id: str) -> bool:
        """Ends the run of a thread, whoever began it. False when none was in progress."""
        client, _ = await self._computer.target()
        return (await threads_stop.asyncio(client, thread_id)).stopped

    async def rename(self, thread_id: str, title: str) -> None:
        """Gives a thread a title."""
        client, _ = await self._computer.target()
        await threads_change.asyncio(client, thread_id, body=ChangeThread(title=title))

    async def delete(self, thread_id: str) -> None:
        """Deletes a thread with its messages, steps and pictures."""
        client, _ = await self._computer.target()
        await threads_remove.asyncio(client, thread_id)
