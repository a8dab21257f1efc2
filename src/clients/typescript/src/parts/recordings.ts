// Recordings of a screen: video, and a timeline of what was done (docs/api/screens.md, "Recordings").

import { answerOf, init, split, type Api, type Call, type Schemas } from "../calls.js";
import type { ByteStream } from "./files.js";
import { linesOf } from "./lines.js";

/** A record of a recording, or its id. */
export type RecordingRef = string | Pick<Schemas["Recording"], "id">;

/** Recordings of a computer. */
export class Recordings {
  readonly #api: Api;
  readonly #id: string;

  constructor(api: Api, id: string) {
    this.#api = api;
    this.#id = id;
  }

  #params(recording: RecordingRef) {
    const recording_id = typeof recording === "string" ? recording : recording.id;
    return { params: { path: { id: this.#id, recording_id } } };
  }

  /** Starts a recording. It ends by itself after `max_seconds` (600). */
  start(options: Schemas["StartRecording"] & Call = {}): Promise<Schemas["Recording"]> {
    const { call, fields } = split(options);
    const params = { path: { id: this.#id } };
    return answerOf(this.#api.POST("/computers/{id}/recordings", { params, body: fields, ...call }));
  }

  /** Returns the recordings, oldest first. */
  async list(options: Call = {}): Promise<Schemas["Recording"][]> {
    const params = { path: { id: this.#id } };
    return (await answerOf(this.#api.GET("/computers/{id}/recordings", { params, ...init(options) }))).recordings;
  }

  /** Returns the record of a recording: `status`, `seconds`, `size_bytes` and more. */
  get(recording: RecordingRef, options: Call = {}): Promise<Schemas["Recording"]> {
    const path = "/computers/{id}/recordings/{recording_id}";
    return answerOf(this.#api.GET(path, { ...this.#params(recording), ...init(options) }));
  }

  /** Ends a recording; one that has ended stays as it is. */
  stop(recording: RecordingRef, options: Call = {}): Promise<Schemas["Recording"]> {
    const path = "/computers/{id}/recordings/{recording_id}/stop";
    return answerOf(this.#api.POST(path, { ...this.#params(recording), ...init(options) }));
  }

  /** Deletes a recording with its video and timeline. */
  async delete(recording: RecordingRef, options: Call = {}): Promise<void> {
    const path = "/computers/{id}/recordings/{recording_id}";
    await answerOf(this.#api.DELETE(path, { ...this.#params(recording), ...init(options) }));
  }

  /** Returns the video (MP4) as a stream of bytes. Of a recording that goes on it is what is written so far. */
  async video(recording: RecordingRef, options: Call = {}): Promise<ByteStream> {
    const path = "/computers/{id}/recordings/{recording_id}/video";
    const got = this.#api.GET(path, { ...this.#params(recording), parseAs: "stream", ...init(options) });
    // A recording that has just begun has no bytes.
    return ((await answerOf(got)) ?? new Blob().stream()) as ByteStream;
  }

  /** Returns what was done on the screen, in order: `at` (seconds from the start), `action` and more. */
  async *timeline(recording: RecordingRef, options: Call = {}): AsyncGenerator<Schemas["TimelineEntry"], void, undefined> {
    const path = "/computers/{id}/recordings/{recording_id}/timeline";
    const body = await answerOf(
      this.#api.GET(path, { ...this.#params(recording), parseAs: "stream", ...init(options) }),
    );
    for await (const line of linesOf(body, options.signal)) yield JSON.parse(line) as Schemas["TimelineEntry"];
  }
}
