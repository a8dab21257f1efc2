// Connection to a hotdesk service.

import createClient from "openapi-fetch";
import type { paths } from "./api.js";
import { answerOf, init, split, type Api, type Call, type Schemas } from "./calls.js";
import { Computer } from "./computer.js";
import { HotdeskError, NotFoundError } from "./errors.js";
import { Secrets } from "./parts/secrets.js";
import { Connections } from "./parts/streaming.js";
import { Templates } from "./parts/templates.js";
import type { SocketConstructor, SocketLike } from "./sockets.js";
import { newKey, retrying, type TransportOptions } from "./transport.js";

/** Where a service on this machine listens. */
const DEFAULT_URL = "http://127.0.0.1:8700";
/** Workspace of computers that are created without one, if the key reaches several or none. */
const DEFAULT_WORKSPACE = "default";
/** Entries of one page of a list: the most that the service answers. */
const PAGE = 1000;
/** A UUID, or the 8 digits of an instance id. */
const ID = /^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{8})$/i;

/** Digits of an instance id. */
const INSTANCE_ID_LENGTH = 8;

/** Options of a {@link Hotdesk}. */
export interface HotdeskOptions extends TransportOptions {
  /** Address of the service, with or without `/api`: `HOTDESK_URL`, else `http://127.0.0.1:8700`, when absent. */
  url?: string | undefined;
  /** API key: `HOTDESK_API_KEY` when absent. */
  key?: string | undefined;
  /** WebSocket for events, terminals and sound: the global one when absent. Node 20 has none: pass that of `ws`. */
  WebSocket?: SocketConstructor | undefined;
}

/** Fields of a new computer. */
export interface NewComputer extends Omit<Schemas["CreateComputer"], "name" | "project_id">, Call {
  /** Name, unique in its workspace; one with random digits when absent. */
  name?: string;
  /**
   * Name of its workspace, which is created when it does not exist. When absent it is the only one that the key reaches, else
   * the one named `default`.
   */
  workspace?: string;
  /** True to keep the computer at the end of an `await using` block. */
  keep?: boolean;
}

/** Filter of a list of computers. */
export interface ComputerFilter extends Call {
  workspace_id?: string;
  status?: "creating" | "starting" | "running" | "suspending" | "suspended" | "stopping" | "stopped" | "restarting"
    | "deleting" | "error";
  /** Text in the name, ignoring case. */
  name?: string;
}

/** A hotdesk service and an API key. It holds no connection, so there is nothing to close. */
export class Hotdesk {
  /** Address of the service, without `/api` and without a slash at its end. */
  readonly url: string;
  /** Every route of the API, with types of the OpenAPI document, and with the same retries and keys. */
  readonly api: Api;
  /** Secrets that computers use. */
  readonly secrets: Secrets;
  /** RTMP servers for live streams. */
  readonly connections: Connections;
  /** Templates, from which computers are launched. */
  readonly templates: Templates;
  readonly #WebSocket: SocketConstructor | undefined;

  constructor(options: HotdeskOptions = {}) {
    const key = (options.key ?? environment("HOTDESK_API_KEY"))?.trim();
    if (!key) throw new HotdeskError("No API key: pass `key`, or set HOTDESK_API_KEY");
    // The error of a header that cannot be sent would show it.
    if (!/^[!-~]+$/.test(key)) throw new HotdeskError("The API key has characters that no key has");
    this.url = originOf(options.url ?? environment("HOTDESK_URL") ?? DEFAULT_URL);
    this.api = createClient<paths>({
      baseUrl: `${this.url}/api`,
      headers: { Authorization: `Bearer ${key}` },
      fetch: retrying(options),
      // A change that is redirected becomes a read, whose answer looks like its own (Fetch standard, "HTTP-redirect fetch").
      redirect: "manual",
    });
    this.secrets = new Secrets(this.api);
    this.connections = new Connections(this.api);
    this.templates = new Templates(this);
    this.#WebSocket = options.WebSocket;
  }

  /** Creates a computer and returns it when it is usable. An `await using` block deletes it, unless `keep` is true. */
  async createComputer(options: NewComputer = {}): Promise<Computer> {
    const { call, fields } = split(options);
    const { workspace, keep, name = `typescript-${newKey().slice(0, 8)}`, ...record } = fields;
    const workspace_id = record.workspace_id ?? (await this.#workspaceFor(workspace, options)).id;
    const made = this.api.POST("/computers", { body: { ...record, name, workspace_id }, ...call });
    return new Computer(this, await answerOf(made), keep !== true);
  }

  async #workspaceFor(name: string | undefined, options: Call): Promise<Schemas["Workspace"]> {
    if (name !== undefined) return this.workspace(name, options);
    const all = await answerOf(this.api.GET("/workspaces", init({ signal: options.signal })));
    const [only, another] = all.workspaces;
    return only && !another ? only : this.workspace(DEFAULT_WORKSPACE, options);
  }

