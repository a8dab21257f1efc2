"""Server and API key: arguments, then the environment, then the profile of the command line `hotdesk`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import urlsplit

from .errors import ConfigurationError

DEFAULT_URL = "http://127.0.0.1:8700"


def resolve(base_url: str | None, api_key: str | None) -> tuple[str, str]:
    """The origin of the service, such as `https://desks.example`, and the API key.

    Raises:
        ConfigurationError: The address is none, or nothing has an API key.
    """
    url, key = base_url or os.environ.get("HOTDESK_URL"), api_key or os.environ.get("HOTDESK_API_KEY")
    profile = {} if url and key else _profile()
    origin = _origin(url or profile.get("url") or DEFAULT_URL)
    # The key of a profile is sent to the server of that profile only.
    if not key and profile.get("url") and _origin(profile["url"]) == origin:
        key = profile.get("apiKey")
    key = (key or "").strip()
    if not key:
        raise ConfigurationError(
            "there is no API key: pass api_key, set HOTDESK_API_KEY, or store one with `hotdesk profile set`"
        )
    # The error of a header that cannot be sent would show it.
    if not all("!" <= character <= "~" for character in key):
        raise ConfigurationError("the API key has characters that no key has")
    return origin, key


def _origin(address: str) -> str:
    parts = urlsplit(address.strip())
    if "@" in parts.netloc:
        raise ConfigurationError("the address of a service must not hold a user name or a password")
    path = parts.path.rstrip("/")
    path = path.removesuffix("/api")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigurationError(f"{address!r} is no address of a service: use http://HOST or https://HOST")
    return f"{parts.scheme}://{parts.netloc}{path}"


def _profile() -> dict[str, str]:
    """The current profile of the command line; empty when none is stored."""
    file = Path.home() / ".hotdesk/credentials.json"
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        name = os.environ.get("HOTDESK_PROFILE") or stored.get("current")
        profile = stored["profiles"].get(name)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # The cause may show what the file holds, which is secret.
        raise ConfigurationError(f"{file} cannot be read: {type(error).__name__}") from None
    if profile is None and os.environ.get("HOTDESK_PROFILE"):
        raise ConfigurationError(f"{file} has no profile {name!r}: see `hotdesk profile show`")
    return {field: text for field, text in (profile or {}).items() if isinstance(text, str)}
