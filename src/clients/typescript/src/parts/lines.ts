// Lines and server-sent events of a streamed answer, in bounded memory.

import { ConnectionError, HotdeskError } from "../errors.js";

/** Characters of a line, and of the data of an event: far more than a timeline's line with its two small pictures. */
const MAX_LINE = 1024 * 1024;
/**
 * Milliseconds without a byte after which a stream is lost. The service sends a comment every 15 s; a computer that is asleep
 * wakes before the first one.
 */
const SILENCE_TIMEOUT = 120_000;

/** Body of a streamed answer; null for an empty one. */
type Body = ReadableStream<Uint8Array> | null | undefined;

/**
 * Returns the lines of a text in UTF-8 as they come, without their ends. A last line without its end is left out: it is not
 * complete. The connection is closed when the loop is left. Throws a {@link ConnectionError} when it breaks, and the reason of
 * the signal when that is aborted.
 */
export async function* linesOf(body: Body, signal?: AbortSignal): AsyncGenerator<string, void, undefined> {
  if (!body) return;
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await nextOf(reader);
      if (done) return;
      // Only the end of a line: JSON may have the line separators of Unicode as they are.
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > MAX_LINE) throw new HotdeskError(`The service sent a line of more than ${MAX_LINE} characters`);
      for (const line of lines) yield line.endsWith("\r") ? line.slice(0, -1) : line;
    }
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (error instanceof HotdeskError) throw error;
    throw new ConnectionError("The answer broke off", { cause: error });
  } finally {
    // A body that failed cannot be cancelled, and need not be.
    await reader.cancel().catch(() => undefined);
  }
}

/** Reads the next piece. Throws a {@link ConnectionError} when none comes in time. */
async function nextOf(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<ReadableStreamReadResult<Uint8Array>> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, reject) => {
    const expire = () => reject(new ConnectionError(`The service sent nothing for ${SILENCE_TIMEOUT / 1000} s`));
    timer = setTimeout(expire, SILENCE_TIMEOUT);
  });
  try {
    return await Promise.race([reader.read(), silence]);
  } finally {
    clearTimeout(timer);
  }
}

/** Returns the data of server-sent events (HTML standard, "Server-sent events"). Comments and other fields are left out. */
export async function* eventsOf(body: Body, signal?: AbortSignal): AsyncGenerator<string, void, undefined> {
  let data: string[] = [];
  let size = 0;
  for await (const line of linesOf(body, signal)) {
    if (line.startsWith("data:")) {
      const text = line.slice(line.startsWith("data: ") ? 6 : 5);
      data.push(text);
      size += text.length;
      if (size > MAX_LINE) throw new HotdeskError(`The service sent an event of more than ${MAX_LINE} characters`);
    } else if (line === "" && data.length > 0) {
      yield data.join("\n");
      data = [];
      size = 0;
    }
  }
}
