"""Secrets that computers use and nobody reads back (docs/api/secrets.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

from ..rest.api.secrets import secrets_delete_secret, secrets_list_secrets, secrets_set_secret
from ..rest.models.set_secret import SetSecret
from ..rest.types import UNSET
from .workspaces import workspace_id

if TYPE_CHECKING:
    from ..rest.models import Secret
    from .client import AsyncClient


class AsyncSecrets:
    """Secrets of a workspace or of the account, as `client.secrets`. `workspace` is a name or an id; the account when absent.

    `{{secret:NAME}}` in the text of `computer.type` types a value, and `computer.sync_secrets` gives values to programs.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def set(self, name: str, value: str, *, workspace: str | None = None) -> Secret:
        """Stores a secret; one that has the name gets the new value. The name has capital letters, digits and `_`."""
        body = SetSecret(value=value, workspace_id=await workspace_id(self._client, workspace))
        return await secrets_set_secret.asyncio(self._client, name, body=body)

    async def list(self, *, workspace: str | None = None) -> List[Secret]:
        """The records of the secrets, by name. They have no values."""
        id = await workspace_id(self._client, workspace)
        return (await secrets_list_secrets.asyncio(self._client, workspace_id=id or UNSET)).secrets

    async def delete(self, name: str, *, workspace: str | None = None) -> None:
        """Deletes a secret."""
        id = await workspace_id(self._client, workspace)
        await secrets_delete_secret.asyncio(self._client, name, workspace_id=id or UNSET)
