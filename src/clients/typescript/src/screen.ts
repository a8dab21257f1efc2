// `<hotdesk-screen>`: a computer's live screen in any page, by noVNC.
//
// disconnected ──src, getTicket, connect()──▶ connecting ──RFB──▶ connected
//      ▲  ▲                                      │                   │
//      │  └─ disconnect(), final close code ─────┴───────────────────┘
//      └──── any other close ──▶ connecting again, if getTicket is set: a ticket opens one connection
//
// The page's origin must be the service's own or one of `web.allowed_origins` (docs/channels.md).

import { keyOf, KEYS, type Key, type KeyName } from "./keys.js";
import type RFB from "./novnc/core/rfb.js";
import { Pace } from "./pace.js";

export { keyOf, KEYS, type Key, type KeyName } from "./keys.js";

/** Pauses between attempts in milliseconds: they double from the first to the last. */
const FIRST_PAUSE = 500;
const LAST_PAUSE = 15_000;
/** A connection that lasted this long (milliseconds) resets the pauses. */
const LONG_ENOUGH = 10_000;
/** Longest clipboard text that a computer accepts, in bytes of UTF-8. */
const MAX_CLIPBOARD = 1024 * 1024;
/** Longest text that is typed at once, in UTF-16 code units: each character is two messages. More belongs on the clipboard. */
const MAX_TYPED = 10_000;
/** noVNC's own quality, which applies without the attribute. */
const DEFAULT_QUALITY = 6;
/** Close codes after which another attempt does not help: no such computer, another workspace, half an hour idle. */
const FINAL = [4004, 4006, 4008];

/** State of the element, also in its attribute `state`. */
export type ScreenState = "disconnected" | "connecting" | "connected";

/** Detail of the event `disconnect`. */
export interface ScreenEnd {
  /** Close code of the socket (docs/channels.md); 1000 after `disconnect()`. */
  code: number;
  /** Short English text of the service. */
  reason: string;
}

// Modules of a server may import this one, although there are no elements.
const Base: typeof HTMLElement = globalThis.HTMLElement ?? (class {} as typeof HTMLElement);

/**
 * A live screen.
 *
 * Attributes: `src`, the `url` or `ws_url` of a stream ticket; `view-only`; `quality`, 0 to 9 (6). Events: `connect`;
 * `disconnect` with {@link ScreenEnd}; `clipboard` with the text of the computer's clipboard; `leave` when Ctrl, Alt and Shift
 * together took the keyboard from the screen, so that the page may focus something else.
 */
export class HotdeskScreen extends Base {
  static observedAttributes = ["src", "view-only", "quality"];

  /**
   * Returns the `url` or `ws_url` of a new ticket, for each connection. With it the element connects again by itself.
   * A page calls its own server here, so that the API key stays there. A page that sets it later calls `connect()`.
   */
  // No field, which would remove what a page set before this module was loaded.
  declare getTicket: (() => Promise<string>) | undefined;

  #target: HTMLElement | undefined;
  #rfb: RFB | undefined;
  #socket: WebSocket | undefined;
  #pace: Pace | undefined;
  #updateInterval = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #pause = FIRST_PAUSE;
  // Number of the newest attempt: an older one must not touch the element any more.
  #attempt = 0;

  connectedCallback(): void {
    if (!this.#target) {
      const root = this.attachShadow({ mode: "open", delegatesFocus: true });
      const style = new CSSStyleSheet();
      style.replaceSync(":host { display: block; min-height: 1px } :host([hidden]) { display: none } div { width: 100%; height: 100% }");
      root.adoptedStyleSheets = [style];
      this.#target = root.appendChild(document.createElement("div"));
      // Before noVNC, which keeps all keys for the computer.
      this.#target.addEventListener("keydown", (event) => this.#leave(event), { capture: true });
    }
    if (this.getTicket || this.getAttribute("src")) this.connect();
  }

