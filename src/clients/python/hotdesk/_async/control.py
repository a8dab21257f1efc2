"""Control of a screen by one actor at a time, and requests for help (docs/api/screens.md#control)."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from .._io import AsyncRepeater, Opening, async_opening
from ..errors import ConnectionFailed, HotdeskError, RateLimited, ServerError, WaitTimeout
from ..rest.api.screens import (
    screens_answer_help,
    screens_ask_for_help,
    screens_control,
    screens_hand_back_control,
    screens_take_control,
)
from ..rest.models.ask_for_help import AskForHelp
from ..rest.models.hand_back import HandBack
from ..rest.models.help_request import HelpRequest
from ..rest.models.last_hand_back import LastHandBack
from ..rest.models.screen_control import ScreenControl
from ..rest.models.take_control import TakeControl
from .context import AsyncContext

if TYPE_CHECKING:
    from .computer import AsyncComputer

_LONGEST_LOOK = 30
"""Seconds for which one request waits for a change, the most that the service allows."""
_RENEWALS = 3
"""How often control is renewed in its time: two renewals may be lost."""
_GRACE = 10.0
"""Seconds after the end of a request for help until the service must have said so."""
_BOOT_SCREEN = "default"


class AsyncControlLease(AsyncContext):
    """Control of a screen that this program has. `async with` renews it, and hands the screen back at the end.

    When it cannot be renewed, for example because an admin gave the screen to somebody else, the end of the block raises
    that error.
    """

    def __init__(
        self, control: AsyncControl, state: ScreenControl, note: str | None, seconds: int, screen: str
    ) -> None:
        self._control = control
        self._note = note
        self._seconds = seconds
        self._screen = screen
        self._renewals: AsyncRepeater | None = None
        self._is_over = False
        self._end = time.monotonic() + seconds
        self.state = state
        """The control when it was taken or renewed last: `expires_at`, `revision` and more."""

    async def _enter(self) -> None:
        self._renewals = AsyncRepeater(self._seconds / _RENEWALS, self._renew_in_time)

    async def _leave(self, error: BaseException | None) -> None:
        failure = await self._stop_renewals()
        if not self._is_over:
            try:
                await self.hand_back()
            except HotdeskError:
                # The error of the block, or of the renewal, is the one to see.
                if error is None and failure is None:
                    raise
        if failure is not None and error is None:
            raise failure

    async def _stop_renewals(self) -> Exception | None:
        if self._renewals is None:
            return None
        renewals, self._renewals = self._renewals, None
        await renewals.stop()
        return renewals.failure

    async def _renew_in_time(self) -> None:
        """Renews it. When the service is not there, the next renewal may succeed, while there is time."""
        began = time.monotonic()
        try:
            await self.renew()
            self._end = began + self._seconds
        except (ConnectionFailed, RateLimited, ServerError):
            if time.monotonic() >= self._end:
                raise

    async def renew(self) -> None:
        """Takes the screen for its time again. In `async with` this happens by itself."""
        self.state = await self._control._take(self._note, self._seconds, self._screen)

    async def hand_back(self, note: str | None = None) -> None:
        """Hands the screen back; `note` is for the one who acts next."""
        # A renewal after this would take it again.
        failure = await self._stop_renewals()
        self._is_over = True
        await self._control.hand_back(note, screen=self._screen)
        if failure is not None:
            raise failure


class AsyncControl:
    """Who may act on the screens of a computer, as `computer.control`. `screen` is the boot screen when absent.

    While somebody else holds a screen, actions are refused at once: `Conflict` with the code `control_held`.
    """

    def __init__(self, computer: AsyncComputer) -> None:
        self._computer = computer

    async def state(self, *, screen: str = _BOOT_SCREEN) -> ScreenControl:
        """Who holds a screen (`holder`), the request for help that waits (`help_`), and the last note."""
        client, id = await self._computer.target()
        return await screens_control.asyncio(client, id, screen)

    def take(
        self,
        *,
        note: str | None = None,
        seconds: int = 60,
        force: bool = False,
        screen: str = _BOOT_SCREEN,
    ) -> Opening[AsyncControlLease]:
        """Takes a screen: `async with computer.control.take(note="I sign in")`. Input of everybody else is refused.

        Args:
            note: What others are told.
            seconds: Time after which it ends by itself when this program is gone, 1 to 3600. `async with` renews it.
            force: Whether it is taken from another holder, which admins of the workspace may. Renewals do not take it back.
            screen: The screen.

        Raises:
            Conflict: Somebody else has it (`control_held`); `wait_until_free` waits.
        """
        return async_opening(self._lease(note, seconds, screen, force))

    async def _lease(self, note: str | None, seconds: int, screen: str, force: bool) -> AsyncControlLease:
        state = await self._take(note, seconds, screen, force)
        return AsyncControlLease(self, state, note, seconds, screen)

    async def _take(
        self, note: str | None, seconds: int, screen: str, force: bool = False
    ) -> ScreenControl:
        client, id = await self._computer.target()
        body = TakeControl(note=note, seconds=seconds)
        return await screens_take_control.asyncio(client, id, screen, body=body, force=force)

    async def hand_back(
        self, note: str | None = None, *, force: bool = False, screen: str = _BOOT_SCREEN
    ) -> ScreenControl:
        """Hands a screen back; with `force` also that of another holder, which admins of the workspace may."""
        client, id = await self._computer.target()
        body = HandBack(note=note)
        return await screens_hand_back_control.asyncio(client, id, screen, body=body, force=force)

    async def wait_until_free(
        self, *, timeout: float = 600.0, screen: str = _BOOT_SCREEN
    ) -> ScreenControl:
        """Waits until nobody holds a screen; `last_hand_back` of the answer has the note. Raises `WaitTimeout`."""
        end = time.monotonic() + timeout
        state = await self.state(screen=screen)
        while state.holder:
            if time.monotonic() > end:
                raise WaitTimeout(f"{state.holder.kind} still holds the screen {screen} after {timeout} s")
            state = await self._changed(state, end)
        return state

    async def ask_for_help(
        self, message: str, *, timeout: float = 600.0, screen: str = _BOOT_SCREEN
    ) -> LastHandBack:
        """Asks a person for help, and waits for the answer: who gave it (`by`), and the `note`.

        Args:
            message: What is needed.
            timeout: Seconds until the request ends by itself, at most 86,400. Then `WaitTimeout` is raised.
            screen: The screen.

        Raises:
            Conflict: The request of somebody else waits.
        """
        client, id = await self._computer.target()
        body = AskForHelp(message=message, seconds=max(1, math.ceil(timeout)))
        state = await screens_ask_for_help.asyncio(client, id, screen, body=body)
        end = time.monotonic() + timeout + _GRACE
        since = state.help_.since if isinstance(state.help_, HelpRequest) else ""
        while isinstance(state.help_, HelpRequest) and state.help_.since == since:
            if time.monotonic() > end:
                break
            state = await self._changed(state, end)
        last = state.last_hand_back
        # Without `by` the time was over. The times have one form, so they can be compared as texts.
        if isinstance(last, LastHandBack) and last.by and last.at >= since:
            return last
        raise WaitTimeout(f"nobody answered the request for help within {timeout} s")

    async def answer_help(
        self, note: str | None = None, *, screen: str = _BOOT_SCREEN
    ) -> ScreenControl:
        """Answers the request for help of a screen. `Conflict` when none waits."""
        client, id = await self._computer.target()
        return await screens_answer_help.asyncio(client, id, screen, body=HandBack(note=note))

    async def _changed(self, state: ScreenControl, end: float) -> ScreenControl:
        """The control when it has changed, or after a while."""
        client, id = await self._computer.target()
        seconds = min(_LONGEST_LOOK, max(1, math.ceil(end - time.monotonic())))
        return await screens_control.asyncio(
            client, id, state.screen, after=state.revision, wait_seconds=seconds
        )
