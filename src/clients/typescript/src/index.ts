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
export { Files, type ByteStream, type Content, type WriteOptions } from "./files.js";
export { Screenshot } from "./screenshot.js";
export type { SocketConstructor, SocketLike } from "./sockets.js";
