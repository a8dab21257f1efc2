// One computer: lifecycle, screen, mouse, keyboard, commands, files and channels.
//
// Names and meaning of options are those of the API: docs/api has their values. Every method takes `signal` and
// `idempotencyKey` among its options.

import { answerOf, init, responseOf, split, splitScreen, type Call, type OnScreen, type Schemas } from "./calls.js";
import {
  AudioStream, EventStream, Terminal, type AudioOptions, type EventType, type TerminalOptions,
} from "./channels.js";
import { Hotdesk, type HotdeskOptions, type NewComputer } from "./client.js";
import { HotdeskError, NotFoundError, TimeoutError } from "./errors.js";
import { Chat } from "./parts/chat.js";
import { Control } from "./parts/control.js";
import { Files } from "./parts/files.js";
import { Recordings } from "./parts/recordings.js";
import { Streaming } from "./parts/streaming.js";
import { wholeOf } from "./parts/templates.js";
import { Screenshot } from "./screenshot.js";
import { sleep } from "./transport.js";

/** Milliseconds between two looks at the status or the windows of a computer. */
const PAUSE = 300;
/** Longest wait for a status in seconds, unless the options say otherwise. */
const STATUS_TIMEOUT = 180;
/** Longest wait for a window in seconds, unless the options say otherwise. */
const WINDOW_TIMEOUT = 30;
/** Entries of one page of a list: the most that the service answers. */
const PAGE = 1000;

/** Options of an action, without what its method takes as parameters. */
type Options<Name extends keyof Schemas, Given extends PropertyKey = never> = Omit<Schemas[Name], Given> & OnScreen;

/** Options of {@link Computer.screenshot}. */
export interface ScreenshotOptions extends OnScreen {
  /** `png` when absent. */
  format?: "png" | "jpeg" | "webp";
  /** 1 to 100, for JPEG and WebP. */
  quality?: number;
  /** Above 0, at most 1. */
  scale?: number;
  /** Part of the screen. */
  region?: { x: number; y: number; width: number; height: number };
  /** `on` when absent. */
  cursor?: "on" | "off";
  /** The picture is made smaller until it fits. */
  max_pixels?: number;
  max_bytes?: number;
}

/** Filter of {@link Computer.elements}. */
export interface ElementFilter extends OnScreen {
  /** Exact role, for example `button`. */
  role?: string;
  /** Text in the name. */
  name?: string;
  /** Text in the title of the window. */
  window?: string;
  max_nodes?: number;
  max_depth?: number;
  timeout_ms?: number;
  include?: "visible" | "all";
}

/** A computer. {@link Hotdesk.createComputer} and {@link Hotdesk.computer} return it. */
export class Computer implements AsyncDisposable {
  /** The service that it belongs to. */
  readonly hotdesk: Hotdesk;
  /** Its files. */
  readonly files: Files;
  /** Recordings of its screens. */
  readonly recordings: Recordings;
  /** Its live stream to an RTMP server. */
  readonly streaming: Streaming;
  /** Who may act on its screens. */
  readonly control: Control;
  /** Models that work on it, and their threads. */
  readonly chat: Chat;
  /** What the service last said about it; {@link refresh} asks again. */
  record: Schemas["Computer"];
  #deletes: boolean;

  /** Describes a computer by its record; `deletes`: whether the end of an `await using` block deletes it. */
  constructor(hotdesk: Hotdesk, record: Schemas["Computer"], deletes: boolean) {
    this.hotdesk = hotdesk;
    this.record = record;
    this.files = new Files(hotdesk.api, record.id);
    this.recordings = new Recordings(hotdesk.api, record.id);
    this.streaming = new Streaming(hotdesk.api, record.id);
    this.control = new Control(hotdesk.api, record.id);
    this.chat = new Chat(hotdesk.api, record.id);
    this.#deletes = deletes;
  }

  /** {@link Hotdesk.createComputer} of a client from the options or the environment. */
  static create(options: NewComputer & { client?: HotdeskOptions } = {}): Promise<Computer> {
    const { client, ...fields } = options;
    return new Hotdesk(client).createComputer(fields);
  }

  /** {@link Hotdesk.computer} of a client from the options or the environment. */
  static connect(idOrName: string, client?: HotdeskOptions): Promise<Computer> {
    return new Hotdesk(client).computer(idOrName);
  }

  /** UUID, which never changes. */
  get id(): string {
    return this.record.id;
  }

  /** Name, unique in its workspace. */
  get name(): string {
    return this.record.name;
  }

  /** Status when the record was read, for example `running`. */
  get status(): string {
    return this.record.status;
  }