  disconnectedCallback(): void {
    this.disconnect();
  }

  attributeChangedCallback(name: string, before: string | null, now: string | null): void {
    if (before === now) return;
    if (name === "src" && this.isConnected && now) this.connect();
    if (this.#rfb) this.#apply(this.#rfb);
  }

  /** Whether the screen is shown. */
  get state(): ScreenState {
    return (this.getAttribute("state") as ScreenState | null) ?? "disconnected";
  }

  /** Whether input stays here: true for watching. */
  get viewOnly(): boolean {
    return this.hasAttribute("view-only");
  }

  set viewOnly(value: boolean) {
    this.toggleAttribute("view-only", value);
  }

  /** Bytes that the present connection has received. */
  get received(): number {
    return this.#pace?.received ?? 0;
  }

  /**
   * Fewest milliseconds between two updates of the picture; 0 for as many as the screen gives. A page that draws the screen by
   * other means, such as the video channel, saves the work with it.
   */
  get updateInterval(): number {
    return this.#updateInterval;
  }

  set updateInterval(value: number) {
    this.#updateInterval = value;
    if (this.#pace) this.#pace.interval = value;
  }

  /** Connects with a ticket of `getTicket`, else with that of `src`. An earlier connection ends. */
  connect(): void {
    this.#drop();
    this.setAttribute("state", "connecting");
    const attempt = ++this.#attempt;
    this.#open(attempt).catch((error: unknown) => {
      // The page's own function or the network failed. The console names the reason; the event does not have it.
      console.warn("hotdesk-screen:", error);
      if (attempt === this.#attempt) this.#ended({ code: 1006, reason: "" }, 0);
    });
  }

  /** Ends the connection. */
  disconnect(): void {
    if (this.state === "disconnected") return;
    this.#attempt += 1;
    this.#drop();
    this.#show({ code: 1000, reason: "" });
  }

  /** Gives the keyboard to the screen. */
  override focus(options?: FocusOptions): void {
    if (this.#rfb) this.#rfb.focus(options);
    else super.focus(options);
  }

  /** Puts text into the computer's clipboard. Throws a RangeError for more than 1 MiB, which the computer refuses. */
  paste(text: string): void {
    if (new TextEncoder().encode(text).length > MAX_CLIPBOARD) throw new RangeError("The text is longer than 1 MiB");
    this.#rfb?.clipboardPasteFrom(text);
  }

  /**
   * Presses and releases keys together, such as `["Control", "Alt", "Delete"]`, which browsers keep for themselves. A key is a
   * name of {@link KEYS}, a {@link Key}, or that of a character by {@link keyOf}.
   */
  sendKeys(keys: ReadonlyArray<KeyName | Key>): void {
    const all = keys.map((key) => (typeof key === "string" ? KEYS[key] : key));
    for (const { keysym, code } of all) this.#rfb?.sendKey(keysym, code, true);
    for (const { keysym, code } of all.reverse()) this.#rfb?.sendKey(keysym, code, false);
  }

  /** Types text. Throws a RangeError for more than 10,000 characters, which belong on the clipboard. */
  type(text: string): void {
    if (text.length > MAX_TYPED) throw new RangeError(`The text is longer than ${MAX_TYPED} characters: paste it`);
    for (const character of text) this.sendKeys([keyOf(character)]);
  }

  async #open(attempt: number): Promise<void> {
    const src = this.getTicket ? await this.getTicket() : this.getAttribute("src");
    // noVNC looks at the browser when it is loaded, so it is loaded only where there is one.
    const { default: Client } = await import("./novnc/core/rfb.js");
    if (attempt !== this.#attempt || !this.#target) return;
    if (!src) throw new TypeError("there is neither `src` nor `getTicket`");
    const socket = new WebSocket(socketOf(src, this.baseURI), "binary");
    this.#socket = socket;
    const pace = new Pace(socket);
    pace.interval = this.#updateInterval;
    this.#pace = pace;
    let began: number | undefined;
    socket.addEventListener("close", (event) => {
      if (attempt !== this.#attempt) return;
      this.#ended(event, began === undefined ? 0 : performance.now() - began);
    });
    const rfb = new Client(this.#target, socket, { shared: true });
    this.#rfb = rfb;
    rfb.background = "transparent";
    rfb.scaleViewport = true;
    this.#apply(rfb);
    rfb.addEventListener("connect", () => {
      if (attempt !== this.#attempt) return;
      began = performance.now();
      this.setAttribute("state", "connected");
      this.dispatchEvent(new CustomEvent("connect"));
    });
    rfb.addEventListener("clipboard", (event) => {
      const { text } = (event as CustomEvent<{ text: string }>).detail;
      this.dispatchEvent(new CustomEvent("clipboard", { detail: text }));
    });
    // hotdesk's server asks for no RFB credentials; another server at this address might.
    rfb.addEventListener("credentialsrequired", () => rfb.sendCredentials({ password: "" }));
  }

  #apply(rfb: RFB): void {
    rfb.viewOnly = this.viewOnly;
    const quality = this.getAttribute("quality");
    rfb.qualityLevel = quality !== null && /^[0-9]$/.test(quality) ? Number(quality) : DEFAULT_QUALITY;
  }

  /** Gives the keyboard back to the page at Ctrl, Alt and Shift together: a person without a pointer could not leave else. */
  #leave(event: KeyboardEvent): void {
    const rfb = this.#rfb;
    if (!rfb || this.viewOnly || !(event.ctrlKey && event.altKey && event.shiftKey)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    // The computer does not see their release any more.
    for (const { keysym, code } of [KEYS.Control, KEYS.Alt, KEYS.Shift]) rfb.sendKey(keysym, code, false);
    rfb.blur();
    this.dispatchEvent(new CustomEvent("leave"));
  }

  /** Ends the present connection without an event. */
  #drop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const [rfb, socket] = [this.#rfb, this.#socket];
    this.#rfb = this.#socket = this.#pace = undefined;
    rfb?.disconnect();
    socket?.close();
  }

  #ended(end: ScreenEnd, lasted: number): void {
    // What else comes of this attempt is ignored.
    const ended = ++this.#attempt;
    this.#drop();
    this.#show({ code: end.code, reason: end.reason });
    // A listener may have connected again, or removed the element.
    if (ended !== this.#attempt || !this.isConnected) return;
    if (!this.getTicket || FINAL.includes(end.code)) return;
    if (lasted > LONG_ENOUGH) this.#pause = FIRST_PAUSE;
    this.setAttribute("state", "connecting");
    // Up to a third more, so that many viewers of one computer do not return together.
    this.#timer = setTimeout(() => this.connect(), this.#pause * (1 + Math.random() / 3));
    this.#pause = Math.min(2 * this.#pause, LAST_PAUSE);
  }

  #show(detail: ScreenEnd): void {
    this.setAttribute("state", "disconnected");
    this.dispatchEvent(new CustomEvent("disconnect", { detail }));
  }
}

/** Returns the address of the socket of a ticket: its `ws_url`, or that of its viewer page with the ticket behind `#`. */
export function socketOf(src: string, base?: string): string {
  const at = new URL(src, base);
  const ticket = new URLSearchParams(at.hash.slice(1)).get("ticket");
  if (ticket !== null) {
    at.pathname = at.pathname.replace(/\/view\/?$/, "/ws/websockify");
    at.search = "";
    at.searchParams.set("ticket", ticket);
    at.hash = "";
  }
  at.protocol = at.protocol.replace("http", "ws");
  return at.href;
}

if (globalThis.customElements && !customElements.get("hotdesk-screen")) {
  customElements.define("hotdesk-screen", HotdeskScreen);
}

declare global {
  interface HTMLElementTagNameMap {
    "hotdesk-screen": HotdeskScreen;
  }
}
