"""Lines and server-sent events in pieces of bytes: pure rules, in bounded memory."""

from __future__ import annotations

from .errors import HotdeskError

LARGEST_LINE = 1024 * 1024
"""Bytes of a line, and of the data of an event: far more than a line of a timeline with its two small pictures, or a piece
of a model's reply."""


class Lines:
    """Lines of a text in UTF-8, as its bytes arrive. A last line without its end is left out: it is not complete."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[str]:
        """The lines that this piece completes, without their ends. Raises `HotdeskError` for one that is too long."""
        # Not `splitlines`: JSON may have the line separators of Unicode as they are.
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > LARGEST_LINE:
            raise HotdeskError(f"the service sent a line of more than {LARGEST_LINE} bytes")
        return [line.decode(errors="replace").rstrip("\r") for line in lines]


class ServerEvents:
    """Data of server-sent events (HTML standard, "Server-sent events"). Comments and other fields are left out."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._data: list[str] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[str]:
        """The data of the events that this piece completes. Raises `HotdeskError` for one that is too long."""
        found = []
        for line in self._lines.feed(piece):
            if line.startswith("data:"):
                data = line[len("data:") :].removeprefix(" ")
                self._data.append(data)
                self._size += len(data)
                if self._size > LARGEST_LINE:
                    raise HotdeskError(f"the service sent an event of more than {LARGEST_LINE} characters")
            elif not line and self._data:
                found.append("\n".join(self._data))
                self._data, self._size = [], 0
        return found
