// Events, terminal and sound of a computer (docs/channels.md).

import { HotdeskError } from "./errors.js";
import { parsed, SocketStream, type Opener } from "./sockets.js";

/** Events that wait for a slow reader; then the oldest is dropped. */
const MAX_EVENTS = 4096;
/** Characters of output that wait for a slow reader. Output must not be lost, so more closes the terminal. */
const MAX_OUTPUT = 16 * 1024 * 1024;
/** Characters of one input message. The service takes at most 2 MiB, and JSON may need six bytes for a character. */
const INPUT_PIECE = 64 * 1024;
/** Frames of 20 ms that wait for a slow listener: the newest second, as on the service's side. */
const MAX_FRAMES = 50;

/** Longest wait for an event or an output in seconds, unless the options say otherwise. */
const WAIT_TIMEOUT = 60;

/** Names of event types. `Computer.eventTypes` asks the service, which may have more. */
export type EventType =
  | "active" | "agent_change" | "audio_stream_start" | "audio_stream_stop" | "clipboard" | "control_changed"
  | "download_finished" | "file_change" | "health_change" | "help_requested" | "idle" | "notification" | "process_start"
  | "process_stop" | "screen_change" | "title_change" | "window_close" | "window_focus" | "window_open" | (string & {});

/** Something that happened on a desktop; docs/api/events.md has the data of each type. */
export interface DesktopEvent {
  type: EventType;
  /** Time, ISO 8601. */
  timestamp: string;
  data: Record<string, unknown>;
}

/** Events of a computer. `ready` resolves when the subscription is confirmed: what happens after it is reported. */
export class EventStream extends SocketStream<DesktopEvent> {
  readonly #types: readonly EventType[];

  constructor(open: Opener, types: readonly EventType[]) {
    super(open, { limit: MAX_EVENTS, overflow: "drop" });
    this.#types = types;
  }

  /**
   * Returns the first event that fits; those before it are passed over. Throws a {@link TimeoutError} after `timeout`
   * seconds (60).
   */
  async waitFor(fits: (event: DesktopEvent) => boolean, options: { timeout?: number } = {}): Promise<DesktopEvent> {
    const end = Date.now() + (options.timeout ?? WAIT_TIMEOUT) * 1000;
    for (;;) {
      const { done, value } = await this.take(end);
      if (done) throw new HotdeskError("The events ended");
      if (fits(value)) return value;
    }
  }

  protected override opened(): void {
    this.transmit({ type: "subscribe", event_types: this.#types });
  }

  protected override received(data: unknown): void {
    const message = parsed(data);
    switch (message?.["type"]) {
      case "subscribed":
        this.works();
        break;
      case "error":
        this.finish(new HotdeskError(String(message["message"])));
        break;
      case "event":
        if (typeof message["dropped"] === "number") this.missed = message["dropped"];
        this.push(message["event"] as DesktopEvent);
        break;
    }
  }
}

/** What a terminal is opened with. */
export interface TerminalOptions {
  /** Columns and rows, 1 to 1000: 80 and 24 when absent. */
  cols?: number;
  rows?: number;
  /** Id of the screen that `DISPLAY` names; the boot screen when absent. */
  screen?: string;
}

/**
 * An interactive login bash. The iterator gives its output and ends with the shell. What the service cannot follow, such as
 * a size out of range, ends the terminal with an error.
 */
export class Terminal extends SocketStream<string> {
  /** Exit code of the shell, 128 + signal for a signal; undefined while it runs. */
  exitCode: number | undefined;

  constructor(open: Opener) {
    super(open, { limit: MAX_OUTPUT, size: (text) => text.length, overflow: "fail" });
  }

  /** Types text; `\r` is Enter. */
  async send(text: string): Promise<void> {
    await this.ready;
    for (let at = 0; at < text.length; ) {
      let end = Math.min(at + INPUT_PIECE, text.length);
      // A surrogate pair is one character and stays together.
      if (end < text.length && text.charCodeAt(end - 1) >> 10 === 0xd800 >> 10) end -= 1;
      this.transmit({ type: "input", data: text.slice(at, end) });
      at = end;
    }
  }

  /**
   * Reads until a text came, and returns the output with it. Throws a {@link TimeoutError} after `timeout` seconds (60); what
   * was read until then is lost.
   */
  async readUntil(text: string, options: { timeout?: number } = {}): Promise<string> {
    const end = Date.now() + (options.timeout ?? WAIT_TIMEOUT) * 1000;
    for (let output = ""; ; ) {
      const { done, value } = await this.take(end);
      if (done) throw new HotdeskError(`The terminal ended before it wrote ${JSON.stringify(text)}`);
      output += value;
      if (output.includes(text)) return output;
    }
  }

  /** Changes the size. */
  async resize(cols: number, rows: number): Promise<void> {
    await this.ready;
    this.transmit({ type: "resize", cols, rows });
  }

  protected override opened(): void {
    this.works();
  }

  protected override received(data: unknown): void {
    const message = parsed(data);
    switch (message?.["type"]) {
      case "output":
        this.push(String(message["data"]));
        break;
      case "exit":
        this.exitCode = Number(message["code"]);
        break;
      case "error":
        this.finish(new HotdeskError(String(message["message"])));
        break;
    }
  }
}

/** What sound is opened with. */
export interface AudioOptions {
  /** Samples a second, 8000 to 48000: 24000 when absent. */
  sampleRate?: number;
  /** 1 (default) or 2. */
  channels?: 1 | 2;
}

/**
 * What a computer plays: frames of 20 ms as signed 16-bit little-endian samples. Silence comes while nothing plays.
 * `dropped` counts the frames that a slow reader missed.
 */
export class AudioStream extends SocketStream<Uint8Array> {
  constructor(open: Opener) {
    super(open, { limit: MAX_FRAMES, overflow: "drop" });
  }

  protected override opened(): void {}

  protected override received(data: unknown): void {
    if (data instanceof ArrayBuffer) return this.push(new Uint8Array(data));
    const message = parsed(data);
    if (message?.["type"] === "started") this.works();
    if (message?.["type"] === "error") this.finish(new HotdeskError(String(message["message"])));
  }
}
