"""References of templates, and the log of their builds (docs/api/templates.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import HotdeskError

if TYPE_CHECKING:
    from .rest.models import TemplateBuild


@dataclass(frozen=True)
class BuildLogEntry:
    """A line of the log of a build."""

    ts: str
    """When, ISO 8601."""
    level: str
    """`info`, `success`, `warn` or `error`."""
    phase: str
    """Phase of the build: `install`, for example. The last entry of a build that succeeded has `ready`."""
    line: str
    """The text."""
    source: str | None = None
    """Field of the definition file whose step wrote it."""

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> BuildLogEntry:
        """The entry of an event."""
        source = entry.get("source")
        return cls(str(entry["ts"]), str(entry["level"]), str(entry["phase"]), str(entry["line"]), source)


class BuildFailed(HotdeskError):
    """A template could not be built. `build.error` has the phase, the field and the last lines."""

    def __init__(self, build: TemplateBuild) -> None:
        super().__init__(f"the build of {build.ref} failed: {build.error or 'no reason is known'}")
        self.build = build


def parts_of(reference: str) -> tuple[str, str, str]:
    """Namespace, name and version of `namespace/name@version`; the namespace is `default` when absent.

    Raises:
        ValueError: The text is no reference.
    """
    named, at, version = reference.partition("@")
    namespace, slash, name = named.rpartition("/")
    if not (at and name and version) or (slash and not namespace) or "/" in namespace:
        raise ValueError(f"{reference!r} is no reference of a template: use namespace/name@version")
    return namespace or "default", name, version


def whole(reference: str) -> str:
    """The reference with its namespace."""
    return "{}/{}@{}".format(*parts_of(reference))