  /**
   * Returns a computer by its id, its instance id or its whole name. An `await using` block does not delete it. Throws a
   * {@link NotFoundError} when there is none, and a {@link HotdeskError} when a name is that of several.
   */
  async computer(idOrName: string, options: ComputerFilter = {}): Promise<Computer> {
    if (ID.test(idOrName)) {
      const params = { path: { id: idOrName } };
      try {
        return new Computer(this, await answerOf(this.api.GET("/computers/{id}", { params, ...init(options) })), false);
      } catch (error) {
        // Eight digits may be a name, too.
        if (!(error instanceof NotFoundError) || idOrName.length !== INSTANCE_ID_LENGTH) throw error;
      }
    }
    const isNamed = (it: Computer) => it.name.toLowerCase() === idOrName.trim().toLowerCase();
    const [found, another] = (await this.computers({ ...options, name: idOrName.trim() })).filter(isNamed);
    if (!found) throw new NotFoundError(`No computer is named "${idOrName}"`, { status: 404 });
    if (another) throw new HotdeskError(`Several computers are named "${idOrName}": use the id, or a workspace_id`);
    return found;
  }

  /** Returns the computers that the key reaches. */
  async computers(filter: ComputerFilter = {}): Promise<Computer[]> {
    const { call, fields } = split(filter);
    const found: Computer[] = [];
    for (let offset: number | null | undefined = 0; offset !== null && offset !== undefined; ) {
      const query: typeof fields & { limit: number; offset: number } = { ...fields, limit: PAGE, offset };
      const page: Schemas["ComputerList"] = await answerOf(
        this.api.GET("/computers", { params: { query }, ...call }),
      );
      found.push(...page.computers.map((record) => new Computer(this, record, false)));
      offset = page.next_offset;
    }
    return found;
  }

  /** Returns the workspace of a name, which is created when it does not exist. */
  async workspace(name: string, options: Call = {}): Promise<Schemas["Workspace"]> {
    // The key of the whole operation belongs to its last request.
    const call = init({ signal: options.signal });
    const find = () =>
      answerOf(this.api.GET("/workspaces/by-name/{name}", { params: { path: { name } }, ...call }));
    try {
      return await find();
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error;
    }
    try {
      return await answerOf(this.api.POST("/workspaces", { body: { name }, ...call }));
    } catch (error) {
      // Another program created it in between.
      if (error instanceof HotdeskError && error.code === "NAME_TAKEN") return find();
      throw error;
    }
  }

  /** Returns the state of the service. */
  health(): Promise<Schemas["Health"]> {
    return answerOf(this.api.GET("/health"));
  }

  /** Opens a socket of a computer. Its address holds the computer's password and is never part of an error. */
  async openSocket(id: string, channel: string, query: Record<string, string | number | undefined>): Promise<SocketLike> {
    const Socket = this.#WebSocket ?? (globalThis as { WebSocket?: SocketConstructor }).WebSocket;
    if (!Socket) throw new HotdeskError("There is no WebSocket: pass one, for example `import WebSocket from \"ws\"`");
    const params = { path: { id } };
    const { password } = await answerOf(this.api.GET("/computers/{id}/vnc-password", { params }));
    const at = new URL(`${this.url}/desktops/${encodeURIComponent(id)}/ws/${channel}`);
    at.protocol = at.protocol.replace("http", "ws");
    for (const [name, value] of Object.entries({ token: password, ...query })) {
      if (value !== undefined) at.searchParams.set(name, String(value));
    }
    return new Socket(at.href);
  }
}

/** Returns the address of a service, without `/api` and without a slash at its end. In a page it may be relative. */
function originOf(address: string): string {
  // No error shows the address, which may hold a password.
  let at: URL;
  try {
    at = new URL(address, globalThis.location?.href);
  } catch {
    throw new HotdeskError("The address of the service is none: use http://HOST or https://HOST");
  }
  if (!/^https?:$/.test(at.protocol) || at.username || at.password || at.search || at.hash) {
    throw new HotdeskError("The address of the service has more than http:// or https://, a host and a path");
  }
  return `${at.origin}${at.pathname}`.replace(/\/+$/, "").replace(/\/api$/, "");
}

/** Returns a variable of the environment; undefined in a browser and without a value. */
function environment(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}
