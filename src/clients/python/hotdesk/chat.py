"""What runs of models take and report (docs/api/chat.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from .rest.models import ChatCompletionRequestReasoningEffort, ChatRun, ChatUsage, ScreenActor


class ChatOptions(TypedDict, total=False):
    """Options of a run. Those that are absent have the service's defaults."""

    thread_id: str
    """Thread to continue; a new one when absent."""
    model: str
    """Id of the model."""
    screen: str
    """Id of the screen; the boot screen when absent."""
    max_steps: int
    """Most calls of tools, 1 to 250."""
    max_tokens: int
    """Most tokens of one reply of the model."""
    max_cost_cents: float
    """Cost in cents after which the model is not asked again."""
    tools: Sequence[str]
    """Tools that the model may use, of `computer` and `bash`."""
    confirm: Sequence[str]
    """Tools and actions before which the run ends, until it is continued with `approve`."""
    approve: bool
    """Whether the call that waits to be confirmed is carried out, and the thread continued."""
    background: bool
    """Whether the run goes on when this program leaves it."""
    control_wait_seconds: int
    """Seconds for which the run waits while somebody else holds the screen."""
    help_wait_seconds: int
    """Seconds for which the model may wait for the help of a person."""
    reasoning_effort: ChatCompletionRequestReasoningEffort
    """How much the model thinks before it acts."""
    anthropic_key: str
    """Your key for Anthropic's API. The service does not store it."""


@dataclass(frozen=True)
class RunProgress:
    """A wait of a run that began or ended."""

    waiting_for: str | None
    """`control` of the screen, or `help` of a person; None when the run goes on."""
    holder: ScreenActor | None = None
    """Who holds the screen."""
    message: str | None = None
    """What the model needs."""


@dataclass(frozen=True)
class ChatEvent:
    """Part of a run as it happens."""

    text: str = ""
    """What the model adds to its answer."""
    progress: RunProgress | None = None
    """A wait that began or ended."""


@dataclass(frozen=True)
class ChatAnswer:
    """A run that has ended."""

    text: str
    """Text of the model in all its turns; the last 1,048,576 characters of a longer one."""
    run: ChatRun
    """What was done: `thread_id`, `steps`, `cost_cents`, `ended` (why), and `pending`, the call that waits for `approve`."""
    usage: ChatUsage | None
    """Tokens of all turns."""


def messages_of(messages: str | Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages of a request; a text is one of the user."""
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else [*messages]
