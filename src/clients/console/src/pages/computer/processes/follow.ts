// Output of a background process, as it is written.

import { HotdeskError } from "@hotdesk/client";
import { answerOf, api, responseOf } from "../../../api/service";

/** Bytes of the output that are fetched at first: its end. */
const TAIL = 64 * 1024;
/** Milliseconds before the output is asked for again after its stream ended, and after a failure. */
const PAUSE = 1000;

/**
 * Calls `write` with the end of a process's output, and then with what it writes, until it ends or `signal` is aborted. `say` gets
 * a sentence when the connection is lost, and undefined when it is back.
 */
export async function follow(
  computer: string,
  process_id: string,
  signal: AbortSignal,
  write: (text: string) => void,
  say: (text: string | undefined) => void,
): Promise<void> {
  const path = { id: computer, process_id };
  const decoder = new TextDecoder();
  let offset = -TAIL;
  while (!signal.aborted) {
    try {
      const { data, response } = await responseOf(api.GET("/computers/{id}/processes/{process_id}/output", {
        params: { path, query: { offset, follow: true } },
        parseAs: "stream",
        signal,
      }));
      say(undefined);
      offset = Number(response.headers.get("X-Hotdesk-Offset") ?? Math.max(0, offset));
      if (Number(response.headers.get("X-Hotdesk-Lost") ?? 0) > 0) write("\n[Some output is no longer stored]\n");
      const body = data as ReadableStream<Uint8Array> | null | undefined;
      const reader = body?.getReader();
      for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) {
        offset += piece.value.length;
        write(decoder.decode(piece.value, { stream: true }));
      }
      const record = await answerOf(api.GET("/computers/{id}/processes/{process_id}", { params: { path }, signal }));
      if (record.status !== "running" && offset >= record.output_bytes) return;
    } catch (error) {
      if (signal.aborted) return;
      const text = error instanceof Error ? error.message : String(error);
      // Somebody removed it.
      if (error instanceof HotdeskError && error.status === 404) throw error;
      say(`The output cannot be read now: ${text}. It is tried again.`);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

/** Returns output without the sequences that control a terminal (ECMA-48). */
export function plain(text: string): string {
  return text.replace(/\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])/g, "").replace(/\r\n/g, "\n");
}
