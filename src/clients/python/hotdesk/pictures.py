"""Pictures of screens as images of Pillow. A computer can send any bytes as a picture of its screen."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import TYPE_CHECKING, Protocol

from .errors import HotdeskError

if TYPE_CHECKING:
    from PIL.Image import Image

_FORMATS = ("PNG", "JPEG", "WEBP")
"""Formats that hotdesk sends. Of the many others that Pillow reads, some start programs (EPS)."""
_MOST_BYTES = 128 * 1024 * 1024
"""Most bytes of a picture: the service passes no larger one on (docs/security.md)."""
_MOST_PIXELS = 7680 * 4320
"""Most pixels of a picture, which are those of the largest screen. Some hundred bytes can claim billions."""


class PictureRecord(Protocol):
    """A picture in an answer, such as `screenshot` of the result of an action."""

    image: str


def picture_of(record: PictureRecord) -> Image:
    """The picture of an answer, such as `screenshot` of the result of an action.

    Raises:
        HotdeskError: It is no PNG, JPEG or WebP, or larger than any screen.
    """
    if len(record.image) > -(-_MOST_BYTES // 3) * 4:
        raise HotdeskError("a picture in base64 is larger than that of any screen")
    try:
        content = base64.b64decode(record.image, validate=True)
    except ValueError as error:
        raise HotdeskError("what came as a picture is no base64") from error
    return opened(content)


def opened(content: bytes) -> Image:
    """The picture in these bytes, decoded.

    Raises:
        HotdeskError: It is no PNG, JPEG or WebP, damaged, or larger than any screen.
    """
    from PIL import Image

    if len(content) > _MOST_BYTES:
        raise HotdeskError(f"a picture of {len(content)} bytes is larger than that of any screen")
    try:
        picture = Image.open(BytesIO(content), formats=_FORMATS)
        # It has read the header alone.
        if picture.width * picture.height > _MOST_PIXELS:
            raise HotdeskError(f"a picture of {picture.width}x{picture.height} pixels is larger than any screen")
        picture.load()
    except (Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        raise HotdeskError(f"what came as a picture is no PNG, JPEG or WebP, or it is damaged: {error}") from error
    return picture
