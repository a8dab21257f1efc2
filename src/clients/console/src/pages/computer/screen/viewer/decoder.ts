// Video of a screen: H.264 of the video channel (docs/channels.md), decoded by WebCodecs and painted on a canvas.

import { socketOf } from "@hotdesk/client/screen";

/** Codec by which a browser is asked: that of the computer's encoder, for 720p. */
const ASKED = "avc1.42C01F";
/** Bytes before the access unit: flags, and microseconds. */
const HEADER = 9;
/** Flag of a key frame. */
const KEY = 1;
/** Milliseconds between two reports of what came, by which the computer lowers and raises the rate (docs/channels.md). */
const REPORT = 100;
/** Frames that wait for the decoder, beyond which all are left out until the next key frame: a slow device sees the newest. */
const MOST_WAITING = 8;

/** What the owner of a video hears of it. */
export interface VideoListener {
  /** The first frame is on the canvas. */
  onShown: () => void;
  /** It ended by itself: the close code of the socket, or 0 when the browser cannot decode it. Nothing follows. */
  onEnd: (code: number) => void;
}

/** Whether this browser decodes the video. On pages without TLS it does not, except those of this machine. */
export async function canDecode(): Promise<boolean> {
  if (!("VideoDecoder" in globalThis)) return false;
  try {
    return (await VideoDecoder.isConfigSupported({ codec: ASKED, optimizeForLatency: true })).supported === true;
  } catch {
    return false;
  }
}

/** A video that plays on a canvas until it ends or is closed. */
export class Video {
  /** Bytes of the changes so far; key frames, which have the whole picture, are not counted. */
  changed = 0;
  readonly #canvas: HTMLCanvasElement;
  readonly #pen: CanvasRenderingContext2D;
  readonly #listener: VideoListener;
  readonly #socket: WebSocket;
  readonly #decoder: VideoDecoder;
  /** Whether the decoder needs a key frame. */
  #waits = true;
  #isShown = false;
  #isOver = false;
  /** Time of the newest frame that came, in microseconds. */
  #newest = 0;
  #report: ReturnType<typeof setTimeout> | undefined;

  /** Opens the channel with the `ws_url` of a ticket for the screen. */
  constructor(canvas: HTMLCanvasElement, ticket: string, listener: VideoListener) {
    const pen = canvas.getContext("2d", { alpha: false });
    if (!pen) throw new Error("this browser gives no canvas");
    this.#canvas = canvas;
    this.#pen = pen;
    this.#listener = listener;
    this.#decoder = new VideoDecoder({ output: (frame) => this.#paint(frame), error: () => this.#end(0) });
    this.#socket = new WebSocket(socketOf(ticket, location.href).replace("/ws/websockify", "/ws/video"));
    this.#socket.binaryType = "arraybuffer";
    this.#socket.addEventListener("message", (event: MessageEvent<string | ArrayBuffer>) => this.#take(event.data));
    this.#socket.addEventListener("close", (event) => this.#end(event.code));
  }

  /** Ends it, without a call of the listener. */
  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#report);
    if (this.#decoder.state !== "closed") this.#decoder.close();
    this.#socket.close();
  }

  #end(code: number): void {
    if (this.#isOver) return;
    this.close();
    this.#listener.onEnd(code);
  }

  #take(data: string | ArrayBuffer): void {
    if (this.#isOver) return;
    try {
      if (typeof data === "string") this.#begin(data);
      else this.#decode(data);
    } catch (error) {
      // The console names the reason; the person sees VNC again.
      console.warn("video:", error);
      this.#end(0);
    }
  }

  #begin(text: string): void {
    const started = JSON.parse(text) as { type: string; width: number; height: number; codec: string };
    if (started.type !== "started") return;
    this.#decoder.configure({ codec: started.codec, optimizeForLatency: true });
    this.#waits = true;
    if (this.#canvas.width === started.width && this.#canvas.height === started.height) return;
    // It clears the canvas; the first frame of the new size follows at once.
    this.#canvas.width = started.width;
    this.#canvas.height = started.height;
  }

  #decode(data: ArrayBuffer): void {
    const view = new DataView(data);
    const isKey = (view.getUint8(0) & KEY) !== 0;
    this.#newest = Number(view.getBigUint64(1));
    this.#report ??= setTimeout(() => this.#tell(), REPORT);
    if (!isKey) this.changed += data.byteLength;
    if (this.#decoder.decodeQueueSize > MOST_WAITING) this.#waits = true;
    if (this.#waits && !isKey) return;
    this.#waits = false;
    this.#decoder.decode(new EncodedVideoChunk({
      type: isKey ? "key" : "delta",
      timestamp: this.#newest,
      data: new Uint8Array(data, HEADER),
    }));
  }

  /** Reports what came, also of frames that are left out: only the network counts. */
  #tell(): void {
    this.#report = undefined;
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    this.#socket.send(JSON.stringify({ type: "received", micros: this.#newest }));
  }

  #paint(frame: VideoFrame): void {
    // A frame of odd sides has one column or row more, which falls off the canvas.
    if (!this.#isOver) this.#pen.drawImage(frame, 0, 0);
    frame.close();
    if (this.#isShown || this.#isOver) return;
    this.#isShown = true;
    this.#listener.onShown();
  }
}
