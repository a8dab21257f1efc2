"""Use of the client that openapi-python-client generates from the recorded OpenAPI document.

usage: generated_client.py API_URL FILE.png   (the key is in HOTDESK_API_KEY; PYTHONPATH leads to the package `generated`)

Creates a computer, performs a list of actions and saves a screenshot.
"""

import base64
import os
import sys
from pathlib import Path

from generated import AuthenticatedClient
from generated.api.actions import actions_actions, actions_screenshot
from generated.api.computer_files import computer_files_download, computer_files_upload
from generated.api.computers import computers_clone, computers_create, computers_delete
from generated.api.keys import keys_create
from generated.api.workspaces import workspaces_create
from generated.models import (
    ActionsScreenshotResponseFormat,
    Batch,
    ClickAction,
    ClickActionAction,
    ClickButton,
    CreateComputer,
    CreateKey,
    CreateWorkspace,
    KeyAction,
    KeyActionAction,
)
from generated.types import File


def main() -> None:
    url, picture = sys.argv[1:]
    client = AuthenticatedClient(base_url=url, token=os.environ["HOTDESK_API_KEY"], raise_on_unexpected_status=True, timeout=120)
    workspace = workspaces_create.sync(client=client, body=CreateWorkspace(name="generated python"))
    wanted = CreateComputer(name="desk", workspace_id=workspace.id, cpu=1)
    computer = computers_create.sync(client=client, body=wanted, idempotency_key="generated-python")
    assert computer.status == "running" and computer.cpu == 1, computer
    minted = keys_create.sync(client=client, body=CreateKey(name="made", workspace_id=workspace.id))
    assert minted.key.startswith("sk_live_") and minted.scope == "workspace", minted

    clicks = [
        ClickAction(action=ClickActionAction.CLICK, x=200, y=150, button=ClickButton.RIGHT),
        KeyAction(action=KeyActionAction.KEY, key="Escape"),
    ]
    done = actions_actions.sync(computer.id, client=client, body=Batch(actions=clicks))
    assert done.success and [item.result.action for item in done.results] == ["click", "key_press"], done

    shot = actions_screenshot.sync(computer.id, client=client, response_format=ActionsScreenshotResponseFormat.BASE64)
    Path(picture).write_bytes(base64.b64decode(shot.image))

    content = Path(picture).read_bytes()
    computer_files_upload.sync(computer.id, client=client, path="shot.png", body=File(payload=content))
    back = computer_files_download.sync(computer.id, client=client, path="shot.png")
    assert back.payload.read() == content

    # The body of a clone is optional.
    clone = computers_clone.sync(computer.id, client=client)
    for made in (clone, computer):
        assert computers_delete.sync(made.id, client=client).success


if __name__ == "__main__":
    main()
