/** Client of hotdesk: cloud computers for programs and AI agents. */

export type { Api, Call, OnScreen, Schemas } from "./calls.js";
export {
  AudioStream, EventStream, Terminal, type AudioOptions, type DesktopEvent, type EventType, type TerminalOptions,
} from "./channels.js";
export { Hotdesk, type ComputerFilter, type HotdeskOptions, type NewComputer } from "./client.js";
export { Computer, type ElementFilter, type ScreenshotOptions } from "./computer.js";
export {
  AuthenticationError, ConflictError, ConnectionError, HotdeskError, NotFoundError, PermissionError, RateLimitError,
  SocketError, TimeoutError, UnavailableError, type HotdeskErrorDetails,
} from "./errors.js";
export {
  Chat, ChatStream, type ChatAnswer, type ChatEvent, type ChatMessages, type ChatOptions, type RunProgress,
} from "./parts/chat.js";
export { Control, ControlLease, type TakeOptions } from "./parts/control.js";
export { Files, type ByteStream, type Content, type WriteOptions } from "./parts/files.js";
export type { PictureType } from "./parts/picture.js";
export { Recordings, type RecordingRef } from "./parts/recordings.js";
export { Secrets } from "./parts/secrets.js";
export { Connections, Streaming, type StreamOptions } from "./parts/streaming.js";
export { BuildError, Templates, type TemplateDocument } from "./parts/templates.js";
export type { InWorkspace } from "./parts/workspaces.js";
export { Screenshot } from "./screenshot.js";
export type { SocketConstructor, SocketLike } from "./sockets.js";
