// Files of a computer.

import { answerOf, init, newCall, responseOf, type Api, type Call, type Schemas } from "../calls.js";
import { HotdeskError } from "../errors.js";
import { MAX_KEYED_BODY } from "../transport.js";

/** Bytes of a piece, in which a larger file goes. */
const PIECE = MAX_KEYED_BODY;

/** Bytes or text of a file. A `Blob` may be a file on a disk (`fs.openAsBlob`), which is read piece by piece. */
export type Content = string | Uint8Array | ArrayBuffer | Blob;

/** A stream of bytes, also for `for await`: TypeScript's default library leaves that out for browsers. */
export type ByteStream = ReadableStream<Uint8Array> & AsyncIterable<Uint8Array>;

/** Options of {@link Files.write}. */
export interface WriteOptions extends Call {
  /** Whether a file that is there is replaced (default); otherwise it is 409 `already_exists`. */
  overwrite?: boolean;
  /** True to make missing folders on the way. */
  parents?: boolean;
  /** Permissions in octal: `644`, or those of the replaced file, when absent. */
  mode?: string;
  /** Called after each piece with the bytes that are stored. */
  onProgress?: (sent: number, total: number) => void;
}

/** Files of a computer. A path is relative to the home folder, starts with `~/`, or is absolute. */
export class Files {
  readonly #api: Api;
  readonly #id: string;

  constructor(api: Api, id: string) {
    this.#api = api;
    this.#id = id;
  }

  /** Returns the bytes of a file. */
  async read(path: string, options: Call = {}): Promise<Uint8Array> {
    const params = { path: { id: this.#id }, query: { path } };
    const got = this.#api.GET("/computers/{id}/files/content", { params, parseAs: "arrayBuffer", ...init(options) });
    return new Uint8Array(await answerOf(got));
  }

  /** Returns the text of a file in UTF-8. */
  async readText(path: string, options: Call = {}): Promise<string> {
    return new TextDecoder().decode(await this.read(path, options));
  }

  /** Returns the bytes of a file as a stream, for files that do not fit into memory. */
  async stream(path: string, options: Call = {}): Promise<ByteStream> {
    const params = { path: { id: this.#id }, query: { path } };
    const got = this.#api.GET("/computers/{id}/files/content", { params, parseAs: "stream", ...init(options) });
    const body = await answerOf(got);
    // An empty file has no body.
    return (body ?? new Blob().stream()) as ByteStream;
  }

  /**
   * Writes a file of any size, whole or not at all. A file of more than 2 MiB goes in pieces, each of which is repeated
   * alone when the network fails.
   */
  async write(path: string, content: Content, options: WriteOptions = {}): Promise<void> {
    const { overwrite = true, parents, mode, onProgress, ...call } = options;
    const blob = content instanceof Blob ? content : new Blob([content as BlobPart]);
    if (blob.size > PIECE) return this.#upload(path, blob, { ...options, overwrite });
    const { signal, headers } = newCall(call);
    await answerOf(
      this.#api.PUT("/computers/{id}/files/content", {
        params: { path: { id: this.#id }, query: { path, overwrite, parents, mode } },
        body: blob,
        bodySerializer: (body: Blob) => body,
        headers: { ...headers, "Content-Type": "application/octet-stream" },
        ...signal,
      }),
    );
    onProgress?.(blob.size, blob.size);
  }

  /** Resumable upload (tus 1.0.0). */
  async #upload(path: string, blob: Blob, options: WriteOptions): Promise<void> {
    const { signal, headers } = newCall(options);
    const tus = { "Tus-Resumable": "1.0.0" };
    const metadata = Object.entries({ path, overwrite: options.overwrite, parents: options.parents, mode: options.mode })
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${name} ${base64(String(value))}`);
    const header = { ...tus, "Upload-Length": blob.size, "Upload-Metadata": metadata.join(",") };
    const params = { path: { id: this.#id }, header };
    const made = await responseOf(
      this.#api.POST("/computers/{id}/files/uploads", { params, parseAs: "text", headers, ...signal }),
    );
    const upload_id = made.response.headers.get("Location")?.split("/").pop();
    if (!upload_id) throw new HotdeskError("The answer to a new upload has no Location");
    const target = { id: this.#id, upload_id };
    try {
      for (let offset = 0; offset < blob.size; offset += PIECE) {
        await answerOf(
          this.#api.PATCH("/computers/{id}/files/uploads/{upload_id}", {
            params: { path: target, header: { ...tus, "Upload-Offset": offset } },
            body: blob.slice(offset, offset + PIECE),
            bodySerializer: (body: Blob) => body,
            headers: { ...newCall({}).headers, "Content-Type": "application/offset+octet-stream" },
            ...signal,
          }),
        );
        options.onProgress?.(Math.min(offset + PIECE, blob.size), blob.size);
      }
    } catch (error) {
      // The caller needs the failure of the upload. If the removal fails too, the service removes the upload after a day.
      const params = { path: target, header: tus };
      await this.#api.DELETE("/computers/{id}/files/uploads/{upload_id}", { params }).catch(() => undefined);
      throw error;
    }
  }

  /** Returns the entries of a folder, sorted by name. */
  async list(path: string, options: Call = {}): Promise<Schemas["Entry"][]> {
    const found: Schemas["Entry"][] = [];
    for (let after: string | undefined; ; ) {
      const params = { path: { id: this.#id }, query: { path, after } };
      const page: Schemas["Listing"] = await answerOf(
        this.#api.GET("/computers/{id}/files/list", { params, ...init(options) }),
      );
      found.push(...page.entries);
      if (!page.next) return found;
      after = page.next;
    }
  }

  /** Returns what a path names; a link is described itself. */
  stat(path: string, options: Call = {}): Promise<Schemas["Stat"]> {
    const params = { path: { id: this.#id }, query: { path } };
    return answerOf(this.#api.GET("/computers/{id}/files/stat", { params, ...init(options) }));
  }

  /** Returns the SHA-256 of a file in hexadecimal. */
  async sha256(path: string, options: Call = {}): Promise<string> {
    const params = { path: { id: this.#id }, query: { path, algorithm: "sha256" as const } };
    return (await answerOf(this.#api.GET("/computers/{id}/files/hash", { params, ...init(options) }))).hash;
  }

  /** Makes a folder. With `parents`, missing folders on the way too, and one that exists is accepted. */
  mkdir(path: string, options: Call & { parents?: boolean } = {}): Promise<Schemas["Made"]> {
    const params = { path: { id: this.#id } };
    const body = { path, parents: options.parents ?? false };
    return answerOf(this.#api.POST("/computers/{id}/files/mkdir", { params, body, ...init(options) }));
  }

  /** Moves or renames a file or folder. */
  move(from: string, to: string, options: Call & { overwrite?: boolean } = {}): Promise<Schemas["Moved"]> {
    const params = { path: { id: this.#id } };
    const body = { from, to, overwrite: options.overwrite ?? false };
    return answerOf(this.#api.POST("/computers/{id}/files/move", { params, body, ...init(options) }));
  }

  /** Removes a file, or with `recursive` a folder with its contents. */
  remove(path: string, options: Call & { recursive?: boolean } = {}): Promise<Schemas["Deleted"]> {
    const params = { path: { id: this.#id }, query: { path, recursive: options.recursive ?? false } };
    return answerOf(this.#api.DELETE("/computers/{id}/files", { params, ...init(options) }));
  }
}

/** Returns text in UTF-8 as base64. */
function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
