// Runs of models on a computer, and their threads (docs/api/chat.md, docs/api/threads.md).
//
// begun ──head of the answer──▶ ready ──events──▶ [DONE] ▶ ended          `close` and the end of a loop abort the request,
//   └───────────────────────────┴── error, broken connection ▶ failed     which ends the run unless it is in the background

import { answerOf, init, responseOf, split, type Api, type Call, type Schemas } from "../calls.js";
import { ConnectionError, runFailureOf, TimeoutError } from "../errors.js";
import { sleep } from "../transport.js";
import { eventsOf } from "./lines.js";

/** Data of the last event of a run that ended as it should. */
const END = "[DONE]";
/** Characters of an answer, as the service has them without a stream. */
const MAX_TEXT = 1024 * 1024;
/** Steps in one page: one has up to 64 KiB, twice. */
const PAGE = 50;
/** Milliseconds between two looks at the steps of a run that goes on. */
const PAUSE = 1000;
/** Longest wait for the end of a run in seconds, unless the options say otherwise. */
const RUN_TIMEOUT = 3600;

/** What the user says: a text, or messages of the API. With `thread_id` it is only what is new. */
export type ChatMessages = string | readonly Schemas["ChatMessage"][];

/** Options of a run: those of docs/api/chat.md, "Request". */
export interface ChatOptions
  extends Omit<Schemas["ChatCompletionRequest"], "computer_id" | "messages" | "stream">, Call {
  /** Your key for Anthropic's API. The service does not store it. */
  anthropicKey?: string | undefined;
}

/** A wait of a run that began or ended. */
export interface RunProgress {
  /** `control` of the screen, or `help` of a person; null when the run goes on. */
  waiting_for: "control" | "help" | null;
  /** Who holds the screen. */
  holder?: Schemas["ScreenActor"] | null;
  /** What the model needs. */
  message?: string | null;
}

/** Part of a run as it happens. */
export interface ChatEvent {
  /** What the model adds to its answer. */
  text: string;
  /** A wait that began or ended. */
  progress?: RunProgress;
}

/** A run that has ended. */
export interface ChatAnswer {
  /** Text of the model in all its turns; the last 1,048,576 characters of a longer one. */
  text: string;
  /** What was done: `thread_id`, `steps`, `cost_cents`, `ended` (why), and `pending`, the call that waits for `approve`. */
  run: Schemas["ChatRun"];
  /** Tokens of all turns. */
  usage?: Schemas["ChatUsage"];
}

/** The part of an event of the service that is used. */
interface Chunk {
  choices?: { delta?: { content?: string | null } }[];
  progress?: RunProgress;
  orgo?: Schemas["ChatRun"];
  usage?: Schemas["ChatUsage"];
  error?: unknown;
}

/** Sends the request of a run; returns the head of the answer, and the stream of its body. */
type Begin = (signal: AbortSignal) => Promise<{ response: Response; data?: ReadableStream<Uint8Array> | null }>;

/**
 * A run of a model as it happens, for `for await`. It begins at once. When the loop, an `await using` block or `close` ends it
 * early, the run ends within a second, unless `background` is true. The loop throws why a run failed, also after it began.
 */
export class ChatStream implements AsyncIterableIterator<ChatEvent>, AsyncDisposable {
  /** Resolves when the run has begun, and rejects when it was refused. Waiting for it is optional. */
  readonly ready: Promise<void>;
  /** Thread of the run; undefined until it has begun. */
  threadId: string | undefined;
  /** What came of the run; undefined until it has ended. */
  answer: ChatAnswer | undefined;
  readonly #abort = new AbortController();
  readonly #events: AsyncGenerator<ChatEvent, void, undefined>;
  #isClosed = false;

