"""Live streams of a computer to an RTMP server, and the servers that are saved (docs/api/streaming.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

from ..rest.api.streaming import (
    streaming_list,
    streaming_remove,
    streaming_save,
    streaming_start,
    streaming_status,
    streaming_stop,
)
from ..rest.models.save_connection import SaveConnection
from ..rest.models.start_stream import StartStream
from .workspaces import workspace_id

if TYPE_CHECKING:
    from ..rest.models import Connection, StreamStarted, StreamStatus
    from .client import AsyncClient
    from .computer import AsyncComputer


class AsyncConnections:
    """RTMP servers with their stream keys, as `client.connections`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def save(self, name: str, url: str, key: str, *, workspace: str | None = None) -> Connection:
        """Saves a server under a name; one that has the name is replaced.

        Args:
            name: Its name.
            url: Server and application: `rtmp://host[:port]/app`, or `rtmps://...`.
            key: Stream key. No answer has it.
            workspace: Name or id of the workspace whose keys may use it, too.
        """
        id = await workspace_id(self._client, workspace)
        body = SaveConnection(name=name, url=url, key=key, workspace_id=id)
        return await streaming_save.asyncio(self._client, body=body)

    async def list(self) -> List[Connection]:
        """The servers, by name."""
        return (await streaming_list.asyncio(self._client)).connections

    async def delete(self, name: str) -> None:
        """Deletes a server. A stream to it goes on."""
        await streaming_remove.asyncio(self._client, name)


class AsyncStreaming:
    """The live stream of a computer, as `computer.streaming`."""

    def __init__(self, computer: AsyncComputer) -> None:
        self._computer = computer

    async def start(
        self, connection: str, *, url: str | None = None, key: str | None = None, screen: str | None = None
    ) -> StreamStarted:
        """Sends a screen and the sound to a server; returns when the server has taken the stream.

        Args:
            connection: Name of a saved server, or of one of the computer's template.
            url: With `key`, the server is saved under the name first.
            key: Its stream key.
            screen: The screen.
        """
        client, id = await self._computer.target()
        if (url is None) != (key is None):
            raise ValueError("a stream needs both url and key, or the name of a saved server alone")
        if url is not None and key is not None:
            await client.connections.save(connection, url, key)
        body = StartStream(connection_name=connection, screen=screen)
        return await streaming_start.asyncio(client, id, body=body)

    async def status(self) -> StreamStatus:
        """`idle`, `streaming`, or `terminated` with the `reason`."""
        return await streaming_status.asyncio(*await self._computer.target())

    async def stop(self) -> None:
        """Ends the stream; does nothing without one."""
        await streaming_stop.asyncio(*await self._computer.target())
