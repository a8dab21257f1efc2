// Pace of a noVNC connection: how often it asks the screen for what changed, and how much comes (RFC 6143, section 7.5.3).
//
// Xvnc sends changes without being asked once noVNC has enabled continuous updates. An interval disables these; noVNC then asks
// after each update, and each question waits here.
//
// noVNC ──enables──▶ continuous ──interval──▶ asking, at an interval ──no interval──▶ continuous, enabled here
//                                                    ▲                                         │
//                                                    └────────────────interval─────────────────┘
//
// noVNC does not enable them a second time, and goes on to ask. While they are enabled here, its questions end here.

/** Message types of the client. */
const REQUEST = 3;
const CONTINUOUS = 150;
/** Bytes of both: the type, whether it is incremental or enabled, and the area. */
const LENGTH = 10;

/** The pace of one socket. It is made before noVNC gets the socket. */
export class Pace {
  /** Bytes that came so far. */
  received = 0;
  readonly #socket: WebSocket;
  readonly #send: (data: Uint8Array<ArrayBuffer>) => void;
  /** The message that enabled continuous updates last, while they are enabled. */
  #enabled: Uint8Array<ArrayBuffer> | undefined;
  /** Whether noVNC asks after each update, since continuous updates were disabled here. */
  #asks = false;
  /** Its newest question. */
  #question: Uint8Array<ArrayBuffer> | undefined;
  #interval = 0;
  #waiting: Uint8Array<ArrayBuffer> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    const send = socket.send.bind(socket);
    this.#send = send;
    socket.send = (data) => {
      const message = data instanceof Uint8Array && data.length === LENGTH ? new Uint8Array(data) : undefined;
      if (message?.[0] === REQUEST && message[1] === 1) {
        this.#question = message;
        if (this.#interval > 0) return this.#later(message);
        // The screen may have another size since.
        if (this.#asks && this.#enabled) return this.#enable();
      }
      send(data);
      if (message?.[0] !== CONTINUOUS || message[1] !== 1) return;
      this.#enabled = message;
      if (this.#interval > 0) this.#disable();
    };
    socket.addEventListener("message", (event: MessageEvent) => {
      if (event.data instanceof ArrayBuffer) this.received += event.data.byteLength;
    });
    socket.addEventListener("close", () => clearTimeout(this.#timer));
  }

  /** Fewest milliseconds between two requests; 0 for continuous updates. */
  set interval(interval: number) {
    this.#interval = interval;
    if (interval > 0) {
      this.#disable();
    } else {
      this.#ask();
      if (this.#asks && !this.#enabled) this.#enable();
    }
  }

  /** Enables continuous updates of the area of the newest question, unless they are enabled for it. */
  #enable(): void {
    const question = this.#question;
    if (!question || this.#socket.readyState !== WebSocket.OPEN) return;
    const message = question.slice();
    message[0] = CONTINUOUS;
    if (this.#enabled?.every((byte, at) => byte === message[at])) return;
    this.#enabled = message;
    this.#send(message.slice());
  }

  /** Ends continuous updates, and begins to ask. */
  #disable(): void {
    const enabled = this.#enabled;
    if (!enabled || this.#socket.readyState !== WebSocket.OPEN) return;
    this.#enabled = undefined;
    this.#asks = true;
    const message = enabled.slice();
    message[1] = 0;
    this.#send(message);
    // noVNC asks after an update alone, and the last one may have come already.
    const request = enabled.slice();
    request[0] = REQUEST;
    this.#question = request;
    this.#later(request);
  }

  #later(request: Uint8Array<ArrayBuffer>): void {
    this.#waiting = request;
    this.#timer ??= setTimeout(() => this.#ask(), this.#interval);
  }

  #ask(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const request = this.#waiting;
    this.#waiting = undefined;
    if (request && this.#socket.readyState === WebSocket.OPEN) this.#send(request);
  }
}
