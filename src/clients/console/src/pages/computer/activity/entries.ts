// Entries of a computer's timeline: the newest by themselves, older ones by pages.

import { createSignal, type Accessor } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import { createPaced, every } from "../../../api/fetched";
import { onLive, watchScreen } from "../../../api/live";
import { answerOf, api } from "../../../api/service";
import { pageVisible } from "../../../ui/visible";
import type { Entry } from "./words";

/** Entries of one page. */
const PAGE = 50;
/** Most entries kept: as many as a computer's timeline has by default. */
const MOST = 2000;
/** Shortest time in milliseconds between two requests for the newest entries. */
const PAUSE = 2000;
/** Milliseconds between requests while no screen changes: actions without a visible effect are found by these. */
const SLOW_PAUSE = 15_000;
/** Milliseconds in which the picture after an action may still come. */
const FRESH = 10_000;

/** What {@link createEntries} gives. */
export interface Entries {
  /** The entries, newest first. */
  entries: readonly Entry[];
  /** Whether the first page is there. */
  isLoaded: Accessor<boolean>;
  /** Why the newest entries could not be fetched; undefined after a success. */
  failure: Accessor<unknown>;
  /** Whether there are older ones. */
  hasOlder: Accessor<boolean>;
  /** Fetches the next page of older ones. Throws when that fails. */
  older: () => Promise<void>;
  /** Asks for the newest ones. */
  refresh: () => void;
}

/** Whether an entry came before another one: ids are numbers, some of which no number of JavaScript can hold. */
export function isOlder(id: string, than: string): boolean {
  return id.length === than.length ? id < than : id.length < than.length;
}

/** Returns the kept entries with a newest page, which replaces what it covers; and whether entries in between are missing. */
export function merged(kept: readonly Entry[], newest: readonly Entry[], isLast: boolean): { all: Entry[]; hasGap: boolean } {
  const oldest = newest.at(-1);
  const first = kept[0];
  if (!oldest || !first || isLast) return { all: [...newest], hasGap: true };
  if (isOlder(first.id, oldest.id)) return { all: [...newest], hasGap: true };
  const rest = kept.filter((entry) => isOlder(entry.id, oldest.id));
  return { all: [...newest, ...rest].slice(0, MOST), hasGap: false };
}

/** Follows the timeline of a computer, of one actor or kind of actors if `by` says so. */
export function createEntries(id: string, by: string | undefined): Entries {
  const [entries, setEntries] = createStore<Entry[]>([]);
  const [cursor, setCursor] = createSignal<string | null>();
  const [failure, setFailure] = createSignal<unknown>();
  const [isLoaded, setLoaded] = createSignal(false);

  const page = (from?: string) => answerOf(api.GET("/computers/{id}/timeline", {
    params: { path: { id }, query: { limit: PAGE, by, cursor: from } },
  }));
  const show = (all: Entry[]) => setEntries(reconcile(all, { key: "id" }));

  const refresh: () => void = createPaced(async () => {
    try {
      const newest = await page();
      const { all, hasGap } = merged(entries, newest.entries, !newest.next_cursor);
      show(all);
      if (hasGap) setCursor(newest.next_cursor ?? null);
      setFailure(undefined);
      setLoaded(true);
      if (all[0] && !all[0].after && Math.abs(Date.now() - Date.parse(all[0].at)) < FRESH) refresh();
    } catch (error) {
      setFailure(() => error);
    }
  }, PAUSE, pageVisible);

  const older = async () => {
    const from = cursor();
    if (!from) return;
    const next = await page(from);
    // Meanwhile a gap may have replaced everything.
    if (cursor() !== from) return;
    show([...entries, ...next.entries]);
    setCursor(entries.length < MOST ? (next.next_cursor ?? null) : null);
  };

  watchScreen(id);
  onLive((message) => {
    if (message.type === "screen" && message.id === id) refresh();
  });
  every(SLOW_PAUSE, pageVisible, refresh);
  refresh();
  return { entries, isLoaded, failure, hasOlder: () => typeof cursor() === "string", older, refresh };
}
