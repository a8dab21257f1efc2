// One thread: its record, its contents, and a run of it that this page follows.

import { batch, createSignal, onCleanup, type Accessor } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import { createPaced, every } from "../api/fetched";
import { onLive } from "../api/live";
import { answerOf, api, fetchBlob, type Schemas } from "../api/service";
import { pageVisible } from "../ui/visible";
import { type Item, parseExport, stepItems, unsaid } from "./items";
import { ask, type Progress } from "./stream";

/** Milliseconds between two looks at the steps of a run. */
const PAUSE = 2000;
/** Looks at the steps for each look at the record, which has all messages and may be large. */
const LOOKS = 5;
/** Steps of one page: the most that the service answers. */
const PAGE = 200;
/** Characters of a streamed reply that are kept; the thread has all of it in the end. */
const MAX_TEXT = 256 * 1024;
/** Seconds that the model may wait for the help of the person who watches it. */
const HELP_WAIT = 3600;

/** First questions of threads that were just made: the view of the thread asks them. */
const handed = new Map<string, Question>();

/** Gives a new thread its first question. */
export function handOver(thread: string, question: Question): void {
  handed.set(thread, question);
}

/** A question to a model. */
export interface Question {
  text: string;
  /** Id of the model; the operator's default when empty. */
  model: string;
  /** True to execute the call that waits. */
  approve?: boolean;
  /** Id of the screen; the boot screen when absent. */
  screen?: string | undefined;
}

/** A thread, as a page shows it. */
export interface Conversation {
  /** The record; undefined until it is fetched. */
  record: Accessor<Schemas["ThreadRecord"] | undefined>;
  /** Why the record could not be fetched. */
  failure: Accessor<unknown>;
  items: readonly Item[];
  /** Whether the items are there. */
  isLoaded: Accessor<boolean>;
  /** Why the steps could not be fetched: the items are the messages alone then. */
  stepsFailure: Accessor<unknown>;
  /** What the model writes at the moment. */
  writing: Accessor<string>;
  /** Whether a run is in progress. */
  isRunning: Accessor<boolean>;
  progress: Accessor<Progress | undefined>;
  /** Why the last question of this page failed. */
  runFailure: Accessor<unknown>;
  /** Text of a question that the service refused before a run began; empty otherwise. */
  unsent: Accessor<string>;
  /** Asks the model, and resolves when the run has ended. It never rejects. */
  send: (question: Question) => Promise<void>;
  /** Fetches what changed. */
  refresh: () => void;
}

