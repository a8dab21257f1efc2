"""Base classes of what `async with` enters and leaves."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

C = TypeVar("C", bound="AsyncContext")


class AsyncContext:
    """Something for `async with`."""

    async def __aenter__(self: C) -> C:
        await self._enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._leave(error)

    async def _enter(self) -> None:
        """Begins it. By default its first use does."""

    async def _leave(self, error: BaseException | None) -> None:
        """Ends it; `error` is that of the block."""
        raise NotImplementedError


class AsyncClosing(AsyncContext):
    """Something that is closed when the block is left."""

    async def _leave(self, error: BaseException | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes it."""
        raise NotImplementedError
