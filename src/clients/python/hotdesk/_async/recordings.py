"""Recordings of a screen: video, and a timeline of what was done (docs/api/screens.md#recordings)."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, List

from .._lines import Lines
from ..rest.api.recordings import (
    recordings_delete,
    recordings_list,
    recordings_record,
    recordings_start,
    recordings_stop,
)
from ..rest.models.recording import Recording
from ..rest.models.start_recording import StartRecording
from .files import save

if TYPE_CHECKING:
    from .computer import AsyncComputer


class AsyncRecordings:
    """Recordings of a computer, as `computer.recordings`. `recording` is a record, or an id."""

    def __init__(self, computer: AsyncComputer) -> None:
        self._computer = computer

    async def start(
        self,
        *,
        fps: int | None = None,
        max_seconds: int | None = None,
        timeline: bool = True,
        screen: str | None = None,
    ) -> Recording:
        """Starts a recording.

        Args:
            fps: Frames per second, 1 to 30; 10 by default.
            max_seconds: Seconds after which it ends by itself, 1 to 3600; 600 by default.
            timeline: Whether it also records what is done.
            screen: The screen.
        """
        body = StartRecording(fps=fps, max_seconds=max_seconds, timeline=timeline, screen=screen)
        return await recordings_start.asyncio(*await self._computer.target(), body=body)

    async def list(self) -> List[Recording]:
        """The recordings, oldest first."""
        return (await recordings_list.asyncio(*await self._computer.target())).recordings

    async def get(self, recording: str | Recording) -> Recording:
        """The record of a recording: `status`, `seconds`, `size_bytes` and more."""
        return await recordings_record.asyncio(*await self._computer.target(), _id(recording))

    async def stop(self, recording: str | Recording) -> Recording:
        """Ends a recording; one that has ended stays as it is."""
        return await recordings_stop.asyncio(*await self._computer.target(), _id(recording))

    async def delete(self, recording: str | Recording) -> None:
        """Deletes a recording with its video and timeline."""
        await recordings_delete.asyncio(*await self._computer.target(), _id(recording))

    async def download(self, recording: str | Recording, local: str | os.PathLike[str]) -> Path:
        """Copies the video (MP4) to this machine; returns where it is. Of one that goes on it is what is written so far."""
        client, id = await self._computer.target()
        return await save(client, f"/computers/{id}/recordings/{_id(recording)}/video", local)

    async def timeline(self, recording: str | Recording) -> AsyncIterator[dict[str, Any]]:
        """What was done on the screen, in order: `at` (seconds from the start), `action` and more."""
        client, id = await self._computer.target()
        lines = Lines()
        url = f"/computers/{id}/recordings/{_id(recording)}/timeline"
        async with client.stream("GET", url) as answer:
            async for piece in answer.aiter_bytes():
                for line in lines.feed(piece):
                    entry: dict[str, Any] = json.loads(line)
                    yield entry


def _id(recording: str | Recording) -> str:
    return recording if isinstance(recording, str) else recording.id
