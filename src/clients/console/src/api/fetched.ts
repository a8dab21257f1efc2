// Answers of the service that stay while they are fetched again, and requests at a bounded rate.

import { createEffect, createMemo, createSignal, on, onCleanup, untrack, type Accessor } from "solid-js";

/** What was fetched last. */
export interface Fetched<T> {
  /** The answer; undefined before the first one and without a source. */
  value: Accessor<T | undefined>;
  /** Why the last attempt failed; undefined after a success. */
  failure: Accessor<unknown>;
  /** Fetches again. It never rejects. */
  refetch: () => Promise<void>;
}

/**
 * Fetches for a source, and again when the source changes. In contrast to a resource, it never suspends the page, and the old
 * answer stays until the new one is there. Nothing is fetched while the source is undefined.
 */
export function createFetched<S, T>(
  source: Accessor<S | undefined>,
  load: (source: S, signal: AbortSignal) => Promise<T>,
): Fetched<T> {
  const from = createMemo(source);
  const [value, setValue] = createSignal<T>();
  const [failure, setFailure] = createSignal<unknown>();
  let current: AbortController | undefined;
  const refetch = async () => {
    const at = untrack(from);
    current?.abort();
    if (at === undefined) return;
    const mine = (current = new AbortController());
    try {
      const loaded = await load(at, mine.signal);
      if (mine.signal.aborted) return;
      setValue(() => loaded);
      setFailure(undefined);
    } catch (error) {
      if (!mine.signal.aborted) setFailure(() => error);
    }
  };
  createEffect(on(from, () => {
    setValue(undefined);
    setFailure(undefined);
    void refetch();
  }));
  onCleanup(() => current?.abort());
  return { value, failure, refetch };
}

/**
 * Returns a function that asks for `work`. It runs at once, or `pause` milliseconds after it began last, never twice at the same
 * time, and only while `active`; what was asked for meanwhile is done once afterwards. `work` must not reject.
 */
export function createPaced(work: () => Promise<void>, pause: number, active: Accessor<boolean>): () => void {
  let isWanted = false;
  let isRunning = false;
  let isDisposed = false;
  let began = -Infinity;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const run = () => {
    if (!isWanted || isRunning || isDisposed || timer !== undefined || !untrack(active)) return;
    const wait = began + pause - performance.now();
    if (wait > 0) {
      timer = setTimeout(() => {
        timer = undefined;
        run();
      }, wait);
      return;
    }
    isWanted = false;
    isRunning = true;
    began = performance.now();
    void untrack(work).finally(() => {
      isRunning = false;
      run();
    });
  };
  createEffect(on(active, run));
  onCleanup(() => {
    isDisposed = true;
    clearTimeout(timer);
  });
  return () => {
    isWanted = true;
    run();
  };
}

/** Does something every `pause` milliseconds until the owner ends, unless `active` says no. */
export function every(pause: number, active: Accessor<boolean>, work: () => void): void {
  const timer = setInterval(() => {
    if (untrack(active)) work();
  }, pause);
  onCleanup(() => clearInterval(timer));
}

/** Returns a function that does works, at most `most` at the same time; the others wait in their order. */
export function limited(most: number): <T>(work: () => Promise<T>) => Promise<T> {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (work) => {
    // Who ends hands its place to the next one.
    if (running >= most) await new Promise<void>((go) => waiting.push(go));
    else running += 1;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  };
}
