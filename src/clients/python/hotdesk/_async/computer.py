"""A computer: create or find it, look, act, wait, and end it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from .._io import Opening, async_opening, async_sleep
from ..errors import HotdeskError, InvalidRequest, NoSuchComputer, NotFound, WaitTimeout
from ..pictures import opened
from ..rest.api.actions import (
    actions_bash,
    actions_click,
    actions_drag,
    actions_exec,
    actions_key,
    actions_pointer_move,
    actions_scroll,
    actions_type_text,
    actions_wait_change,
    actions_wait_stable,
)
from ..rest.api.clipboard import clipboard_read, clipboard_set
from ..rest.api.computers import (
    computers_clone,
    computers_create,
    computers_delete,
    computers_fork,
    computers_get,
    computers_list,
)
from ..rest.api.elements import elements_list
from ..rest.api.lifecycle import (
    lifecycle_ensure_running,
    lifecycle_restart,
    lifecycle_resume,
    lifecycle_start,
    lifecycle_stop,
    lifecycle_suspend,
)
from ..rest.api.secrets import secrets_sync_secrets
from ..rest.api.snapshots import snapshots_create, snapshots_delete, snapshots_list, snapshots_roll_back
from ..rest.api.templates import templates_save
from ..rest.api.windows import windows_close, windows_focus, windows_launch, windows_list
from ..rest.api.workspaces import workspaces_by_name, workspaces_create, workspaces_list
from ..rest.models.area import Area
from ..rest.models.bash import Bash
from ..rest.models.bash_env_type_0 import BashEnvType0
from ..rest.models.click import Click
from ..rest.models.clone_computer import CloneComputer
from ..rest.models.close_window import CloseWindow
from ..rest.models.create_computer import CreateComputer
from ..rest.models.create_snapshot import CreateSnapshot
from ..rest.models.create_workspace import CreateWorkspace
from ..rest.models.drag import Drag
from ..rest.models.exec_ import Exec
from ..rest.models.exec_env_type_0 import ExecEnvType0
from ..rest.models.fork_computer import ForkComputer
from ..rest.models.key_press import KeyPress
from ..rest.models.launch import Launch
from ..rest.models.launch_env_type_0 import LaunchEnvType0
from ..rest.models.move import Move
from ..rest.models.roll_back import RollBack
from ..rest.models.save_template import SaveTemplate
from ..rest.models.scroll import Scroll
from ..rest.models.set_clipboard import SetClipboard
from ..rest.models.settle import Settle
from ..rest.models.sync_secrets import SyncSecrets
from ..rest.models.type_ import Type
from ..rest.models.wait_change import WaitChange
from ..rest.models.wait_stable import WaitStable
from ..rest.types import UNSET, Unset
from ..templates import whole
from .chat import AsyncChat
from .client import AsyncClient
from .context import AsyncClosing
from .control import AsyncControl
from .files import AsyncFiles
from .recordings import AsyncRecordings
from .sockets import AsyncAudio, AsyncEvents, AsyncTerminal
from .streaming import AsyncStreaming
from .workspaces import UUID

if TYPE_CHECKING:
    from PIL.Image import Image

    from ..rest.models import (
        ActionResult,
        BashResult,
        ClickButton,
        Clipboard,
        CreateComputerIsolation,
        DragButton,
        ElementList,
        ExecResult,
        Launched,
        ScrollDirection,
        SecretsSynced,
        Snapshot,
        Template,
        TypeMode,
        Window,
    )
    from ..rest.models import (
        Computer as Record,
    )

V = TypeVar("V")

Region = tuple[int, int, int, int]
"""A part of a screen: x, y, width and height in pixels."""

DEFAULT_WORKSPACE = "default"
"""Workspace of new computers where there are several or none."""
_PAUSE = 0.25
"""Seconds between two looks at what is waited for and sends no event."""
_PAGE = 1000
"""Computers or snapshots in one answer, the most that the service gives."""


def _or_unset(value: V | None) -> V | Unset:
    return UNSET if value is None else value


def _area(region: Region | None) -> Area | None:
    if region is None:
        return None
    x, y, width, height = region
    return Area(x=x, y=y, width=width, height=height)


class AsyncComputer(AsyncClosing):
    """A computer of a service.

    `AsyncComputer("desk")` is one that exists, and `AsyncComputer.create()` makes one. Leaving `async with` deletes a
    computer that `create` made, and only closes the connections to others.

    Every method raises `ApiError`, and `ConnectionFailed` without an answer. Coordinates are pixels of the screen, or of
    the picture whose `frame` is given. `screen` is the id of a screen; the boot screen when absent.

    Args:
        computer: Name or id.
        client: Service and key; by default those of the environment or the command line.
    """

    def __init__(self, computer: str, *, client: AsyncClient | None = None) -> None:
        self._given = computer
        self._id: str | None = computer if UUID.fullmatch(computer) else None
        self._owns_client = client is None
        self._is_temporary = False
        self.client = client or AsyncClient()
        """The service, for the operations of `hotdesk.rest`."""
        self.files = AsyncFiles(self)
        """Files of the computer."""
        self.recordings = AsyncRecordings(self)
        """Recordings of its screens."""
        self.streaming = AsyncStreaming(self)
        """Its live stream to an RTMP server."""
        self.control = AsyncControl(self)
        """Who may act on its screens."""
        self.chat = AsyncChat(self)
        """Models that work on it, and their threads."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._given!r})"

    @classmethod
    def create(
        cls,
        template: str | None = None,
        *,
        name: str | None = None,
        workspace: str | None = None,
        cpu: float | None = None,
        ram: float | None = None,
        disk_size_gb: float | None = None,
        resolution: str | None = None,
        isolation: CreateComputerIsolation | None = None,
        auto_stop_minutes: int | None = None,
        keep: bool = False,
        client: AsyncClient | None = None,
    ) -> Opening[AsyncComputer]:
        """Makes a computer, which is usable when this ends.

        Args:
            template: Reference of a template, such as `system/browser@1.0.0`; by default the guest image alone.
            name: Name, unique in its workspace; by default one with random digits.
            workspace: Name or id of the workspace; one with this name is made when none exists. By default the only one
                that the key sees, else the one named `default`.
            cpu: vCPUs.
            ram: RAM in GB.
            disk_size_gb: Disk in GB.
            resolution: Size of the boot screen, such as `1280x720x24`.
            isolation: Kernel behind its programs: `sandbox`, `shared` or `vm`.
            auto_stop_minutes: Minutes without use after which it is suspended; 0 for never.
            keep: Whether it stays when `async with` is left.
            client: Service and key; by default those of the environment or the command line.
        """
        wanted = CreateComputer(
            name=name or f"python-{secrets.token_hex(4)}",
            template_ref=_or_unset(template),
            cpu=_or_unset(cpu),
            ram=_or_unset(ram),
            disk_size_gb=_or_unset(disk_size_gb),
            resolution=_or_unset(resolution),
            isolation=_or_unset(isolation),
            auto_stop_minutes=_or_unset(auto_stop_minutes),
        )
        return async_opening(cls._create(wanted, workspace, keep, client))

    @classmethod
    async def _create(
        cls, wanted: CreateComputer, workspace: str | None, keep: bool, client: AsyncClient | None
    ) -> AsyncComputer:
        service = client or AsyncClient()
        try:
            wanted.workspace_id = await _workspace(service, workspace)
            record = await computers_create.asyncio(service, body=wanted)
        except BaseException:
            if client is None:
                await service.close()
            raise
        made = cls(record.id, client=service)
        made._owns_client = client is None
        made._is_temporary = not keep
        return made

    @classmethod
    async def all(cls, *, workspace: str | None = None, client: AsyncClient | None = None) -> list[Record]:
        """The records of all computers that the key sees, or of those in the workspace with this id."""
        service = client or AsyncClient()
        try:
            return await _computers(service, workspace_id=_or_unset(workspace))
        finally:
            if client is None:
                await service.close()

    async def _enter(self) -> None:
        await self.target()

    async def _leave(self, error: BaseException | None) -> None:
        try:
            if self._is_temporary:
                await self.delete()
        except NotFound:
            # Somebody deleted it before.
            pass
        except HotdeskError:
            # The error of the block is the one to see.
            if error is None:
                raise
        finally:
            await self.close()

    async def close(self) -> None:
        """Closes the connections; the computer stays. Does nothing to a client that was passed in."""
        if self._owns_client:
            await self.client.close()

    async def target(self) -> tuple[AsyncClient, str]:
        """Client and id, for the operations of `hotdesk.rest`. Raises `NoSuchComputer` for a name of none or several."""
        if self._id is None:
            self._id = await _find(self.client, self._given)
        return self.client, self._id

    async def record(self) -> Record:
        """The computer's record: name, status, size and more."""
        return await computers_get.asyncio(*await self.target())

    # Looking.

    async def screenshot(
        self,
        *,
        region: Region | None = None,
        scale: float | None = None,
        max_pixels: int | None = None,
        cursor: bool = True,
        format: str = "png",
        quality: int | None = None,
        screen: str | None = None,
    ) -> Image:
        """A picture of a screen. Its `info["frame"]` is the `frame` of actions whose coordinates are its pixels.

        Args:
            region: The part of the screen.
            scale: Factor of its size, above 0 and at most 1.
            max_pixels: It is made smaller until it has no more pixels.
            cursor: Whether the pointer is drawn.
            format: How it is sent: `png`, `jpeg` or `webp`.
            quality: 1 to 100, for `jpeg` and `webp`; WebP without it has no loss.
            screen: The screen.
        """
        client, id = await self.target()
        asked = {
            "response_format": "binary",
            "format": format,
            "region": region and ",".join(map(str, region)),
            "scale": scale,
            "max_pixels": max_pixels,
            "cursor": "on" if cursor else "off",
            "quality": quality,
            "screen": screen,
        }
        params = {name: value for name, value in asked.items() if value is not None}
        answer = await client.request("GET", f"/computers/{id}/screenshot", params=params)
        picture = opened(answer.content)
        picture.info["frame"] = answer.headers.get("X-Hotdesk-Frame")
        return picture

    async def windows(self, *, screen: str | None = None) -> list[Window]:
        """The windows of a screen, the topmost first."""
        return (await windows_list.asyncio(*await self.target(), screen=_or_unset(screen))).windows

    async def elements(
        self, *, role: str | None = None, name: str | None = None, screen: str | None = None
    ) -> ElementList:
        """The elements of the programs on a screen: buttons, fields and more, as accessibility tools see them."""
        client, id = await self.target()
        return await elements_list.asyncio(
            client, id, role=_or_unset(role), name=_or_unset(name), screen=_or_unset(screen)
        )

    async def clipboard(self, *, screen: str | None = None) -> Clipboard:
        """What the clipboard holds."""
        return await clipboard_read.asyncio(*await self.target(), screen=_or_unset(screen))

    async def set_clipboard(self, text: str, *, screen: str | None = None) -> None:
        """Puts a text into the clipboard."""
        body = SetClipboard(text=text)
        await clipboard_set.asyncio(*await self.target(), body=body, screen=_or_unset(screen))

    # Acting.

    async def click(
        self,
        x: float,
        y: float,
        *,
        button: ClickButton = "left",
        count: int = 1,
        modifiers: Sequence[str] = (),
        frame: str | None = None,
        settle: Settle | None = None,
        screen: str | None = None,
    ) -> ActionResult:
        """Clicks once, twice or three times (`count`), with modifiers such as `ctrl` held.

        `settle` waits until the screen is quiet and says what changed; with `Settle(screenshot=...)` it takes a picture.
        """
        body = Click(x, y, button=button, count=count, modifiers=[*modifiers], frame=frame, settle=settle)
        return await actions_click.asyncio(*await self.target(), body=body, screen=_or_unset(screen))

    async def double_click(
        self,
        x: float,
        y: float,
        *,
        frame: str | None = None,
        settle: Settle | None = None,
        screen: str | None = None,
    ) -> ActionResult:
        """Clicks twice with the left button."""
        return await self.click(x, y, count=2, frame=frame, settle=settle, screen=screen)

    async def move(
        self, x: float, y: float, *, frame: str | None = None, screen: str | None = None
    ) -> ActionResult:
        """Moves the pointer."""
        body = Move(x, y, frame=frame)
        return await actions_pointer_move.asyncio(*await self.target(), body=body, screen=_or_unset(screen))

    async def drag(
        self,
        path: Sequence[tuple[float, float]],
        *,
        button: DragButton = "left",
        duration: float | None = None,
        modifiers: Sequence[str] = (),
        frame: str | None = None,
        settle: Settle | None = None,
        screen: str | None = None,
    ) -> ActionResult:
        """Drags along the points of `path`, from the first to the last, in `duration` seconds."""
        body = Drag(
            path=[[x, y] for x, y in path],
            button=button,
            duration=duration,
            modifiers=[*modifiers],
            frame=frame,
            settle=settle,
        )
        return await actions_drag.asyncio(*await self.target(), body=body, screen=_or_unset(screen))

    async def scroll(
        self,
        direction: ScrollDirection = "down",
        amount: float = 3,
        *,
        x: float | None = None,
        y: float | None = None,
        modifiers: Sequence[str] = (),
        frame: str | None = None,
        settle: Settle | None = None,
        screen: str | None = None,
    ) -> ActionResult:
        """Turns the wheel by `amount` steps at a place, or where the pointer is."""
        body = Scroll(direction, amount=amount, x=x, y=y, modifiers=[*modifiers], frame=frame, settle=settle)
        return await actions_scroll.asyncio(*await self.target(), body=body, screen=_or_unset(screen))

    async def type(
        self,
        text: str,
        *,
        mode: TypeMode | None = None,
        confidential: bool = False,
        settle: Settle | None = None,
        screen: str | None = None,
    ) -> ActionResult:
        """Types a text; `\\n` is Enter. `confidential` keeps it, and what it changed, out of answers and timelines."""
        body = Type(text, mode=mode, confidential=confidential, settle=settle)
        return await actions_type_text.asyncio(*await self.target(), body=body, screen=_or_unset(screen))

    async def key(
        self,
        *keys: str,
        repeat: int | None = None,
        hold_ms: int | None = None,
        settle: Settle | None = None,
        screen: str | None = None,
    ) -> ActionResult:
        """Presses keys, one after another. `+` joins a combination: `ctrl+s`."""
        body = KeyPress(keys=[*keys], repeat=repeat, hold_ms=hold_ms, settle=settle)
        return await actions_key.asyncio(*await self.target(), body=body, screen=_or_unset(screen))

    # Running programs.

    async def bash(
        self,
        command: str,
        *,
        timeout: float | None = None,
        stdin: str | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
    ) -> BashResult:
        """Runs a command with bash; the answer has `output`, `stdout`, `stderr` and `exit_code`.

        Args:
            command: The command line.
            timeout: Seconds until it is killed, at most 300; 200 by default.
            stdin: Its standard input.
            cwd: Its working folder; the home folder by default.
            env: Variables that are added to its environment.
        """
        variables = None if env is None else BashEnvType0.from_dict(env)
        body = Bash(command, timeout=timeout, stdin=stdin, cwd=cwd, env=variables)
        return await actions_bash.asyncio(*await self.target(), body=body)

    async def python(
        self,
        code: str,
        *,
        timeout: float | None = None,
        session: str | None = None,
        env: dict[str, str] | None = None,
    ) -> ExecResult:
        """Runs Python in the computer. Calls with the same `session` share their variables.

        Args:
            code: The source.
            timeout: Seconds until it is killed, 1 to 300; 10 by default.
            session: Name of a session, which is started when it does not exist.
            env: Variables that are added to its environment.
        """
        variables = None if env is None else ExecEnvType0.from_dict(env)
        body = Exec(code, timeout=timeout, session=session, env=variables)
        return await actions_exec.asyncio(*await self.target(), body=body)

    async def launch(
        self,
        command: str | None = None,
        *,
        argv: Sequence[str] | None = None,
        url: str | None = None,
        wait_seconds: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        screen: str | None = None,
    ) -> Launched:
        """Starts a program on a screen and waits for its first window. The program continues after that.

        Args:
            command: A command for bash. Give this, `argv` or `url`.
            argv: A program and its arguments.
            url: A page for the browser.
            wait_seconds: Longest wait for the window, 0 to 60; 10 by default.
            cwd: Its working folder; the home folder by default.
            env: Variables that are added to its environment.
            screen: The screen.
        """
        body = Launch(
            command=command,
            argv=None if argv is None else [*argv],
            url=url,
            wait_seconds=wait_seconds,
            cwd=cwd,
            env=None if env is None else LaunchEnvType0.from_dict(env),
        )
        return await windows_launch.asyncio(*await self.target(), body=body, screen=_or_unset(screen))

    async def focus_window(self, window: str | Window) -> Window:
        """Gives a window, or the window with this id, the keyboard."""
        id = window if isinstance(window, str) else window.id
        return await windows_focus.asyncio(*await self.target(), id, **_screen_of(window))

    async def close_window(self, window: str | Window, *, force: bool = False) -> bool:
        """Closes a window; whether it is gone after 2 s."""
        id = window if isinstance(window, str) else window.id
        body = CloseWindow(force=force)
        answer = await windows_close.asyncio(*await self.target(), id, body=body, **_screen_of(window))
        return answer.closed

    # Sockets.

    def events(self, *types: str) -> AsyncEvents:
        """Events of these types (docs/api/events.md), as they happen: `async with computer.events("window_open")`.
        Without types it is all that the service has.

        What happens after `async with` was entered is reported.
        """
        return AsyncEvents(self, types)

    def terminal(self, *, cols: int = 80, rows: int = 24, screen: str | None = None) -> AsyncTerminal:
        """An interactive shell in the computer."""
        return AsyncTerminal(self, cols, rows, screen)

    def audio(self, *, sample_rate: int = 24000, channels: int = 1) -> AsyncAudio:
        """What the computer plays."""
        return AsyncAudio(self, sample_rate, channels)

    # Waiting.

    async def wait_stable(
        self,
        *,
        quiet_ms: int | None = None,
        timeout_ms: int | None = None,
        region: Region | None = None,
        screen: str | None = None,
    ) -> bool:
        """Waits until nothing changed on a screen for `quiet_ms` (250 by default); false after `timeout_ms` (5000)."""
        body = WaitStable(quiet_ms=quiet_ms, timeout_ms=timeout_ms, region=_area(region))
        answer = await actions_wait_stable.asyncio(*await self.target(), body=body, screen=_or_unset(screen))
        return bool(answer.settle and answer.settle.reached)

    async def wait_change(
        self,
        *,
        timeout_ms: int | None = None,
        region: Region | None = None,
        screen: str | None = None,
    ) -> bool:
        """Waits until something changes on a screen; false after `timeout_ms` (5000 by default)."""
        body = WaitChange(timeout_ms=timeout_ms, region=_area(region))
        answer = await actions_wait_change.asyncio(*await self.target(), body=body, screen=_or_unset(screen))
        return bool(answer.settle and answer.settle.reached)

    async def wait_for_window(
        self, title: str, *, timeout: float = 30.0, screen: str | None = None
    ) -> Window:
        """Waits for a window whose title contains `title`. Raises `WaitTimeout` after `timeout` seconds."""
        end = time.monotonic() + timeout
        while True:
            windows = await self.windows(screen=screen)
            for window in windows:
                if title in window.title:
                    return window
            if time.monotonic() > end:
                titles = [window.title for window in windows]
                raise WaitTimeout(
                    f"no window with {title!r} in its title within {timeout} s; windows: {titles}"
                )
            await async_sleep(_PAUSE)

    async def wait_for_status(self, status: str, *, timeout: float = 120.0) -> Record:
        """Waits for a status, such as `running` or `stopped`. Raises `WaitTimeout` after `timeout` seconds."""
        return await self.wait_for_record(lambda record: record.status == status, status, timeout=timeout)

    async def wait_for_record(
        self, check: Callable[[Record], bool], name: str = "the condition", *, timeout: float = 120.0
    ) -> Record:
        """Waits until `check` is true for the record; `name` is for the text of `WaitTimeout`."""
        end = time.monotonic() + timeout
        while True:
            record = await self.record()
            if check(record):
                return record
            if time.monotonic() > end:
                raise WaitTimeout(f"{record.name} is {record.status}, not {name}, after {timeout} s")
            await async_sleep(_PAUSE)

    # Lifecycle (docs/lifecycle.md).

    async def start(self) -> None:
        """Starts the computer; `wait_for_status("running")` waits for it."""
        await lifecycle_start.asyncio(*await self.target())

    async def stop(self) -> None:
        """Stops the computer; `wait_for_status("stopped")` waits for it."""
        await lifecycle_stop.asyncio(*await self.target())

    async def restart(self) -> None:
        """Restarts the computer."""
        await lifecycle_restart.asyncio(*await self.target())

    async def suspend(self) -> None:
        """Saves the memory and frees the machine; the next action wakes it."""
        await lifecycle_suspend.asyncio(*await self.target())

    async def resume(self) -> None:
        """Wakes a suspended computer."""
        await lifecycle_resume.asyncio(*await self.target())

    async def ensure_running(self) -> Record:
        """Starts or wakes the computer where needed; it is usable when this ends."""
        return await lifecycle_ensure_running.asyncio(*await self.target())

    async def delete(self) -> None:
        """Deletes the computer, its disk and its snapshots."""
        await computers_delete.asyncio(*await self.target())

    async def clone(self, name: str | None = None) -> AsyncComputer:
        """A copy of the computer with its disk, which starts from it."""
        client, id = await self.target()
        made = await computers_clone.asyncio(client, id, body=CloneComputer(name=name))
        return type(self)(made.id, client=client)

    async def fork(self, name: str | None = None) -> AsyncComputer:
        """A copy of the computer with its memory: its programs continue in both."""
        client, id = await self.target()
        made = await computers_fork.asyncio(client, id, body=ForkComputer(name=name))
        return type(self)(made.id, client=client)

    async def snapshot(self, name: str | None = None, *, memory: bool = False) -> Snapshot:
        """Saves the disk, and with `memory` what runs."""
        body = CreateSnapshot(name=name, memory=memory)
        return await snapshots_create.asyncio(*await self.target(), body=body)

    async def snapshots(self) -> list[Snapshot]:
        """The snapshots of the computer."""
        client, id = await self.target()
        found: list[Snapshot] = []
        offset: int | None = 0
        while offset is not None:
            page = await snapshots_list.asyncio(client, id, limit=_PAGE, offset=offset)
            found += page.snapshots
            offset = page.next_offset or None
        return found

    async def roll_back(self, snapshot: str | Snapshot) -> None:
        """Returns to a snapshot, or to the snapshot with this id. What changed since is lost."""
        id = snapshot if isinstance(snapshot, str) else snapshot.id
        await snapshots_roll_back.asyncio(*await self.target(), body=RollBack(snapshot_id=id))

    async def delete_snapshot(self, snapshot: str | Snapshot) -> None:
        """Deletes a snapshot, or the snapshot with this id."""
        id = snapshot if isinstance(snapshot, str) else snapshot.id
        await snapshots_delete.asyncio(*await self.target(), id)

    async def save_template(self, ref: str, *, description: str | None = None) -> Template:
        """Makes a template of the computer, `name@version`, from which others are launched. Its memory is not saved.

        Remove passwords first: every file is in the template, but `/tmp` and synced secrets.
        """
        body = SaveTemplate(ref=whole(ref), description=description)
        return await templates_save.asyncio(*await self.target(), body=body)

    async def sync_secrets(self, *names: str) -> SecretsSynced:
        """Writes secrets to `/root/.env` for programs: these, or all that the key may use on the computer."""
        body = SyncSecrets(names=[*names] or None)
        return await secrets_sync_secrets.asyncio(*await self.target(), body=body)


