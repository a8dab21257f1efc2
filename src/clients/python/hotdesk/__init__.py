"""Client of hotdesk: cloud computers for programs and AI agents.

    from hotdesk import Computer

    with Computer.create() as computer:
        computer.screenshot().save("screen.png")

`AsyncComputer` has the same methods for `async`. Every operation of the API is in `hotdesk.rest`.
"""

from importlib.metadata import PackageNotFoundError, version

from . import rest
from ._async.chat import AsyncChat, AsyncChatStream
from ._async.client import AsyncClient
from ._async.computer import AsyncComputer
from ._async.control import AsyncControl, AsyncControlLease
from ._async.files import AsyncFiles
from ._async.recordings import AsyncRecordings
from ._async.secrets import AsyncSecrets
from ._async.sockets import AsyncAudio, AsyncEvents, AsyncTerminal
from ._async.streaming import AsyncConnections, AsyncStreaming
from ._async.templates import AsyncTemplates
from ._sync.chat import Chat, ChatStream
from ._sync.client import Client
from ._sync.computer import Computer
from ._sync.control import Control, ControlLease
from ._sync.files import Files
from ._sync.recordings import Recordings
from ._sync.secrets import Secrets
from ._sync.sockets import Audio, Events, Terminal
from ._sync.streaming import Connections, Streaming
from ._sync.templates import Templates
from .chat import ChatAnswer, ChatEvent, ChatOptions, RunProgress
from .errors import (
    AccessDenied,
    ApiError,
    ConfigurationError,
    Conflict,
    ConnectionFailed,
    HotdeskError,
    InvalidRequest,
    NoAnswer,
    NoSuchComputer,
    NotFound,
    PaymentRequired,
    RateLimited,
    ServerError,
    SocketClosed,
    TimedOut,
    Unauthenticated,
    Unavailable,
    WaitTimeout,
)
from .events import Event
from .pictures import picture_of
from .rest.models.settle import Settle
from .templates import BuildFailed, BuildLogEntry

try:
    __version__ = version("hotdesk")
except PackageNotFoundError:
    # Sources that are not installed.
    __version__ = "0"

__all__ = [
    "AccessDenied",
    "ApiError",
    "AsyncAudio",
    "AsyncChat",
    "AsyncChatStream",
    "AsyncClient",
    "AsyncComputer",
    "AsyncConnections",
    "AsyncControl",
    "AsyncControlLease",
    "AsyncEvents",
    "AsyncFiles",
    "AsyncRecordings",
    "AsyncSecrets",
    "AsyncStreaming",
    "AsyncTemplates",
    "AsyncTerminal",
    "Audio",
    "BuildFailed",
    "BuildLogEntry",
    "Chat",
    "ChatAnswer",
    "ChatEvent",
    "ChatOptions",
    "ChatStream",
    "Client",
    "Computer",
    "ConfigurationError",
    "Conflict",
    "ConnectionFailed",
    "Connections",
    "Control",
    "ControlLease",
    "Event",
    "Events",
    "Files",
    "HotdeskError",
    "InvalidRequest",
    "NoAnswer",
    "NoSuchComputer",
    "NotFound",
    "PaymentRequired",
    "RateLimited",
    "Recordings",
    "RunProgress",
    "Secrets",
    "ServerError",
    "Settle",
    "SocketClosed",
    "Streaming",
    "Templates",
    "Terminal",
    "TimedOut",
    "Unauthenticated",
    "Unavailable",
    "WaitTimeout",
    "picture_of",
    "rest",
]
