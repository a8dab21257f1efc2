// Latest picture of a computer's boot screen, which the socket of the live records sends.
//
// Pictures of one moment are shown together: each change of a page makes the browser lay out, paint and compose it anew, so that
// one by one they cost twice as much. The more screens are shown, the longer is this moment. They are `data:` addresses, because
// each `blob:` address costs messages between the processes of the browser: twice as much again.

import { batch, createEffect, createSignal, onCleanup, untrack, type Accessor } from "solid-js";
import { pageVisible } from "../ui/visible";
import { computers, shownScreens, watchPictures } from "./live";

/** Milliseconds within which pictures are shown together, for each screen, and at most: half of the time between two of a screen. */
const TOGETHER_EACH = 20;
const MOST_TOGETHER = 500;
/** Bytes that are made a text at once: arguments of a function are bounded. */
const PIECE = 8192;

/** Pictures that wait to be shown, by what shows them. */
const waiting = new Map<(url: string) => void, Uint8Array<ArrayBuffer>>();
let timer: ReturnType<typeof setTimeout> | undefined;

function showAll(): void {
  timer = undefined;
  batch(() => {
    for (const [show, picture] of waiting) show(addressOf(picture));
  });
  waiting.clear();
}

/** Returns the address of a picture, which contains it. */
function addressOf(picture: Uint8Array<ArrayBuffer>): string {
  return `data:image/jpeg;base64,${base64(picture)}`;
}

/** Bytes as browsers since 2025 know them (ECMAScript 2026). */
interface Base64Bytes {
  toBase64?: () => string;
}

function base64(bytes: Uint8Array<ArrayBuffer> & Base64Bytes): string {
  if (bytes.toBase64) return bytes.toBase64();
  let text = "";
  // Not by `...`, which walks over the bytes one by one.
  for (let at = 0; at < bytes.length; at += PIECE) {
    text += Reflect.apply(String.fromCharCode, null, bytes.subarray(at, at + PIECE));
  }
  return btoa(text);
}

/** A picture that follows its screen. */
export interface LivePicture {
  /** Address of the picture; undefined before the first one, and while the computer does not run. */
  url: Accessor<string | undefined>;
  /** Why there is none; undefined after a success. */
  failure: Accessor<string | undefined>;
}

/**
 * Follows a screen until the owner ends, while the computer runs, the page is visible, and `inView` says so. A picture has about
 * `pixels` pixels; another number asks for another picture.
 */
export function createLivePicture(id: string, pixels: Accessor<number>, inView: Accessor<boolean> = () => true): LivePicture {
  const [url, setUrl] = createSignal<string>();
  const [failure, setFailure] = createSignal<string>();
  const isRunning = () => computers[id]?.status === "running";
  const isSeen = () => isRunning() && pageVisible() && inView();
  const show = (next: string) => {
    // It may have waited while the computer stopped.
    if (!untrack(isRunning)) return;
    setUrl(next);
    setFailure(undefined);
  };
  createEffect(() => {
    if (isRunning()) return;
    setUrl(undefined);
    setFailure(undefined);
  });
  // The service looks at no screen that nobody sees. When it is watched again, its picture comes.
  createEffect(() => {
    if (!isSeen()) return;
    watchPictures({
      id,
      pixels: pixels(),
      take: (picture) => {
        waiting.set(show, picture);
        timer ??= setTimeout(showAll, Math.min(TOGETHER_EACH * shownScreens(), MOST_TOGETHER));
      },
      fail: setFailure,
    });
  });
  onCleanup(() => waiting.delete(show));
  return { url, failure };
}