/** Follows a thread until the owner ends. */
export function createConversation(id: string): Conversation {
  const [record, setRecord] = createSignal<Schemas["ThreadRecord"]>();
  const [failure, setFailure] = createSignal<unknown>();
  const [items, setItems] = createStore<Item[]>([]);
  const [stepsFailure, setStepsFailure] = createSignal<unknown>();
  const [streamed, setStreamed] = createSignal("");
  const [said, setSaid] = createSignal<readonly string[]>([]);
  const [isAsking, setAsking] = createSignal(false);
  const [isLoaded, setLoaded] = createSignal(false);
  const [progress, setProgress] = createSignal<Progress>();
  const [runFailure, setRunFailure] = createSignal<unknown>();
  const [unsent, setUnsent] = createSignal("");

  const leaving = new AbortController();
  onCleanup(() => leaving.abort());
  const path = { path: { id } };
  let lastStep = 0;
  let looks = 0;
  /** The change of the record for which the items were fetched; undefined while they are known to be old. */
  let shown: string | undefined;

  const isRunning = () => isAsking() || record()?.run === "running";

  const fetchRecord = async () => {
    const found = await answerOf(api.GET("/chat/threads/{id}", { params: path, signal: leaving.signal }));
    batch(() => {
      setRecord(found);
      setFailure(undefined);
      if (!isAsking()) setProgress(waitOf(found));
    });
    return found;
  };
  const fetchAll = async (found: Schemas["ThreadRecord"]) => {
    let all: { items: Item[]; lastStep: number };
    try {
      all = parseExport(await (await fetchBlob(`/chat/threads/${id}/export`, leaving.signal)).text());
      setStepsFailure(undefined);
    } catch (error) {
      if (leaving.signal.aborted) return;
      setStepsFailure(() => error);
      all = { items: found.messages.map(messageItem), lastStep };
    }
    // A question that was asked meanwhile is not in it.
    if (isAsking()) return;
    batch(() => {
      setItems(reconcile(all.items, { key: "key" }));
      setSaid([]);
      setStreamed("");
      setLoaded(true);
    });
    lastStep = all.lastStep;
    shown = found.updated_at;
  };
  const fetchSteps = async () => {
    for (let hasMore = true; hasMore && stepsFailure() === undefined; ) {
      const page = await answerOf(api.GET("/chat/threads/{id}/steps", {
        params: { ...path, query: { cursor: String(lastStep), limit: PAGE } }, signal: leaving.signal,
      }));
      const fresh = page.steps.filter((step) => step.number > lastStep);
      batch(() => {
        setItems(reconcile([...items, ...fresh.flatMap(stepItems)], { key: "key" }));
        setSaid((all) => [...all, ...fresh.flatMap((step) => step.text ?? [])]);
      });
      lastStep = fresh.at(-1)?.number ?? lastStep;
      hasMore = page.next_cursor !== null && page.next_cursor !== undefined;
    }
  };

  let wantsRecord = true;
  const look = createPaced(async () => {
    try {
      const before = record();
      const isDue = wantsRecord || shown === undefined || looks % LOOKS === 0;
      looks += 1;
      if (!isDue) return await fetchSteps();
      wantsRecord = false;
      const found = await fetchRecord();
      const goesOn = before?.run === "running" && found.run === "running";
      if (isAsking() || goesOn) await fetchSteps();
      else if (found.updated_at !== shown) await fetchAll(found);
      const first = handed.get(id);
      if (first && handed.delete(id)) void send(first);
    } catch (error) {
      // A thread that is shown stays; the next look may succeed.
      if (!leaving.signal.aborted) setFailure(() => error);
    }
  }, PAUSE, pageVisible);
  const refresh = () => {
    wantsRecord = true;
    look();
  };

  const send = async (question: Question) => {
    const computer = record()?.computer_id;
    if (computer === undefined || isAsking()) return;
    batch(() => {
      setAsking(true);
      setRunFailure(undefined);
      setUnsent("");
      setStreamed("");
      setSaid([]);
      if (question.text !== "") setItems(items.length, userItem(question.text));
    });
    let hasBegun = false;
    try {
      const answer = await ask(requestOf(computer, id, question), leaving.signal);
      hasBegun = true;
      for await (const chunk of answer.chunks) {
        if (chunk.text !== "") setStreamed((text) => (text + chunk.text).slice(-MAX_TEXT));
        if (chunk.progress) {
          setProgress(chunk.progress.waiting_for ? chunk.progress : undefined);
          refresh();
        }
        if (chunk.orgo) {
          const { ended } = chunk.orgo;
          setRecord((known) => known && { ...known, run: ended });
        }
      }
    } catch (error) {
      if (!leaving.signal.aborted) setRunFailure(() => error);
    }
    shown = undefined;
    batch(() => {
      setAsking(false);
      setProgress(undefined);
      if (!hasBegun) setUnsent(question.text);
    });
    refresh();
  };

  onLive((message) => {
    if (message.type === "thread" && message.id === id) refresh();
  });
  every(PAUSE, () => pageVisible() && isRunning(), look);
  refresh();
  return {
    record, failure, items, isLoaded, stepsFailure, isRunning, progress, runFailure, unsent, send, refresh,
    writing: () => unsaid(streamed(), said()),
  };
}

function requestOf(computer: string, thread: string, question: Question): Schemas["ChatCompletionRequest"] {
  return {
    computer_id: computer,
    thread_id: thread,
    ...(question.model !== "" && { model: question.model }),
    ...(question.approve && { approve: true }),
    ...(question.screen !== undefined && { screen: question.screen }),
    messages: question.text === "" ? [] : [{ role: "user", content: question.text }],
    help_wait_seconds: HELP_WAIT,
  };
}

function waitOf(record: Schemas["ThreadRecord"]): Progress | undefined {
  if (!record.waiting_for) return undefined;
  return { waiting_for: record.waiting_for, holder: record.holder ?? null, message: record.help_message ?? null };
}

function messageItem(message: Schemas["ThreadMessage"], at: number): Item {
  return { kind: "message", key: `text of message ${at}`, at: "", role: message.role, text: message.content, thinking: "" };
}

function userItem(text: string): Item {
  const at = new Date().toISOString();
  return { kind: "message", key: `question ${at}`, at, role: "user", text, thinking: "" };
}
