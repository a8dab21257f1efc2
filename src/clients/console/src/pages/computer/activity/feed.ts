// Events of a computer as they come, the newest of which are kept.

import type { DesktopEvent, EventStream } from "@hotdesk/client";
import { createSignal, onCleanup, type Accessor } from "solid-js";
import { service } from "../../../api/service";

/** Events kept; the oldest are forgotten, because a page that stays open for days must not grow. */
const KEPT = 500;
/** Milliseconds for which events are collected before the page changes. */
const COLLECTED = 100;
/** Pauses in milliseconds between attempts to connect: they double from the first to the last. */
const FIRST_PAUSE = 1000;
const LAST_PAUSE = 30_000;

/** Events of a computer. */
export interface Feed {
  /** The kept events, newest first. */
  events: Accessor<readonly DesktopEvent[]>;
  /** Types that the service has. */
  types: Accessor<readonly string[]>;
  state: Accessor<"connecting" | "live" | "lost">;
  /** Why the connection was lost. */
  failure: Accessor<unknown>;
  /** Number of events that were missed because they came too fast. */
  missed: Accessor<number>;
  isPaused: Accessor<boolean>;
  /** Number of events that came since the pause and wait to be shown. */
  waiting: Accessor<number>;
  /** Stops or continues to show new events. */
  pause: (paused: boolean) => void;
  /** Forgets the events. */
  clear: () => void;
}

/** Listens to the events of a running computer until the owner ends. */
export function createFeed(id: string): Feed {
  const [events, setEvents] = createSignal<readonly DesktopEvent[]>([]);
  const [types, setTypes] = createSignal<readonly string[]>([]);
  const [state, setState] = createSignal<"connecting" | "live" | "lost">("connecting");
  const [failure, setFailure] = createSignal<unknown>();
  const [missed, setMissed] = createSignal(0);
  const [isPaused, setPaused] = createSignal(false);
  const [waiting, setWaiting] = createSignal(0);

  /** Events that the page does not show yet, newest first. */
  let collected: DesktopEvent[] = [];
  let stream: EventStream | undefined;
  let isOver = false;
  let showing: ReturnType<typeof setTimeout> | undefined;
  let wake = () => {};
  let sleeping: ReturnType<typeof setTimeout> | undefined;

  const show = () => {
    showing = undefined;
    if (isPaused()) return void setWaiting(collected.length);
    if (collected.length === 0) return;
    const fresh = collected;
    collected = [];
    setWaiting(0);
    setEvents((all) => [...fresh, ...all].slice(0, KEPT));
  };
  const add = (event: DesktopEvent) => {
    collected.unshift(event);
    if (collected.length > KEPT) collected.pop();
    showing ??= setTimeout(show, COLLECTED);
  };

  /** Connects once, and returns when the connection ends; throws when it breaks. */
  const listen = async () => {
    const computer = await service.computer(id);
    const known = await computer.eventTypes();
    if (isOver) return;
    setTypes(known);
    const opened = (stream = computer.events(known));
    const before = missed();
    await opened.ready;
    setState("live");
    setFailure(undefined);
    for await (const event of opened) {
      if (opened.dropped > 0) setMissed(before + opened.dropped);
      add(event);
    }
  };
  const follow = async () => {
    let pause = FIRST_PAUSE;
    while (!isOver) {
      try {
        await listen();
      } catch (error) {
        if (!isOver) setFailure(() => error);
      }
      if (isOver) return;
      pause = state() === "live" ? FIRST_PAUSE : Math.min(pause * 2, LAST_PAUSE);
      setState("lost");
      await new Promise<void>((resolve) => {
        wake = resolve;
        sleeping = setTimeout(resolve, pause);
      });
    }
  };

  onCleanup(() => {
    isOver = true;
    stream?.close();
    clearTimeout(showing);
    clearTimeout(sleeping);
    wake();
  });
  void follow();
  return {
    events, types, state, failure, missed, isPaused, waiting,
    pause: (paused) => {
      setPaused(paused);
      show();
    },
    clear: () => {
      collected = [];
      setWaiting(0);
      setEvents([]);
    },
  };
}
