// Server-sent events of the service, in a bounded parser.

/** Characters of one event. The service sends a piece of a reply, the summary of a run, or a line of a log in each. */
const MAX_EVENT = 1024 * 1024;

/** Returns the data of server-sent events (HTML standard, "Server-sent events"). Comments and other fields are passed over. */
export async function* eventsOf(body: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<string> {
  const reader = body.getReader();
  const leave = () => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", leave, { once: true });
  const decoder = new TextDecoder();
  let rest = "";
  let data: string[] = [];
  let size = 0;
  try {
    while (!signal.aborted) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) yield data.join("\n");
          data = [];
          size = 0;
        } else if (line.startsWith("data:")) {
          const text = line.slice(line.startsWith("data: ") ? 6 : 5);
          data.push(text);
          size += text.length;
        }
      }
      if (size + rest.length > MAX_EVENT) throw new Error("The service sent an event that is too long");
    }
  } finally {
    signal.removeEventListener("abort", leave);
    leave();
  }
}
