// Live streams of a computer to an RTMP server, and the servers that are saved (docs/api/streaming.md).

import { answerOf, init, split, type Api, type Call, type OnScreen, type Schemas } from "../calls.js";
import { HotdeskError } from "../errors.js";
import { workspaceId, type InWorkspace } from "./workspaces.js";

/** RTMP servers with their stream keys. */
export class Connections {
  readonly #api: Api;

  constructor(api: Api) {
    this.#api = api;
  }

  /**
   * Saves a server under a name; one that has the name is replaced. `url` is that of the server and its application, `key` the
   * stream key, which no answer has. Keys of a workspace may use a server that is saved for it.
   */
  async save(name: string, url: string, key: string, options: InWorkspace = {}): Promise<Schemas["Connection"]> {
    const body = { name, url, key, workspace_id: await workspaceId(this.#api, options) };
    return answerOf(this.#api.POST("/stream/connections", { body, ...init(options) }));
  }

  /** Returns the servers, by name. */
  async list(options: Call = {}): Promise<Schemas["Connection"][]> {
    return (await answerOf(this.#api.GET("/stream/connections", init(options)))).connections;
  }

  /** Deletes a server. A stream to it goes on. */
  async delete(name: string, options: Call = {}): Promise<void> {
    await answerOf(this.#api.DELETE("/stream/connections/{name}", { params: { path: { name } }, ...init(options) }));
  }
}

/** Options of {@link Streaming.start}. */
export interface StreamOptions extends OnScreen {
  /** With `key`, the server is saved under the name first. */
  url?: string | undefined;
  /** Its stream key. */
  key?: string | undefined;
}

/** The live stream of a computer. */
export class Streaming {
  readonly #api: Api;
  readonly #id: string;

  constructor(api: Api, id: string) {
    this.#api = api;
    this.#id = id;
  }

  /**
   * Sends a screen and the sound to a server, and returns when the server has taken the stream. The name is that of a saved
   * server, or of one of the computer's template.
   */
  async start(connection_name: string, options: StreamOptions = {}): Promise<Schemas["StreamStarted"]> {
    const { call, fields } = split(options);
    const { url, key, screen } = fields;
    if ((url === undefined) !== (key === undefined)) {
      throw new HotdeskError("A stream needs both `url` and `key`, or the name of a saved server alone");
    }
    if (url !== undefined && key !== undefined) {
      // The key of the whole operation belongs to its last request.
      await new Connections(this.#api).save(connection_name, url, key, { signal: options.signal });
    }
    const params = { path: { id: this.#id } };
    const body = { connection_name, screen };
    return answerOf(this.#api.POST("/computers/{id}/stream/start", { params, body, ...call }));
  }

  /** Returns `idle`, `streaming`, or `terminated` with the `reason`. */
  status(options: Call = {}): Promise<Schemas["StreamStatus"]> {
    const params = { path: { id: this.#id } };
    return answerOf(this.#api.GET("/computers/{id}/stream/status", { params, ...init(options) }));
  }

  /** Ends the stream; does nothing without one. */
  async stop(options: Call = {}): Promise<void> {
    const params = { path: { id: this.#id } };
    await answerOf(this.#api.POST("/computers/{id}/stream/stop", { params, ...init(options) }));
  }
}
