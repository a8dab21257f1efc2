// Requests with retries.
//
// A changing request carries an Idempotency-Key, so it can be repeated: the service carries it out once and answers the
// repeats with the first answer (docs/api/conventions.md, "Idempotency").

import { ConnectionError, retryAfter } from "./errors.js";

/** How often a request is repeated unless the options say otherwise. */
const MAX_RETRIES = 5;
/** Longest `Retry-After` that is waited for, in seconds. A longer one, such as that of a daily limit, is for the caller. */
const MAX_RETRY_WAIT = 60;
/** First pause in milliseconds after a failure that names none; it doubles up to the last. */
const FIRST_PAUSE = 250;
const LAST_PAUSE = 8000;
/** Longest time in milliseconds that a repeat waits for the first request: a list of actions may take 15 minutes. */
const IN_PROGRESS_TIMEOUT = 16 * 60 * 1000;
/** Longest body that may have an Idempotency-Key, in bytes (docs/api/conventions.md). */
export const MAX_KEYED_BODY = 2 * 1024 * 1024;
/** Methods that change nothing. */
const READS = ["GET", "HEAD", "OPTIONS"];

/** How requests are sent. */
export interface TransportOptions {
  /** Sends one request; the global `fetch` when absent. */
  fetch?: ((request: Request) => Promise<Response>) | undefined;
  /** How often a request is repeated: 5 when absent, 0 for never. */
  maxRetries?: number | undefined;
  /** Longest `Retry-After` that is waited for, in seconds: 60 when absent. A longer one is thrown at once. */
  maxRetryWait?: number | undefined;
}

/** Returns a `fetch` that repeats requests which failed by themselves. */
export function retrying(options: TransportOptions): (request: Request) => Promise<Response> {
  const send = options.fetch ?? ((request: Request) => fetch(request));
  const maxRetries = options.maxRetries ?? MAX_RETRIES;
  const maxWait = options.maxRetryWait ?? MAX_RETRY_WAIT;

  return async (request) => {
    const isRead = READS.includes(request.method);
    request.signal.throwIfAborted();
    if (!isRead && !request.headers.has("Idempotency-Key") && (await hasShortBody(request))) {
      request.headers.set("Idempotency-Key", newKey());
    }
    const canRepeat = isRead || request.headers.has("Idempotency-Key");
    const began = Date.now();
    for (let retries = 0; ; ) {
      let pause: number;
      try {
        const response = await send(canRepeat ? request.clone() : request);
        const wanted = pauseAfter(response, isRead, retries);
        if (wanted === undefined || wanted > maxWait * 1000 || !canRepeat) return response;
        const code = await codeOf(response);
        // After the hand-back of a screen it is another one, so the program has to look again.
        if (code === "control_held") return response;
        // A repeat that finds the first request still running waits for it, which counts as no retry.
        const isRunning = code === "idempotency_in_progress";
        if (isRunning ? Date.now() - began > IN_PROGRESS_TIMEOUT : retries >= maxRetries) return response;
        await response.body?.cancel();
        if (!isRunning) retries += 1;
        pause = isRunning ? Math.max(wanted, FIRST_PAUSE) : wanted;
      } catch (error) {
        if (request.signal.aborted) throw error;
        if (!canRepeat || retries >= maxRetries) {
          throw new ConnectionError("The service cannot be reached", { cause: error });
        }
        pause = backoff(retries);
        retries += 1;
      }
      await sleep(pause, request.signal);
    }
  };
}

/** Returns the milliseconds after which an answer is worth a repeat; undefined when it is final. */
function pauseAfter(response: Response, isRead: boolean, retries: number): number | undefined {
  if (response.ok || response.status < 400) return undefined;
  // A run of a model that failed after it began would work twice (docs/api/chat.md, "Errors").
  if (response.headers.get("X-Should-Retry") === "false") return undefined;
  const seconds = retryAfter(response);
  if (seconds !== undefined) return seconds * 1000;
  // A change that failed without Retry-After would get its stored answer again.
  return response.status === 429 || (isRead && response.status >= 500) ? backoff(retries) : undefined;
}

/** Returns the pause before a repeat, with up to a third added, so that many clients do not return together. */
function backoff(retries: number): number {
  return Math.min(FIRST_PAUSE * 2 ** retries, LAST_PAUSE) * (1 + Math.random() / 3);
}

/** Whether a request has no body, or one of JSON that may have a key. Files and forms are not measured: they may be large. */
async function hasShortBody(request: Request): Promise<boolean> {
  const type = request.headers.get("Content-Type");
  if (type !== null && !type.startsWith("application/json")) return false;
  return (await request.clone().blob()).size <= MAX_KEYED_BODY;
}

async function codeOf(response: Response): Promise<unknown> {
  if (response.status !== 409) return undefined;
  const body: unknown = await response.clone().json().catch(() => undefined);
  return (body as { code?: unknown } | undefined)?.code;
}

/** Returns a new Idempotency-Key: 128 random bits. `crypto.randomUUID` does not exist on pages without TLS. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Waits; throws the signal's reason when it is aborted. */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