def _screen_of(window: str | Window) -> dict[str, Any]:
    """The query that leads to a window: only its own screen knows it."""
    return {} if isinstance(window, str) else {"screen": window.screen}


async def _computers(client: AsyncClient, **query: Any) -> list[Record]:
    found: list[Record] = []
    offset: int | None = 0
    while offset is not None:
        page = await computers_list.asyncio(client, limit=_PAGE, offset=offset, **query)
        found += page.computers
        offset = page.next_offset or None
    return found


async def _find(client: AsyncClient, name: str) -> str:
    """The id of the computer with a name or an instance id."""
    records = await _computers(client)
    found = [it for it in records if it.name.casefold() == name.casefold()]
    found = found or [it for it in records if it.instance_id == name]
    if len(found) == 1:
        return found[0].id
    if found:
        raise NoSuchComputer(
            f"{len(found)} computers have the name {name!r}: use an id of {[it.id for it in found]}"
        )
    raise NoSuchComputer(f"no computer has the name {name!r}; the key sees {len(records)} computers")


async def _workspace(client: AsyncClient, wanted: str | None) -> str:
    """The id of the workspace for a new computer."""
    if wanted and UUID.fullmatch(wanted):
        return wanted
    found = (await workspaces_list.asyncio(client)).workspaces
    if wanted is None and len(found) == 1:
        return found[0].id
    name = wanted or DEFAULT_WORKSPACE
    for workspace in found:
        if workspace.name.casefold() == name.casefold():
            return workspace.id
    try:
        return (await workspaces_create.asyncio(client, body=CreateWorkspace(name=name))).id
    except InvalidRequest as error:
        if error.code != "NAME_TAKEN":
            raise
        # Another program made it in between.
        return (await workspaces_by_name.asyncio(client, name)).id
