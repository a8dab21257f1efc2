// A template's build as it happens: the end of its log, and the phases with their times.

import { createSignal, onCleanup, type Accessor } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { eventsOf } from "../../api/events";
import type { Reference } from "./reference";

/** An entry of a build's log. */
export type LogLine = Schemas["BuildLogEntry"];

/** A phase of a build. Times are in milliseconds since 1970. */
export interface Phase {
  name: string;
  began: number;
  /** Undefined while it goes on. */
  ended?: number;
}

/** Most lines on the page: as many as a person reads back; the service keeps five times as many. */
const MOST_LINES = 1000;
/** Most phases on the page: a template has at most 16 layers, of three phases each, and seven others. */
const MOST_PHASES = 64;
/** Milliseconds between two updates of the page while lines arrive. */
const UPDATE = 100;
/** Milliseconds before a build that goes on is followed again after its connection was lost. */
const AGAIN = 2000;

/** A build that is followed. */
export interface Build {
  lines: Accessor<readonly LogLine[]>;
  /** Lines that came before those that are kept. */
  left: Accessor<number>;
  phases: Accessor<readonly Phase[]>;
  /** What the service last said about it. */
  record: Accessor<Schemas["TemplateBuild"] | undefined>;
  /** Why it is not followed now. */
  failure: Accessor<string | undefined>;
  /** Follows the last build from its first line to its end: the one of this record when it has just begun. */
  follow: (begun?: Schemas["TemplateBuild"]) => Promise<void>;
}

/** Returns the last build of a template, until the owner is disposed. */
export function createBuild(reference: Reference, hasLog: () => boolean, onEnd: (status: string) => void): Build {
  const path = { ...reference };
  const [lines, setLines] = createSignal<readonly LogLine[]>([]);
  const [left, setLeft] = createSignal(0);
  const [phases, setPhases] = createSignal<readonly Phase[]>([]);
  const [record, setRecord] = createSignal<Schemas["TemplateBuild"]>();
  const [failure, setFailure] = createSignal<string>();
  let abort: AbortController | undefined;
  onCleanup(() => abort?.abort());

  const readLog = async (signal: AbortSignal) => {
    const params = { path };
    const stream = await answerOf(
      api.GET("/templates/{namespace}/{name}/{version}/build/events", { params, signal, parseAs: "stream" }),
    );
    let fresh: LogLine[] = [];
    let passed: Phase[] = [];
    let count = 0;
    let kept: readonly LogLine[] = [];
    let timer: number | undefined;
    const show = () => {
      timer = undefined;
      if (signal.aborted) return;
      kept = [...kept, ...fresh].slice(-MOST_LINES);
      fresh = [];
      setLines(kept);
      setLeft(count - kept.length);
      setPhases([...passed]);
    };
    try {
      for await (const data of stream ? eventsOf(stream, signal) : []) {
        const entry = JSON.parse(data) as LogLine;
        count += 1;
        fresh.push(entry);
        passed = withPhase(passed, entry).slice(-MOST_PHASES);
        timer ??= window.setTimeout(show, UPDATE);
      }
    } finally {
      window.clearTimeout(timer);
      show();
    }
  };

  const follow = async (begun?: Schemas["TemplateBuild"]) => {
    abort?.abort();
    if (begun) {
      setRecord(begun);
      setLines([]);
      setLeft(0);
      setPhases([]);
    }
    const current = new AbortController();
    abort = current;
    setFailure(undefined);
    while (!current.signal.aborted) {
      try {
        if (hasLog()) await readLog(current.signal);
        const found = await answerOf(
          api.GET("/templates/{namespace}/{name}/{version}/build", { params: { path }, signal: current.signal }),
        );
        setRecord(found);
        setFailure(undefined);
        if (found.status !== "building") return onEnd(found.status);
      } catch (error) {
        if (current.signal.aborted) return;
        setFailure(error instanceof Error ? error.message : String(error));
        if (record()?.status !== "building") return;
      }
      await pause(current.signal);
    }
  };
  return { lines, left, phases, record, failure, follow };
}

/** Adds the phase of an entry, which ends the one before it. */
function withPhase(phases: Phase[], entry: LogLine): Phase[] {
  const time = Date.parse(entry.ts);
  const last = phases.at(-1);
  const isEnd = entry.phase === "ready" || entry.level === "error";
  if (last?.name === entry.phase) return isEnd ? [...phases.slice(0, -1), { ...last, ended: time }] : phases;
  const before = last ? [...phases.slice(0, -1), { ended: time, ...last }] : phases;
  return [...before, { name: entry.phase, began: time, ...(isEnd && { ended: time }) }];
}

function pause(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, AGAIN);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