  /** {@link Chat.stream} makes it. */
  constructor(begin: Begin, signal?: AbortSignal) {
    const abort = () => this.#abort.abort(signal?.reason);
    if (signal?.aborted) abort();
    // The listener goes with the run.
    else signal?.addEventListener("abort", abort, { once: true, signal: this.#abort.signal });
    const head = begin(this.#abort.signal);
    this.ready = head.then(({ response }) => {
      this.threadId = response.headers.get("X-Thread-Id") ?? undefined;
    });
    // Who does not wait for it gets the error from the loop.
    this.ready.catch(() => undefined);
    this.#events = this.#read(head);
  }

  async *#read(head: ReturnType<Begin>): AsyncGenerator<ChatEvent, void, undefined> {
    let text = "";
    try {
      const { response, data } = await head;
      await this.ready;
      for await (const event of eventsOf(data, this.#abort.signal)) {
        if (event === END) return;
        const chunk = JSON.parse(event) as Chunk;
        // The status of a run that fails after the head is that of a success.
        if (chunk.error !== undefined) throw runFailureOf(response, chunk);
        const added = chunk.choices?.[0]?.delta?.content ?? "";
        text = (text + added).slice(-MAX_TEXT);
        if (chunk.orgo) this.answer = { text, run: chunk.orgo, ...(chunk.usage && { usage: chunk.usage }) };
        if (added || chunk.progress) yield { text: added, ...(chunk.progress && { progress: chunk.progress }) };
      }
      throw new ConnectionError(`The answer of thread ${this.threadId} broke off`);
    } finally {
      this.#abort.abort();
    }
  }

  /** Returns the next event; `done` after the end of the run. */
  async next(): Promise<IteratorResult<ChatEvent>> {
    try {
      if (!this.#isClosed) return await this.#events.next();
    } catch (error) {
      if (!this.#isClosed) throw error;
    }
    return { done: true, value: undefined };
  }

  /** Leaves the run. A `for await` loop calls it when it is left. */
  return(): Promise<IteratorResult<ChatEvent>> {
    this.close();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** Leaves the run. It ends within a second, unless `background` is true. */
  close(): void {
    this.#isClosed = true;
    this.#abort.abort();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }
}

/** Models that work on a computer, and the threads that say what they did. */
export class Chat {
  readonly #api: Api;
  readonly #id: string;

  constructor(api: Api, id: string) {
    this.#api = api;
    this.#id = id;
  }

  /** Lets a model work on the computer, and gives what it writes. */
  stream(messages: ChatMessages = [], options: ChatOptions = {}): ChatStream {
    const { anthropicKey, ...rest } = options;
    const { call, fields } = split(rest);
    const body = { ...fields, computer_id: this.#id, messages: messagesOf(messages), stream: true };
    const params = { header: { "x-anthropic-key": anthropicKey } };
    const begin: Begin = (signal) =>
      responseOf(this.#api.POST("/v1/chat/completions", { params, body, parseAs: "stream", ...call, signal }));
    return new ChatStream(begin, options.signal);
  }

  /**
   * Lets a model work on the computer, and returns when the run has ended. The error of a run that failed says why, also after
   * it began; its `threadId` is the thread, which can be continued.
   */
  async run(messages: ChatMessages = [], options: ChatOptions = {}): Promise<ChatAnswer> {
    const run = this.stream(messages, options);
    for await (const _ of run);
    if (!run.answer) throw new ConnectionError(`The answer of thread ${run.threadId} ended without its summary`);
    return run.answer;
  }

  /** Returns the threads of the computer, the last changed first. */
  async threads(options: Call = {}): Promise<Schemas["ThreadSummary"][]> {
    const params = { query: { computer_id: this.#id } };
    return (await answerOf(this.#api.GET("/chat/threads", { params, ...init(options) }))).threads;
  }

  /** Returns a thread with its messages, and the state of its last run. */
  thread(id: string, options: Call = {}): Promise<Schemas["ThreadRecord"]> {
    return answerOf(this.#api.GET("/chat/threads/{id}", { params: { path: { id } }, ...init(options) }));
  }

  /**
   * Gives the steps of a thread in their order: calls of tools with their results. With `follow` it waits for those of a run
   * that goes on, until it ends; it throws a {@link TimeoutError} after `timeout` seconds (3600).
   */
  async *steps(
    id: string,
    options: Call & { follow?: boolean; timeout?: number } = {},
  ): AsyncGenerator<Schemas["ThreadStepRecord"], void, undefined> {
    const timeout = options.timeout ?? RUN_TIMEOUT;
    const end = Date.now() + timeout * 1000;
    // The cursor of the page after a step is its number.
    for (let last = 0; ; ) {
      // Before the steps: those of a run that ended are complete.
      const goesOn = options.follow === true && (await this.thread(id, options)).run === "running";
      const params = { path: { id }, query: { cursor: String(last), limit: PAGE } };
      const page: Schemas["ThreadStepPage"] = await answerOf(
        this.#api.GET("/chat/threads/{id}/steps", { params, ...init(options) }),
      );
      for (const step of page.steps) {
        last = step.number;
        yield step;
      }
      if (page.next_cursor) continue;
      if (!goesOn) return;
      if (Date.now() > end) throw new TimeoutError(`The run of ${id} has not ended within ${timeout} s`);
      await sleep(PAUSE, options.signal);
    }
  }

  /** Ends the run of a thread, whoever began it; false when none was in progress. */
  async stop(id: string, options: Call = {}): Promise<boolean> {
    const params = { path: { id } };
    return (await answerOf(this.#api.POST("/chat/threads/{id}/stop", { params, ...init(options) }))).stopped;
  }

  /** Gives a thread a title. */
  async rename(id: string, title: string, options: Call = {}): Promise<void> {
    const params = { path: { id } };
    await answerOf(this.#api.PATCH("/chat/threads/{id}", { params, body: { title }, ...init(options) }));
  }

  /** Deletes a thread with its messages, steps and pictures. */
  async delete(id: string, options: Call = {}): Promise<void> {
    await answerOf(this.#api.DELETE("/chat/threads/{id}", { params: { path: { id } }, ...init(options) }));
  }
}

/** Returns the messages of a request; a text is one of the user. */
function messagesOf(messages: ChatMessages): Schemas["ChatMessage"][] {
  return typeof messages === "string" ? [{ role: "user", content: messages }] : [...messages];
}
