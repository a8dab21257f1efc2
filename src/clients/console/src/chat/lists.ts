// Threads of one computer or of all, kept up to date.

import { batch, createEffect, createSignal, on, onCleanup, untrack, type Accessor } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import { createPaced } from "../api/fetched";
import { onLive } from "../api/live";
import { answerOf, api, type Schemas } from "../api/service";
import { pageVisible } from "../ui/visible";

/** A thread of the list. */
export type Listed = Schemas["ThreadSummary"];
/** Threads that are listed: all when it is undefined. */
export type Status = "active" | "archived" | undefined;

/** Threads at first, and how many more each time. */
const ROWS = 50;
/** Most threads of an answer of the API. */
const PAGE = 100;
/** Most threads on the page; older ones are found by their computer. */
const MOST = 500;
/** Shortest time in milliseconds between two rounds that changes ask for. */
const PAUSE = 2000;

/** What {@link createLists} gives. */
export interface Lists {
  /** The threads, the last changed first. */
  threads: Accessor<readonly Listed[]>;
  isLoaded: Accessor<boolean>;
  /** Why the last attempt failed; undefined after a success. */
  failure: Accessor<unknown>;
  /** Whether there are older threads that `more` shows. */
  hasMore: Accessor<boolean>;
  /** Whether there are older threads that this page does not show. */
  hasLeft: Accessor<boolean>;
  more: () => void;
  refresh: () => void;
}

/** Address of the page of threads, or of one thread, that keeps what is listed. */
export function threadsAddress(computer: string | undefined, status: Status, thread?: string): string {
  const query = new URLSearchParams();
  if (computer !== undefined) query.set("computer", computer);
  if (status !== undefined) query.set("status", status);
  return `/console/threads${thread === undefined ? "" : `/${thread}`}${query.size > 0 ? `?${query}` : ""}`;
}

/** Lists the threads of a computer, and of all when it is undefined. */
export function createLists(computer: Accessor<string | undefined>, status: Accessor<Status>): Lists {
  const [list, setList] = createStore<{ all: Listed[] }>({ all: [] });
  const [wanted, setWanted] = createSignal(ROWS);
  const [isLoaded, setLoaded] = createSignal(false);
  const [isLast, setLast] = createSignal(true);
  const [failure, setFailure] = createSignal<unknown>();
  let current: AbortController | undefined;

  const load = async () => {
    current?.abort();
    const { signal } = (current = new AbortController());
    const most = untrack(wanted);
    const filter = { computer_id: untrack(computer), status: untrack(status) };
    // A thread that changes between two pages may be on both.
    const found = new Map<string, Listed>();
    let cursor: string | undefined;
    try {
      do {
        const query = { ...defined(filter), ...(cursor && { cursor }), limit: Math.min(most - found.size, PAGE) };
        const page = await answerOf(api.GET("/threads", { params: { query }, signal }));
        for (const thread of page.threads) found.set(thread.id, thread);
        cursor = page.next_cursor ?? undefined;
      } while (cursor !== undefined && found.size < most);
      if (signal.aborted) return;
      batch(() => {
        setList("all", reconcile([...found.values()], { key: "id" }));
        setLast(cursor === undefined);
        setLoaded(true);
        setFailure(undefined);
      });
    } catch (error) {
      if (!signal.aborted) setFailure(() => error);
    }
  };
  const loadSoon = createPaced(load, PAUSE, pageVisible);

  createEffect(on([computer, status], () => {
    setWanted(ROWS);
    setLoaded(false);
    setList("all", []);
    setLast(true);
    void load();
  }));
  onLive((message) => {
    const only = untrack(computer);
    if (message.type === "thread" && (only === undefined || only === message.computer_id)) loadSoon();
  });
  onCleanup(() => current?.abort());
  return {
    threads: () => list.all,
    isLoaded,
    failure,
    hasMore: () => !isLast() && wanted() < MOST,
    hasLeft: () => !isLast() && wanted() >= MOST,
    more: () => {
      setWanted((count) => Math.min(count + ROWS, MOST));
      void load();
    },
    refresh: () => void load(),
  };
}

/** Returns the fields that have a value. */
function defined<T extends object>(fields: T): { [Key in keyof T]?: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as ReturnType<typeof defined<T>>;
}
