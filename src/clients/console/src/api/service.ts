// The service: every route of the API, typed, with the token of this page.

import { Hotdesk, type Api, type Schemas } from "@hotdesk/client";
import { pictureType } from "../../../typescript/src/parts/picture";
import { accessToken } from "./session";

export type { Schemas };
/** Record of a computer. */
export type Computer = Schemas["Computer"];

/** Sends a request with the token, and once more with a new one when it has expired. */
async function send(request: Request): Promise<Response> {
  const again = request.clone();
  const token = await accessToken();
  request.headers.set("Authorization", `Bearer ${token}`);
  const answer = await fetch(request);
  if (answer.status !== 401) return answer;
  again.headers.set("Authorization", `Bearer ${await accessToken(token)}`);
  return fetch(again);
}

/** The client library, connected to this page's own service. Its key is replaced by the page's token in `send`. */
export const service = new Hotdesk({ url: location.origin, key: "page", fetch: send });

/** Every route of the API. Use it with {@link answerOf}. */
export const api: Api = service.api;

/** Says that a read is no use of a computer: it wakes none, and holds no auto-stop off (docs/lifecycle.md, "Auto-stop"). */
export const PASSIVE = ["X-Hotdesk-Passive", "true"] as const;

/** Every route of the API, for reads that a page repeats by itself while a person looks: they are no use of a computer. */
export const watching: Api = new Hotdesk({
  url: location.origin,
  key: "page",
  fetch: (request) => {
    request.headers.set(...PASSIVE);
    return send(request);
  },
}).api;

/** The same without repeats: for what may be refused because somebody else holds the screen, while a person waits. */
export const once: Api = new Hotdesk({ url: location.origin, key: "page", fetch: send, maxRetries: 0 }).api;

/**
 * `answerOf` returns the body of an answer, `responseOf` the answer with its headers; both throw the library's typed errors,
 * whose messages are sentences for people.
 */
export { answerOf, responseOf } from "../../../typescript/src/calls";
/** Returns the typed error of an answer that is no success, from its status and its parsed body. */
export { failureOf } from "../../../typescript/src/errors";

/**
 * Fetches a path of the API that is not JSON, such as a picture, without counting as use of a computer. Throws when the answer is
 * a failure.
 */
export async function fetchBlob(path: string, signal?: AbortSignal): Promise<Blob> {
  const answer = await send(new Request(`${location.origin}/api${path}`, { headers: [[...PASSIVE]], ...(signal && { signal }) }));
  if (!answer.ok) {
    const body = (await answer.json().catch(() => null)) as { error?: string } | null;
    throw new Error(body?.error ?? `The service answered with status ${answer.status}`);
  }
  return answer.blob();
}

/** Fetches a picture as {@link fetchBlob} does. Throws also for what is no PNG, JPEG or WebP, or is larger than any screen. */
export async function fetchPicture(path: string, signal?: AbortSignal): Promise<Blob> {
  const bytes = new Uint8Array(await (await fetchBlob(path, signal)).arrayBuffer());
  return new Blob([bytes], { type: pictureType(bytes) });
}

/** Sends a request whose body is no JSON, such as a file, or null for none. Returns the answer, whatever its status. */
export function sendRaw(
  method: string,
  path: string,
  body: BodyInit | null,
  headers: Record<string, string> = {},
  signal: AbortSignal | null = null,
): Promise<Response> {
  return send(new Request(`${location.origin}/api${path}`, { method, body, headers, signal }));
}
