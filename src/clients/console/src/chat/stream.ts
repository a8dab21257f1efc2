// Chat completions as they stream.

import type { Schemas } from "../api/service";
import { eventsOf } from "../api/events";
import { sendRaw } from "../api/service";
import { failureOf } from "../../../typescript/src/errors";

/** Last event of a stream that ended as it should. */
const END = "[DONE]";

/** What a run waits for (docs/api/chat.md, "Stream"). */
export interface Progress {
  waiting_for?: string | null;
  holder?: Schemas["ScreenActor"] | null;
  message?: string | null;
}

/** One event of a run. */
export interface Chunk {
  /** Text that the model adds. */
  text: string;
  progress?: Progress;
  /** What the run did; in the last event. */
  orgo?: Schemas["ChatRun"];
}

/** A run that has begun. */
export interface Answer {
  /** Id of its thread. */
  thread: string;
  chunks: AsyncGenerator<Chunk>;
}

/**
 * Asks a model. Throws the typed errors of the library, before the run begins as well as from the chunks. It is not repeated by
 * itself, because the model would work twice. The end of `signal` ends the stream, not the run, which goes on in the background.
 */
export async function ask(request: Schemas["ChatCompletionRequest"], signal: AbortSignal): Promise<Answer> {
  const body = JSON.stringify({ ...request, stream: true, background: true });
  const answer = await sendRaw("POST", "/v1/chat/completions", body, { "Content-Type": "application/json" });
  if (!answer.ok || !answer.body) {
    const said: unknown = await answer.json().catch(() => undefined);
    throw failureOf(answer, said);
  }
  const thread = answer.headers.get("X-Thread-Id") ?? request.thread_id ?? "";
  return { thread, chunks: chunksOf(answer, answer.body, signal) };
}

async function* chunksOf(answer: Response, body: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<Chunk> {
  for await (const data of eventsOf(body, signal)) {
    if (data === END) return;
    const event = JSON.parse(data) as {
      choices?: { delta?: { content?: string | null } }[];
      progress?: Progress;
      orgo?: Schemas["ChatRun"];
      error?: unknown;
    };
    // A run that fails after the head has the status of a success.
    if (event.error !== undefined) throw failureOf(answer, event);
    const text = event.choices?.[0]?.delta?.content ?? "";
    yield { text, ...(event.progress && { progress: event.progress }), ...(event.orgo && { orgo: event.orgo }) };
  }
  if (!signal.aborted) throw new Error("The connection to the run was lost. It goes on; its steps appear here.");
}
