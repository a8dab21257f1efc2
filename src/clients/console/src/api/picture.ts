// Latest picture of a computer's boot screen, fetched when the screen has changed.

import { createEffect, createSignal, onCleanup, type Accessor } from "solid-js";
import { pageVisible } from "../ui/visible";
import { createPaced, limited } from "./fetched";
import { computers, onLive, watchScreen } from "./live";
import { fetchBlob } from "./service";

/** Shortest time in milliseconds between two pictures of a computer. */
const PAUSE = 1000;
/** Pictures that are fetched at the same time on the whole page. */
const MOST = 4;

const inTurn = limited(MOST);

/** A picture that follows its screen. */
export interface LivePicture {
  /** Object URL of the picture; undefined before the first one, and while the computer does not run. */
  url: Accessor<string | undefined>;
  /** Why the last attempt failed; undefined after a success. The picture before it stays. */
  failure: Accessor<string | undefined>;
}

/**
 * Follows a screen until the owner ends, while the computer runs, the page is visible, and `inView` says so. A picture has about
 * `pixels` pixels, and JPEG's `quality` of 1 to 100.
 */
export function createLivePicture(id: string, pixels: number, quality: number, inView: Accessor<boolean> = () => true): LivePicture {
  const [url, setUrl] = createSignal<string>();
  const [failure, setFailure] = createSignal<string>();
  // A picture of a computer that sleeps would wake it.
  const isRunning = () => computers[id]?.status === "running";
  const isSeen = () => isRunning() && pageVisible() && inView();
  const show = (next: string | undefined) => {
    const before = url();
    setUrl(next);
    if (before !== undefined) URL.revokeObjectURL(before);
  };
  const leaving = new AbortController();
  const path = `/computers/${id}/screenshot?response_format=binary&format=jpeg&quality=${quality}&max_pixels=${pixels}`;
  const fetchNow = createPaced(() => inTurn(async () => {
    // Its turn may come after it has left the view.
    if (leaving.signal.aborted || !isRunning()) return;
    try {
      const blob = await fetchBlob(path, leaving.signal);
      if (leaving.signal.aborted || !isRunning()) return;
      show(URL.createObjectURL(blob));
      setFailure(undefined);
    } catch (error) {
      if (!leaving.signal.aborted) setFailure(error instanceof Error ? error.message : String(error));
    }
  }), PAUSE, isSeen);
  createEffect(() => {
    if (isRunning()) fetchNow();
    else show(undefined);
  });
  // The service looks at no screen that nobody sees. When it is watched again, one message comes.
  createEffect(() => {
    if (isSeen()) watchScreen(id);
  });
  onLive((message) => {
    if (message.type === "screen" && message.id === id) fetchNow();
  });
  onCleanup(() => {
    leaving.abort();
    show(undefined);
  });
  return { url, failure };
}
