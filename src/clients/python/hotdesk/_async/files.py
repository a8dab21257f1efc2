"""Files of a computer."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, List

from .._retries import LARGEST_KEYED_BODY, REPEATABLE
from ..rest.api.computer_files import (
    computer_files_delete,
    computer_files_hash,
    computer_files_list,
    computer_files_mkdir,
    computer_files_move_file,
    computer_files_stat,
    computer_files_upload,
)
from ..rest.models.file_written import FileWritten
from ..rest.models.mkdir import Mkdir
from ..rest.models.move_file import MoveFile
from ..rest.types import UNSET, File

if TYPE_CHECKING:
    from ..rest.models import Entry, Stat
    from .client import AsyncClient
    from .computer import AsyncComputer

_PIECE = 1024 * 1024
"""Bytes that a copy holds in memory."""
_PAGE = 5000
"""Entries of a folder in one answer, the most that the service gives."""


class _Pieces:
    """The content of a file, which is read once for each delivery."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with open(self._path, "rb") as file:
            while piece := file.read(_PIECE):
                yield piece


async def save(client: AsyncClient, url: str, local: str | os.PathLike[str], **kwargs: Any) -> Path:
    """Writes the bytes of an answer to a file of this machine, whole or not at all."""
    target = Path(local)
    # No name of a file that somebody has, or of another download.
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        async with client.stream("GET", url, **kwargs) as answer:
            with open(part, "xb") as file:
                async for piece in answer.aiter_bytes(_PIECE):
                    file.write(piece)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return target


class AsyncFiles:
    """Files of a computer, as `computer.files`. A path is absolute, or relative to the home folder.

    The rules of paths, and the codes of errors, are in docs/api/files.md.
    """

    def __init__(self, computer: AsyncComputer) -> None:
        self._computer = computer

    async def read(self, path: str) -> bytes:
        """The content of a file, which is held in memory; `download` does not."""
        client, id = await self._computer.target()
        answer = await client.request("GET", f"/computers/{id}/files/content", params={"path": path})
        return answer.content

    async def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """The content of a file as text."""
        return (await self.read(path)).decode(encoding)

    async def write(
        self,
        path: str,
        content: bytes | str,
        *,
        overwrite: bool = True,
        parents: bool = False,
        mode: str | None = None,
    ) -> FileWritten:
        """Writes a file whole or not at all; text as UTF-8.

        Args:
            path: Where the file goes.
            content: What it holds.
            overwrite: Whether a file that is there is replaced; else it is a `Conflict`.
            parents: Whether missing folders on the way are made.
            mode: Permissions in octal; by default `644`, or those of the replaced file.
        """
        data = content.encode() if isinstance(content, str) else content
        client, id = await self._computer.target()
        return await computer_files_upload.asyncio(
            client,
            id,
            body=File(payload=BytesIO(data)),
            path=path,
            overwrite=overwrite,
            parents=parents,
            mode=UNSET if mode is None else mode,
        )

    async def upload(
        self, local: str | os.PathLike[str], path: str, *, overwrite: bool = True, parents: bool = False
    ) -> FileWritten:
        """Copies a file of this machine to the computer, in pieces. `overwrite` and `parents` are those of `write`."""
        client, id = await self._computer.target()
        if os.path.getsize(local) <= LARGEST_KEYED_BODY:
            return await self.write(path, Path(local).read_bytes(), overwrite=overwrite, parents=parents)
        params = {"path": path, "overwrite": str(overwrite).lower(), "parents": str(parents).lower()}
        answer = await client.request(
            "PUT",
            f"/computers/{id}/files/content",
            params=params,
            content=_Pieces(local),
            # A second delivery makes the same file, or finds that it is there.
            extensions={REPEATABLE: overwrite},
        )
        return FileWritten.from_dict(answer.json())

    async def download(self, path: str, local: str | os.PathLike[str]) -> Path:
        """Copies a file of the computer to this machine; returns where it is. A failure leaves no part of it."""
        client, id = await self._computer.target()
        return await save(client, f"/computers/{id}/files/content", local, params={"path": path})

    async def list(self, path: str = "~") -> List[Entry]:
        """The entries of a folder, by name."""
        client, id = await self._computer.target()
        page = await computer_files_list.asyncio(client, id, path=path, limit=_PAGE)
        entries = page.entries
        while page.next_:
            page = await computer_files_list.asyncio(client, id, path=path, limit=_PAGE, after=page.next_)
            entries = [*entries, *page.entries]
        return entries

    async def stat(self, path: str) -> Stat:
        """What a path names; a link itself, not what it leads to."""
        client, id = await self._computer.target()
        return await computer_files_stat.asyncio(client, id, path=path)

    async def sha256(self, path: str) -> str:
        """The SHA-256 of a file, in hexadecimal."""
        client, id = await self._computer.target()
        return (await computer_files_hash.asyncio(client, id, path=path, algorithm="sha256")).hash_

    async def mkdir(self, path: str, *, parents: bool = False) -> None:
        """Makes a folder. With `parents` also those on the way, and one that is there is no error."""
        client, id = await self._computer.target()
        await computer_files_mkdir.asyncio(client, id, body=Mkdir(path=path, parents=parents))

    async def move(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Moves or renames a file or a folder."""
        client, id = await self._computer.target()
        body = MoveFile(from_=source, to=target, overwrite=overwrite)
        await computer_files_move_file.asyncio(client, id, body=body)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file, or a folder; one with contents only with `recursive`."""
        client, id = await self._computer.target()
        await computer_files_delete.asyncio(client, id, path=path, recursive=recursive)
