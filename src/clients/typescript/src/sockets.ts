// Sockets of a computer as async iterators.
//
// opening ──open──▶ open ──ready──▶ ready ──close()──▶ ended          messages wait in a bounded queue
//    └──────────────┴── close code, error, timeout ──▶ failed         until the iterator takes them

import { HotdeskError, SocketError, TimeoutError } from "./errors.js";

/** Longest time in milliseconds until a socket works: the service waits 45 s for a computer that starts. */
const CONNECT_TIMEOUT = 60_000;
/** Close code of a normal end (RFC 6455 section 7.4.1). */
const NORMAL = 1000;
/** `readyState` of an open socket. */
const OPEN = 1;

/** The part of a WebSocket that the client uses; the standard one and that of the package `ws` have it. */
export interface SocketLike {
  binaryType: string;
  readonly readyState: number;
  send(data: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "open" | "error", listener: () => void): void;
  addEventListener(type: "message", listener: (event: { data: unknown }) => void): void;
  addEventListener(type: "close", listener: (event: { code: number; reason: string }) => void): void;
}

/** Constructor of WebSockets. */
export type SocketConstructor = new (url: string) => SocketLike;

/** Opens a socket: finds its address, which has the computer's password, and connects. */
export type Opener = () => Promise<SocketLike>;

/** What a call of the iterator gets. */
type Result<Message> = { error: unknown } | IteratorResult<Message>;

/** Bounds of what waits for the iterator. */
interface Bounds<Message> {
  /** Most messages or units of {@link size} that wait. */
  limit: number;
  /** Size of a message; 1 when absent. */
  size?: (message: Message) => number;
  /** What happens when more comes: the oldest is dropped, or the stream fails. */
  overflow: "drop" | "fail";
}

/**
 * Messages of a socket, for `for await`. The socket opens at once, and closes when the loop ends, by `close()`, or at the
 * end of an `await using` block. The loop ends at the socket's normal end and throws a {@link SocketError} at another.
 */
export abstract class SocketStream<Message> implements AsyncIterableIterator<Message>, AsyncDisposable {
  /** Resolves when the stream works, and rejects when it cannot be opened. Waiting for it is optional. */
  readonly ready: Promise<void>;
  /** Number of messages that the service dropped. */
  protected missed = 0;
  #overflowed = 0;

  readonly #bounds: Bounds<Message>;
  readonly #queue: Message[] = [];
  #queued = 0;
  readonly #waiting: Array<(result: Result<Message>) => void> = [];
  #end: { error?: unknown } | undefined;
  // The failure is thrown once; an iterator that is asked again has ended.
  #isThrown = false;
  #socket: SocketLike | undefined;
  #settle!: { resolve: () => void; reject: (error: unknown) => void };

