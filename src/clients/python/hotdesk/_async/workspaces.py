"""Workspaces by name or id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..rest.api.workspaces import workspaces_by_name

if TYPE_CHECKING:
    from .client import AsyncClient

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""Id of a workspace or a computer."""


async def workspace_id(client: AsyncClient, workspace: str | None) -> str | None:
    """The id of the workspace with a name or an id; None for None. Raises `NotFound` for an unknown name."""
    if workspace is None or UUID.fullmatch(workspace):
        return workspace
    return (await workspaces_by_name.asyncio(client, workspace)).id
