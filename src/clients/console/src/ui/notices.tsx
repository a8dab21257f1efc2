// Notices: what was done, and what failed.

import { createSignal, For, Show } from "solid-js";
import X from "lucide-solid/icons/x";
import { Button, IconButton } from "./button";

interface Notice {
  text: string;
  tone?: "good" | "bad";
  /** Something that the person can do about it, such as undo. */
  action?: { label: string; run: () => void };
}

/** Milliseconds for which a notice is shown; failures, and what can be undone, stay until they are closed. */
const SHOWN = 6000;
/** Most notices at once: more would cover the page. */
const MOST = 5;

const [notices, setNotices] = createSignal<(Notice & { key: number })[]>([]);
let next = 0;

/** Shows a notice. */
export function notify(notice: Notice): void {
  const key = next++;
  setNotices((all) => [...all, { ...notice, key }].slice(-MOST));
  if (notice.tone !== "bad" && !notice.action) setTimeout(() => close(key), SHOWN);
}

function close(key: number): void {
  setNotices((all) => all.filter((notice) => notice.key !== key));
}

/** Does something; a failure becomes a notice that begins with `what`. Returns the result, undefined after a failure. */
export async function attempt<T>(what: string, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    notify({ text: `${what}: ${error instanceof Error ? error.message : String(error)}`, tone: "bad" });
    return undefined;
  }
}

/** Shows the notices. The shell has one. */
export function Notices() {
  return (
    <div class="notices" role="status" aria-live="polite">
      <For each={notices()}>
        {(notice) => (
          <div class="notice" data-tone={notice.tone ?? "plain"}>
            <p>{notice.text}</p>
            <Show when={notice.action}>
              {(action) => <Button look="quiet" onClick={() => { action().run(); close(notice.key); }}>{action().label}</Button>}
            </Show>
            <IconButton look="quiet" label="Close" onClick={() => close(notice.key)}><X size={16} /></IconButton>
          </div>
        )}
      </For>
    </div>
  );
}
