"""Events of a computer (docs/api/events.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any


@dataclass(frozen=True)
class Event:
    """Something that happened in a computer."""

    type: str
    """What happened: `window_open`, for example."""
    timestamp: str
    """When, ISO 8601 in UTC with milliseconds."""
    data: dict[str, Any] = field(default_factory=dict)
    """Fields of the type: `title` of a window, for example."""

    @property
    def time(self) -> datetime:
        """When, as a time with time zone."""
        return datetime.strptime(self.timestamp, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