  /** Opens the socket. A subclass gives the bounds of its queue. */
  protected constructor(open: Opener, bounds: Bounds<Message>) {
    this.#bounds = bounds;
    this.ready = new Promise<void>((resolve, reject) => (this.#settle = { resolve, reject }));
    // Who does not wait for `ready` gets the failure from the iterator.
    this.ready.catch(() => {});
    const timer = setTimeout(() => {
      this.finish(new TimeoutError(`The socket did not open within ${CONNECT_TIMEOUT / 1000} s`));
    }, CONNECT_TIMEOUT);
    const stop = () => clearTimeout(timer);
    this.ready.then(stop, stop);
    open().then((socket) => this.#use(socket), (error: unknown) => this.finish(error));
  }

  /** Number of messages that were lost because they were not read in time. */
  get dropped(): number {
    return this.missed + this.#overflowed;
  }

  /** Called when the socket is open, before its first message. */
  protected abstract opened(): void;

  /** Called with each message. */
  protected abstract received(data: unknown): void;

  #use(socket: SocketLike): void {
    if (this.#end) return socket.close(NORMAL);
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => this.#guarded(() => this.opened()));
    socket.addEventListener("message", (event) => this.#guarded(() => this.received(event.data)));
    socket.addEventListener("close", (event) => {
      this.finish(event.code === NORMAL ? undefined : new SocketError(event.code, event.reason));
    });
    // The close event, which follows, has the code.
    socket.addEventListener("error", () => {});
  }

  /** Ends the stream with what a handler throws: nobody catches an error of a listener. */
  #guarded(handle: () => void): void {
    try {
      handle();
    } catch (error) {
      this.finish(error);
    }
  }

  /** Marks the stream as usable. */
  protected works(): void {
    this.#settle.resolve();
  }

  /** Gives a message to the iterator. */
  protected push(message: Message): void {
    if (this.#end) return;
    const taker = this.#waiting.shift();
    if (taker) return taker({ done: false, value: message });
    this.#queue.push(message);
    this.#queued += this.#size(message);
    while (this.#queued > this.#bounds.limit) {
      if (this.#bounds.overflow === "fail") {
        return this.finish(new HotdeskError("The stream was closed because it was read too slowly"));
      }
      this.#shift();
      this.#overflowed += 1;
    }
  }

  #size(message: Message): number {
    return this.#bounds.size?.(message) ?? 1;
  }

  #shift(): Message | undefined {
    const message = this.#queue.shift();
    if (message !== undefined) this.#queued -= this.#size(message);
    return message;
  }

  /** Sends a message as JSON. Throws when the socket is not open. */
  protected transmit(message: object): void {
    if (this.#socket?.readyState !== OPEN || this.#end) throw this.#failure();
    this.#socket.send(JSON.stringify(message));
  }

  #failure(): unknown {
    return this.#end?.error ?? new HotdeskError("The socket is not open");
  }

  /** Ends the stream, with an error unless it is undefined. Messages that wait are still read. */
  protected finish(error?: unknown): void {
    if (this.#end) return;
    this.#end = error === undefined ? {} : { error };
    this.#settle.reject(this.#failure());
    for (const taker of this.#waiting.splice(0)) {
      taker(this.#isThrown || error === undefined ? { done: true, value: undefined } : { error });
      this.#isThrown = true;
    }
    this.#socket?.close(NORMAL);
  }

  /** Returns the next message; `done` after the socket's normal end. Throws when the socket ended otherwise. */
  next(): Promise<IteratorResult<Message>> {
    return this.take();
  }

  /** {@link next} with an end in milliseconds since 1970, after which it throws a {@link TimeoutError}. */
  protected take(end?: number): Promise<IteratorResult<Message>> {
    const message = this.#shift();
    if (message !== undefined) return Promise.resolve({ done: false, value: message });
    if (this.#end) {
      const { error } = this.#end;
      if (error === undefined || this.#isThrown) return Promise.resolve({ done: true, value: undefined });
      this.#isThrown = true;
      return Promise.reject(error);
    }
    return new Promise((resolve, reject) => {
      const taker = (result: Result<Message>) => {
        clearTimeout(timer);
        if ("error" in result) reject(result.error);
        else resolve(result);
      };
      const expire = () => {
        this.#waiting.splice(this.#waiting.indexOf(taker), 1);
        reject(new TimeoutError("What was waited for did not come in time"));
      };
      const timer = end === undefined ? undefined : setTimeout(expire, Math.max(0, end - Date.now()));
      this.#waiting.push(taker);
    });
  }

  /** Closes the socket and discards what waits. A `for await` loop calls it when it is left. */
  return(): Promise<IteratorResult<Message>> {
    this.close();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** Closes the socket and discards what waits. */
  close(): void {
    this.#queue.length = 0;
    this.#queued = 0;
    this.finish();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }
}

/** Parses a text message; undefined for what is no JSON object. */
export function parsed(data: unknown): Record<string, unknown> | undefined {
  if (typeof data !== "string") return undefined;
  const value: unknown = JSON.parse(data);
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
}