  get #path() {
    return { id: this.record.id };
  }

  // Lifecycle.

  /** Reads the record again. */
  async refresh(options: Call = {}): Promise<this> {
    const params = { path: this.#path };
    this.record = await answerOf(this.hotdesk.api.GET("/computers/{id}", { params, ...init(options) }));
    return this;
  }

  /** Boots it, and returns when it runs. */
  async start(options: Call = {}): Promise<this> {
    await answerOf(this.hotdesk.api.POST("/computers/{id}/start", { params: { path: this.#path }, ...init(options) }));
    return this.waitForStatus("running", options);
  }

  /** Shuts it down, and returns when it is stopped. */
  async stop(options: Call = {}): Promise<this> {
    await answerOf(this.hotdesk.api.POST("/computers/{id}/stop", { params: { path: this.#path }, ...init(options) }));
    return this.waitForStatus("stopped", options);
  }

  /** Boots it again, and returns when it runs. */
  async restart(options: Call = {}): Promise<this> {
    await answerOf(
      this.hotdesk.api.POST("/computers/{id}/restart", { params: { path: this.#path }, ...init(options) }),
    );
    return this.waitForStatus("running", options);
  }

  /** Saves its memory and frees the host's, and returns when it is suspended. */
  async suspend(options: Call = {}): Promise<this> {
    await answerOf(
      this.hotdesk.api.POST("/computers/{id}/suspend", { params: { path: this.#path }, ...init(options) }),
    );
    return this.waitForStatus("suspended", options);
  }

  /** Continues it where it was suspended, and returns when it runs. Actions do this by themselves. */
  async resume(options: Call = {}): Promise<this> {
    await answerOf(
      this.hotdesk.api.POST("/computers/{id}/resume", { params: { path: this.#path }, ...init(options) }),
    );
    return this.waitForStatus("running", options);
  }

  /** Starts or resumes it if it does not run, and returns when it is usable. */
  async ensureRunning(options: Call = {}): Promise<this> {
    this.record = await answerOf(
      this.hotdesk.api.POST("/computers/{id}/ensure-running", { params: { path: this.#path }, ...init(options) }),
    );
    return this;
  }

  /** Deletes it with its disk. */
  async delete(options: Call = {}): Promise<void> {
    await answerOf(this.hotdesk.api.DELETE("/computers/{id}", { params: { path: this.#path }, ...init(options) }));
    this.#deletes = false;
  }

  /** Makes a computer with a copy of its disk. An `await using` block deletes the copy. */
  async clone(options: Schemas["CloneComputer"] & Call = {}): Promise<Computer> {
    const { call, fields } = split(options);
    const params = { path: this.#path };
    const made = this.hotdesk.api.POST("/computers/{id}/clone", { params, body: fields, ...call });
    return new Computer(this.hotdesk, await answerOf(made), true);
  }

  /** Makes a computer that continues from its memory and disk. An `await using` block deletes it. */
  async fork(options: Schemas["ForkComputer"] & Call): Promise<Computer> {
    const { call, fields } = split(options);
    const params = { path: this.#path };
    const made = this.hotdesk.api.POST("/computers/{id}/fork", { params, body: fields, ...call });
    return new Computer(this.hotdesk, await answerOf(made), true);
  }

  /** Changes its hardware while it runs. */
  resize(options: Schemas["ResizeComputer"] & Call): Promise<Schemas["Resized"]> {
    const { call, fields } = split(options);
    const params = { path: this.#path };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/resize", { params, body: fields, ...call }));
  }

  /** Saves the disk, and with `memory` what runs. */
  snapshot(options: Schemas["CreateSnapshot"] & Call = {}): Promise<Schemas["Snapshot"]> {
    const { call, fields } = split(options);
    const params = { path: this.#path };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/snapshots", { params, body: fields, ...call }));
  }

  /** Returns the snapshots. */
  async snapshots(options: Call = {}): Promise<Schemas["Snapshot"][]> {
    const found: Schemas["Snapshot"][] = [];
    for (let offset: number | null | undefined = 0; offset !== null && offset !== undefined; ) {
      const params = { path: this.#path, query: { limit: PAGE, offset } };
      const page: Schemas["SnapshotList"] = await answerOf(
        this.hotdesk.api.GET("/computers/{id}/snapshots", { params, ...init(options) }),
      );
      found.push(...page.snapshots);
      offset = page.next_offset;
    }
    return found;
  }

  /** Deletes a snapshot. */
  async deleteSnapshot(snapshot_id: string, options: Call = {}): Promise<void> {
    const params = { path: { ...this.#path, snapshot_id } };
    await answerOf(this.hotdesk.api.DELETE("/computers/{id}/snapshots/{snapshot_id}", { params, ...init(options) }));
  }

  /** Returns it to one of its snapshots. What changed since is lost. */
  rollBack(snapshot_id: string, options: Call = {}): Promise<Schemas["RolledBack"]> {
    const params = { path: this.#path };
    const body = { snapshot_id };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/rollback", { params, body, ...init(options) }));
  }

  /**
   * Makes a template of it, `name@version`, from which others are launched. Its memory is not saved. Remove passwords first:
   * every file is in the template, but `/tmp` and synced secrets.
   */
  async saveTemplate(ref: string, options: Call & { description?: string } = {}): Promise<Schemas["Template"]> {
    const { call, fields } = split(options);
    const params = { path: this.#path };
    const body = { ...fields, ref: wholeOf(ref) };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/template", { params, body, ...call }));
  }

  /** Writes secrets to `/root/.env` for programs: these, or all that the key may use on it. */
  syncSecrets(names?: string[], options: Call = {}): Promise<Schemas["SecretsSynced"]> {
    const params = { path: this.#path };
    return answerOf(
      this.hotdesk.api.POST("/computers/{id}/secrets/sync", { params, body: { names }, ...init(options) }),
    );
  }

  /**
   * Waits for a status. Throws a {@link HotdeskError} when it becomes `error`, and a {@link TimeoutError} after `timeout` seconds
   * (180).
   */
  async waitForStatus(status: string, options: Call & { timeout?: number } = {}): Promise<this> {
    const timeout = options.timeout ?? STATUS_TIMEOUT;
    const end = Date.now() + timeout * 1000;
    while ((await this.refresh({ signal: options.signal })).status !== status) {
      if (this.status === "error") throw new HotdeskError(`The computer "${this.name}" has the status error`);
      if (Date.now() > end) {
        throw new TimeoutError(`The computer "${this.name}" is ${this.status}, not ${status}, after ${timeout} s`);
      }
      await sleep(PAUSE, options.signal);
    }
    return this;
  }

  /** Deletes the computer if this program created it, unless `keep` was true. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#deletes) return;
    try {
      await this.delete();
    } catch (error) {
      // Somebody else deleted it, which is what was wanted.
      if (!(error instanceof NotFoundError)) throw error;
    }
  }

  // Screen.

  /** Returns a picture of a screen. */
  async screenshot(options: ScreenshotOptions = {}): Promise<Screenshot> {
    const { call, query, fields } = splitScreen(options);
    const { region, ...rest } = fields;
    const part = region && `${region.x},${region.y},${region.width},${region.height}`;
    const { data, response } = await responseOf(
      this.hotdesk.api.GET("/computers/{id}/screenshot", {
        params: { path: this.#path, query: { ...query, ...rest, region: part, response_format: "binary" } },
        parseAs: "arrayBuffer",
        ...call,
      }),
    );
    return Screenshot.of(data as ArrayBuffer, response.headers);
  }

  /** Returns buttons, entries and links with their boxes, from the accessibility bus. */
  elements(filter: ElementFilter = {}): Promise<Schemas["ElementList"]> {
    const { call, query, fields } = splitScreen(filter);
    const params = { path: this.#path, query: { ...query, ...fields } };
    return answerOf(this.hotdesk.api.GET("/computers/{id}/elements", { params, ...call }));
  }

  /** Clicks an element of {@link elements}. */
  clickElement(element_id: string, options: Schemas["ElementClick"] & Call = {}): Promise<Schemas["ElementActed"]> {
    const { call, fields } = split(options);
    const params = { path: { ...this.#path, element_id } };
    const path = "/computers/{id}/elements/{element_id}/click";
    return answerOf(this.hotdesk.api.POST(path, { params, body: fields, ...call }));
  }

  /** Sets the text or number of an element of {@link elements}. */
  setElement(element_id: string, value: string | number, options: Call = {}): Promise<Schemas["ElementActed"]> {
    const params = { path: { ...this.#path, element_id } };
    const path = "/computers/{id}/elements/{element_id}/set_value";
    return answerOf(this.hotdesk.api.POST(path, { params, body: { value }, ...init(options) }));
  }

  /** Returns the windows, the topmost first. */
  async windows(options: OnScreen = {}): Promise<Schemas["Window"][]> {
    const { call, query } = splitScreen(options);
    const params = { path: this.#path, query };
    return (await answerOf(this.hotdesk.api.GET("/computers/{id}/windows", { params, ...call }))).windows;
  }

  /** Starts a program or opens a URL, and waits for its first window. `window` is null when none came in time. */
  launch(options: Options<"Launch">): Promise<Schemas["Launched"]> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: this.#path, query };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/launch", { params, body: fields, ...call }));
  }

  /** Waits for a window whose title contains a text. Throws a {@link TimeoutError} after `timeout` seconds (30). */
  async waitForWindow(title: string, options: OnScreen & { timeout?: number } = {}): Promise<Schemas["Window"]> {
    const timeout = options.timeout ?? WINDOW_TIMEOUT;
    const end = Date.now() + timeout * 1000;
    for (;;) {
      const found = (await this.windows(options)).find((window) => window.title.includes(title));
      if (found) return found;
      if (Date.now() > end) throw new TimeoutError(`No window has "${title}" in its title after ${timeout} s`);
      await sleep(PAUSE, options.signal);
    }
  }

  /** Gives the keyboard to a window. */
  focusWindow(window_id: string, options: OnScreen = {}): Promise<Schemas["Window"]> {
    const { call, query } = splitScreen(options);
    const params = { path: { ...this.#path, window_id }, query };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/windows/{window_id}/focus", { params, ...call }));
  }

  /** Closes a window; false when it is still there after 2 s. `force` ends its program's connection to the screen. */
  async closeWindow(window_id: string, options: Options<"CloseWindow"> = {}): Promise<boolean> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: { ...this.#path, window_id }, query };
    const path = "/computers/{id}/windows/{window_id}/close";
    return (await answerOf(this.hotdesk.api.POST(path, { params, body: fields, ...call }))).closed;
  }

  /** Returns the text of the clipboard; null when it holds none. */
  async clipboard(options: OnScreen = {}): Promise<string | null> {
    const { call, query } = splitScreen(options);
    const params = { path: this.#path, query };
    return (await answerOf(this.hotdesk.api.GET("/computers/{id}/clipboard", { params, ...call }))).text ?? null;
  }

  /** Puts text into the clipboard. */
  async setClipboard(text: string, options: OnScreen = {}): Promise<void> {
    const { call, query } = splitScreen(options);
    const params = { path: this.#path, query };
    await answerOf(this.hotdesk.api.PUT("/computers/{id}/clipboard", { params, body: { text }, ...call }));
  }

  /** Makes a link that opens a screen once, for people and for `<hotdesk-screen>`. */
  ticket(options: Schemas["NewTicket"] & Call = { mode: "view" }): Promise<Schemas["Ticket"]> {
    const { call, fields } = split(options);
    const params = { path: this.#path };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/stream-tickets", { params, body: fields, ...call }));
  }

  // Mouse.

  /** Clicks; `count: 2` is a double click. */
  click(x: number, y: number, options: Options<"Click", "x" | "y"> = {}): Promise<Schemas["ActionResult"]> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: this.#path, query };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/click", { params, body: { ...fields, x, y }, ...call }));
  }

  /** Clicks twice. */
  doubleClick(x: number, y: number, options: Options<"Click", "x" | "y"> = {}): Promise<Schemas["ActionResult"]> {
    return this.click(x, y, { ...options, count: 2 });
  }

  /** Moves the pointer. */
  move(x: number, y: number, options: Options<"Move", "x" | "y"> = {}): Promise<Schemas["ActionResult"]> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: this.#path, query };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/move", { params, body: { ...fields, x, y }, ...call }));
  }

  /** Presses a button; where the pointer is without `x` and `y`. */
  mouseDown(options: Options<"PointerButton"> = {}): Promise<Schemas["ActionResult"]> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: this.#path, query };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/mouse_down", { params, body: fields, ...call }));
  }

  /** Releases a button. */
  mouseUp(options: Options<"PointerButton"> = {}): Promise<Schemas["ActionResult"]> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: this.#path, query };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/mouse_up", { params, body: fields, ...call }));
  }

  /** Drags from `start_x`, `start_y` to `end_x`, `end_y`, or along `path`. */
  drag(options: Options<"Drag">): Promise<Schemas["ActionResult"]> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: this.#path, query };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/drag", { params, body: fields, ...call }));
  }

  /** Turns the wheel by `amount` steps (3). */
  scroll(
    direction: Schemas["Scroll"]["direction"],
    options: Options<"Scroll", "direction"> = {},
  ): Promise<Schemas["ActionResult"]> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: this.#path, query };
    const body = { ...fields, direction };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/scroll", { params, body, ...call }));
  }

  /** Returns where the pointer is and what is down. */
  cursorPosition(options: OnScreen = {}): Promise<Schemas["CursorPosition"]> {
    const { call, query } = splitScreen(options);
    const params = { path: this.#path, query };
    return answerOf(this.hotdesk.api.GET("/computers/{id}/cursor_position", { params, ...call }));
  }

  // Keyboard.

  /** Types any Unicode text; `\n` is Enter. */
  type(text: string, options: Options<"Type", "text"> = {}): Promise<Schemas["ActionResult"]> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: this.#path, query };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/type", { params, body: { ...fields, text }, ...call }));
  }

  /** Presses a key or a combination, for example `Enter` or `ctrl+s`; or several, one after another. */
  key(key: string | string[], options: Options<"KeyPress", "key" | "keys"> = {}): Promise<Schemas["ActionResult"]> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: this.#path, query };
    const body = { ...fields, ...(typeof key === "string" ? { key } : { keys: key }) };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/key", { params, body, ...call }));
  }

  /** Presses a key and holds it. */
  keyDown(key: string, options: Options<"KeyPress", "key" | "keys" | "repeat" | "hold_ms"> = {}): Promise<Schemas["ActionResult"]> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: this.#path, query };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/key_down", { params, body: { ...fields, key }, ...call }));
  }

  /** Releases a key. */
  keyUp(key: string, options: Options<"KeyPress", "key" | "keys" | "repeat" | "hold_ms"> = {}): Promise<Schemas["ActionResult"]> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: this.#path, query };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/key_up", { params, body: { ...fields, key }, ...call }));
  }

  // Lists and waits.

  /** Runs actions in one request, with no other client's action in between. Look at `success` of the answer. */
  actions(
    actions: Schemas["Action"][],
    options: Options<"Batch", "actions"> = {},
  ): Promise<Schemas["BatchResult"]> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: this.#path, query };
    const body = { ...fields, actions };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/actions", { params, body, ...call }));
  }

  /** Waits on the computer, 0 to 60 s. */
  wait(seconds: number, options: Call = {}): Promise<Schemas["ActionResult"]> {
    const params = { path: this.#path };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/wait", { params, body: { seconds }, ...init(options) }));
  }

  /** Waits until the screen is quiet. `settle.reached` of the answer is false when `timeout_ms` came first. */
  waitStable(options: Options<"WaitStable"> = {}): Promise<Schemas["ActionResult"]> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: this.#path, query };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/wait_stable", { params, body: fields, ...call }));
  }

  /** Waits until the screen changes. `settle.reached` of the answer is false when `timeout_ms` came first. */
  waitChange(options: Options<"WaitChange"> = {}): Promise<Schemas["ActionResult"]> {
    const { call, query, fields } = splitScreen(options);
    const params = { path: this.#path, query };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/wait_change", { params, body: fields, ...call }));
  }

  // Commands.

  /** Runs a command line of bash. A command that fails is no error: look at `exit_code`. */
  bash(command: string, options: Omit<Schemas["Bash"], "command"> & Call = {}): Promise<Schemas["BashResult"]> {
    const { call, fields } = split(options);
    const params = { path: this.#path };
    const body = { ...fields, command };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/bash", { params, body, ...call }));
  }

  /** Runs Python. With `session`, variables remain between calls. An exception is no error: look at `success`. */
  exec(code: string, options: Omit<Schemas["Exec"], "code"> & Call = {}): Promise<Schemas["ExecResult"]> {
    const { call, fields } = split(options);
    const params = { path: this.#path };
    return answerOf(this.hotdesk.api.POST("/computers/{id}/exec", { params, body: { ...fields, code }, ...call }));
  }

  // Channels. The computer must run: sockets do not wake it.

  /** Returns the event types that the service has. */
  async eventTypes(options: Call = {}): Promise<string[]> {
    const params = { path: this.#path };
    return (await answerOf(this.hotdesk.api.GET("/computers/{id}/events", { params, ...init(options) }))).event_types;
  }

  /** Listens to events of these types. */
  events(types: readonly EventType[]): EventStream {
    return new EventStream(() => this.hotdesk.openSocket(this.id, "events", {}), types);
  }

  /** Opens a terminal. What is started in it ends with it. */
  terminal(options: TerminalOptions = {}): Terminal {
    const query = { cols: options.cols, rows: options.rows, screen: options.screen };
    return new Terminal(() => this.hotdesk.openSocket(this.id, "terminal", query));
  }

  /** Listens to what the computer plays. */
  audio(options: AudioOptions = {}): AudioStream {
    const query = { sample_rate: options.sampleRate, channels: options.channels };
    return new AudioStream(() => this.hotdesk.openSocket(this.id, "audio", query));
  }
}
