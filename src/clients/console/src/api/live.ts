// What changes, as it happens: one socket keeps the records of all computers up to date.
//
// Protocol (docs/console.md): the service first sends every computer and then `ready`; afterwards only what changed. The page
// says which computers are in view, and hears when their screens change, at most once a second each; with the picture, where it
// shows pictures.

import { batch, createSignal, onCleanup } from "solid-js";
import { createStore, produce, reconcile } from "solid-js/store";
import type { Computer, Schemas } from "./service";
import { leaveForSignIn } from "./session";

/** Message of the service. */
export type LiveMessage =
  | { type: "computer"; computer: Computer }
  | { type: "gone"; id: string }
  | { type: "ready" }
  | { type: "screen"; id: string; screen: string }
  | { type: "no_picture"; id: string; error: string }
  | { type: "control"; id: string; screen: string; control: Schemas["ScreenControl"] }
  | { type: "thread"; id: string; computer_id: string; status: string };

/** Close code of a socket whose sign-in has ended. */
const SIGNED_OUT = 4401;
/** Pauses between attempts to connect, in milliseconds: they double from the first to the last. */
const FIRST_PAUSE = 500;
const LAST_PAUSE = 15_000;
/** Milliseconds within which changed records are shown together: the first list has hundreds, and nobody sees the delay. */
const TOGETHER = 50;
/** Bytes before the picture in a binary message: the id of its computer. */
const ID = 36;
/** Id of the boot screen, the only one of which there are pictures. */
const BOOT = "default";
/**
 * Milliseconds for which the picture of a screen that has left the view is kept. The service may not notice that it left when it
 * comes back at once, and then sends none.
 */
const LEAVING = 2000;

const [computers, setComputers] = createStore<Record<string, Computer>>({});
const [controls, setControls] = createStore<Record<string, Schemas["ScreenControl"]>>({});
const [connection, setConnection] = createSignal<"connecting" | "live" | "lost">("connecting");
const listeners = new Set<(message: LiveMessage) => void>();
const inView = new Map<string, number>();
/** Screens whose pictures are shown, by computer. */
const shown = new Map<string, Set<ShownScreen>>();
/** Newest pictures of the screens in `shown` and `leaving`, by computer. */
const pictures = new Map<string, Uint8Array<ArrayBuffer>>();
/** Timers of screens that have left the view, by computer. */
const leaving = new Map<string, ReturnType<typeof setTimeout>>();
const decoder = new TextDecoder();

let socket: WebSocket | undefined;
let pause = FIRST_PAUSE;

/** Records of all computers by id. Read it in an effect or in JSX. */
export { computers };
/** Who controls a screen, by `<computer id>/<screen id>`, as far as the service has said. */
export { controls };
/** Whether the records are current. */
export { connection };

/** Hears every message until the owner (component or effect) is disposed. */
export function onLive(listener: (message: LiveMessage) => void): void {
  listeners.add(listener);
  onCleanup(() => listeners.delete(listener));
}

/** Says that a computer is in view until the owner is disposed: its `screen` messages arrive meanwhile. */
export function watchScreen(id: string): void {
  inView.set(id, (inView.get(id) ?? 0) + 1);
  announce();
  onCleanup(() => {
    const left = (inView.get(id) ?? 1) - 1;
    if (left > 0) inView.set(id, left);
    else inView.delete(id);
    announce();
  });
}

/** A screen whose picture is shown. */
export interface ShownScreen {
  /** Id of its computer. */
  id: string;
  /** Pixels of the place of the picture. */
  pixels: number;
  /** Takes the present picture and each later one, a JPEG. */
  take: (picture: Uint8Array<ArrayBuffer>) => void;
  /** Takes why there is no picture. */
  fail: (error: string) => void;
}

/** Shows the pictures of a screen in view until the owner is disposed. */
export function watchPictures(screen: ShownScreen): void {
  const { id } = screen;
  const screens = shown.get(id) ?? new Set();
  shown.set(id, screens.add(screen));
  stay(id);
  const present = pictures.get(id);
  if (present) screen.take(present);
  onCleanup(() => {
    screens.delete(screen);
    if (screens.size > 0) return;
    shown.delete(id);
    const timer = setTimeout(() => {
      leaving.delete(id);
      pictures.delete(id);
    }, LEAVING);
    leaving.set(id, timer);
  });
  watchScreen(id);
}

