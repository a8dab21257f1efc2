"""Templates: publish, build, launch (docs/api/templates.md)."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, List

import httpx

from .._io import Opening, async_sleep
from .._lines import ServerEvents
from ..errors import WaitTimeout
from ..rest.api.templates import (
    templates_begin,
    templates_cancel,
    templates_delete,
    templates_get,
    templates_global,
    templates_list,
    templates_publish,
    templates_run,
    templates_status,
    templates_validate,
)
from ..rest.models.run_template import RunTemplate
from ..rest.types import File
from ..templates import BuildFailed, BuildLogEntry, parts_of, whole
from .chat import SILENCE_TIMEOUT

if TYPE_CHECKING:
    from ..rest.models import PublishedTemplate, Template, TemplateBuild, ValidTemplate
    from .client import AsyncClient
    from .computer import AsyncComputer

_PAUSE = 0.5
"""Seconds between two looks at a build."""


def _document(template: str | bytes | Mapping[str, Any]) -> File:
    """The body of a definition file: its YAML or JSON, or its fields."""
    if isinstance(template, Mapping):
        template = json.dumps(template)
    return File(payload=BytesIO(template.encode() if isinstance(template, str) else template))


class AsyncTemplates:
    """Templates of the account and of the service, as `client.templates`.

    A reference is `namespace/name@version`; the namespace is `default`, that of the account, when absent.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self) -> List[Template]:
        """The templates of the account."""
        return (await templates_list.asyncio(self._client)).templates

    async def list_global(self) -> List[Template]:
        """The templates of the service, which every account may launch."""
        return (await templates_global.asyncio(self._client)).templates

    async def get(self, ref: str) -> Template:
        """A template: its normalised document, and the status of its build."""
        return await templates_get.asyncio(self._client, *parts_of(ref))

    async def validate(self, template: str | bytes | Mapping[str, Any]) -> ValidTemplate:
        """Checks a definition file, and stores nothing. `details["errors"]` of `InvalidRequest` has what is wrong."""
        return await templates_validate.asyncio(self._client, body=_document(template))

    async def publish(
        self, template: str | bytes | Mapping[str, Any], *, build: bool = False, force: bool = False
    ) -> PublishedTemplate:
        """Publishes a definition file: YAML, JSON, or its fields.

        Args:
            template: The definition file.
            build: Whether its build is begun.
            force: Whether another document at the reference is replaced, which no computer may use.
        """
        body = _document(template)
        return await templates_publish.asyncio(self._client, body=body, auto_build=build, force=force)

    async def build(self, ref: str) -> TemplateBuild:
        """Begins the build of a template; one that is built already stays so."""
        return await templates_begin.asyncio(self._client, *parts_of(ref))

    async def build_status(self, ref: str) -> TemplateBuild:
        """State of the last build: `not_built`, `building`, `ready` or `failed`."""
        return await templates_status.asyncio(self._client, *parts_of(ref))

    async def build_log(self, ref: str) -> AsyncIterator[BuildLogEntry]:
        """The log of the last build, from its first line; it goes on until the build ends."""
        url = "/templates/{}/{}/{}/build/events".format(*parts_of(ref))
        events = ServerEvents()
        timeout = httpx.Timeout(SILENCE_TIMEOUT, connect=10.0)
        async with self._client.stream("GET", url, timeout=timeout) as answer:
            async for piece in answer.aiter_bytes():
                for data in events.feed(piece):
                    yield BuildLogEntry.from_dict(json.loads(data))

    async def wait_for_build(self, ref: str, *, timeout: float = 3600.0) -> TemplateBuild:
        """Waits until a template is built. Raises `BuildFailed`, and `WaitTimeout` after `timeout` seconds."""
        end = time.monotonic() + timeout
        while True:
            build = await self.build_status(ref)
            if build.status == "ready":
                return build
            if build.status == "failed":
                raise BuildFailed(build)
            if time.monotonic() > end:
                raise WaitTimeout(f"the build of {build.ref} is {build.status} after {timeout} s")
            await async_sleep(_PAUSE)

    async def cancel_build(self, ref: str) -> None:
        """Ends the build of a template; nothing of it is left."""
        await templates_cancel.asyncio(self._client, *parts_of(ref))

    async def delete(self, ref: str) -> None:
        """Deletes a template. Its computers go on."""
        await templates_delete.asyncio(self._client, *parts_of(ref))

    def launch(
        self, ref: str, *, name: str | None = None, workspace: str | None = None, keep: bool = False
    ) -> Opening[AsyncComputer]:
        """Makes a computer from a template, as `Computer.create(ref)`, which has more options."""
        # The module of computers uses this one's client.
        from .computer import AsyncComputer

        return AsyncComputer.create(
            whole(ref), name=name, workspace=workspace, keep=keep, client=self._client
        )

    async def run(self, ref: str) -> AsyncComputer:
        """Makes a computer to try a template, which the service deletes after an hour."""
        from .computer import AsyncComputer

        made = await templates_run.asyncio(self._client, body=RunTemplate(ref=whole(ref)))
        return AsyncComputer(made.id, client=self._client)
