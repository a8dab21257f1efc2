// Calls of the low layer: options that every method takes, and answers without the wrapper of `openapi-fetch`.

import type { Client } from "openapi-fetch";
import type { components, paths } from "./api.js";
import { ConnectionError, failureOf, HotdeskError } from "./errors.js";
import { newKey } from "./transport.js";

/** Bodies and records of the API by name, for example `Schemas["Computer"]`. */
export type Schemas = components["schemas"];

/** The low layer: one typed method for each HTTP method, with the paths of the OpenAPI document. */
export type Api = Client<paths>;

/** Options of every method. */
export interface Call {
  /** Ends the wait for the answer. What has an Idempotency-Key still runs to its end in the service. */
  signal?: AbortSignal | undefined;
  /** Key of a change that the caller repeats himself, also after a restart; a new one when absent. */
  idempotencyKey?: string | undefined;
}

/** Options of methods that concern one screen. */
export interface OnScreen extends Call {
  /** Id of the screen; the boot screen when absent. */
  screen?: string | undefined;
}

/** Separates the options of a call from the fields of its body. */
export function split<T extends Call>(options: T) {
  const { signal, idempotencyKey, ...fields } = options;
  return { call: init({ signal, idempotencyKey }), fields };
}

/** Separates the options of a call and its screen from the fields of its body. */
export function splitScreen<T extends OnScreen>(options: T) {
  const { signal, idempotencyKey, screen, ...fields } = options;
  return { call: init({ signal, idempotencyKey }), query: { screen }, fields };
}

/** Options of a call in the form of `fetch`. */
export function init(call: Call) {
  return {
    ...(call.signal && { signal: call.signal }),
    ...(call.idempotencyKey !== undefined && { headers: { "Idempotency-Key": call.idempotencyKey } }),
  };
}

/** Options of a call with bytes of at most 2 MiB: the transport makes keys for JSON only, as other bodies may be larger. */
export function newCall(call: Call) {
  return {
    signal: call.signal ? { signal: call.signal } : {},
    headers: { "Idempotency-Key": call.idempotencyKey ?? newKey() },
  };
}

/** Answer of the low layer. */
interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Returns what the low layer answers; throws a `HotdeskError` for a failure. */
export async function answerOf<T>(pending: Promise<Answer<T>>): Promise<T> {
  return (await responseOf(pending)).data as T;
}

/** Returns the answer of the low layer with its headers; throws a `HotdeskError` for a failure. */
export async function responseOf<T>(pending: Promise<Answer<T>>): Promise<Answer<T>> {
  let answer: Answer<T>;
  try {
    answer = await pending;
  } catch (error) {
    // A body that breaks off, or that is no JSON because something before hotdesk answered.
    if (error instanceof HotdeskError || !(error instanceof TypeError || error instanceof SyntaxError)) throw error;
    throw new ConnectionError("The answer is incomplete or none of hotdesk", { cause: error });
  }
  if (!answer.response.ok) throw failureOf(answer.response, answer.error);
  return answer;
}