/** Returns how many screens show their pictures. */
export function shownScreens(): number {
  return shown.size;
}

/** Keeps the picture of a screen that has come back. */
function stay(id: string): void {
  clearTimeout(leaving.get(id));
  leaving.delete(id);
}

let announcing = false;

/** Sends the computers in view, once for all changes of one moment. All pictures have the pixels of the largest place. */
function announce(): void {
  if (announcing) return;
  announcing = true;
  queueMicrotask(() => {
    announcing = false;
    if (socket?.readyState !== WebSocket.OPEN) return;
    const pixels = Math.max(...[...shown.values()].flatMap((screens) => [...screens].map((screen) => screen.pixels)));
    socket.send(JSON.stringify({ type: "watch", ids: [...inView.keys()], ...(shown.size > 0 && { pixels }) }));
  });
}

/**
 * Reads a binary message: a picture, which says as well that the screen changed. Programs often paint what a small picture does
 * not show; the same picture is not shown again.
 */
function read(data: ArrayBuffer): LiveMessage {
  const id = decoder.decode(new Uint8Array(data, 0, ID));
  const picture = new Uint8Array(data, ID);
  const screens = shown.get(id);
  const present = pictures.get(id);
  if (screens || leaving.has(id)) pictures.set(id, picture);
  if (!present || !isSame(present, picture)) for (const screen of screens ?? []) screen.take(picture);
  return { type: "screen", id, screen: BOOT };
}

function isSame(one: Uint8Array, other: Uint8Array): boolean {
  if (one.length !== other.length) return false;
  for (let at = 0; at < one.length; at += 1) if (one[at] !== other[at]) return false;
  return true;
}

/** Connects, and again whenever the connection is lost. */
export function connectLive(): void {
  const address = new URL("/console/live", location.href);
  address.protocol = address.protocol.replace("http", "ws");
  const current = new WebSocket(address);
  socket = current;
  /** Computers that the service has listed on this connection; the others are gone. */
  const listed = new Set<string>();
  /** Records that are shown together: each change of the store makes the page sort and compare all of them. */
  let waiting = new Map<string, Computer>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const flush = () => {
    clearTimeout(timer);
    timer = undefined;
    if (waiting.size === 0) return;
    const records = waiting;
    waiting = new Map();
    batch(() => {
      for (const [id, record] of records) setComputers(id, reconcile(record));
    });
  };
  current.binaryType = "arraybuffer";
  current.addEventListener("open", announce);
  current.addEventListener("message", (event) => {
    const { data } = event as MessageEvent<string | ArrayBuffer>;
    const message = typeof data === "string" ? (JSON.parse(data) as LiveMessage) : read(data);
    // A picture says nothing of a record: with many screens in view there would be no records to show together.
    if (message.type !== "computer" && message.type !== "screen") flush();
    switch (message.type) {
      case "computer":
        listed.add(message.computer.id);
        // What it shows when it runs again is something else.
        if (message.computer.status !== "running") pictures.delete(message.computer.id);
        waiting.set(message.computer.id, message.computer);
        timer ??= setTimeout(flush, TOGETHER);
        break;
      case "gone":
        listed.delete(message.id);
        pictures.delete(message.id);
        remove((id) => id === message.id);
        setControls(produce((all) => {
          for (const key of Object.keys(all)) if (key.startsWith(`${message.id}/`)) delete all[key];
        }));
        break;
      case "ready":
        pause = FIRST_PAUSE;
        remove((id) => !listed.has(id));
        // What ended while there was no connection is not told. What goes on follows.
        setControls(reconcile({}));
        setConnection("live");
        break;
      case "control":
        setControls(`${message.id}/${message.screen}`, reconcile(message.control));
        break;
      case "no_picture":
        // The next one is shown, also if it is the same.
        pictures.delete(message.id);
        for (const screen of shown.get(message.id) ?? []) screen.fail(message.error);
        break;
      case "screen":
      case "thread":
        break;
    }
    for (const listener of listeners) listener(message);
  });
  current.addEventListener("close", (event) => {
    setConnection("lost");
    if (event.code === SIGNED_OUT) return leaveForSignIn();
    setTimeout(connectLive, pause * (1 + Math.random() / 3));
    pause = Math.min(pause * 2, LAST_PAUSE);
  });
}

function remove(isGone: (id: string) => boolean): void {
  setComputers(produce((all) => {
    for (const id of Object.keys(all)) if (isGone(id)) delete all[id];
  }));
}
