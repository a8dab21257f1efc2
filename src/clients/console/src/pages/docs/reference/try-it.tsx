// Form that sends an operation to this service with the page's own token, and shows the answer.

import { createMemo, createSignal, For, onCleanup, Show } from "solid-js";
import { createStore } from "solid-js/store";
import type { Operation, Parameter } from "virtual:docs/reference";
import { sendRaw } from "../../../api/service";
import { Button, confirm, Field, Select, TextArea } from "../../../ui";
import { exampleOf, resolved, typeOf, variants, type Schemas } from "./schema";

/** Bytes of an answer that are shown: more than a person reads, and little enough for a page to show at once. */
const MOST_BYTES = 64 * 1024;
/** Headers that say something about the answer beyond its body. */
const HEADERS = ["Content-Type", "Content-Length", "Location", "ETag", "RateLimit", "Retry-After", "X-Request-Id", "Idempotency-Replayed"];

interface Answer {
  status: number;
  headers: [string, string][];
  body: string;
  /** What the reader must know about the body, such as that it was cut. */
  note: string;
}

/** Whether the answer is text that a person can read. */
const isText = (type: string) => /^text\/|json|yaml|xml/.test(type);

/** The form. */
export function TryIt(props: { operation: Operation; schemas: Schemas }) {
  const [values, setValues] = createStore<Record<string, string>>({});
  const json = () => props.operation.body?.content.find((it) => it.type === "application/json");
  const example = () => {
    const content = json();
    return content ? JSON.stringify(exampleOf(content.schema, props.schemas), null, 2) : "";
  };
  const [body, setBody] = createSignal(example());
  const [answer, setAnswer] = createSignal<Answer>();
  const [failure, setFailure] = createSignal("");
  const [sending, setSending] = createSignal<AbortController>();
  onCleanup(() => sending()?.abort());

  const fields = () => props.operation.parameters.filter((it) => it.in === "path" || it.in === "query");
  const bodyError = createMemo(() => {
    if (body().trim() === "") return undefined;
    try {
      JSON.parse(body());
      return undefined;
    } catch (error) {
      return error instanceof Error ? `This is not JSON: ${error.message}` : "This is not JSON";
    }
  });
  const missing = () => fields().filter((it) => it.isRequired && !values[it.name]).map((it) => it.name);
  const path = () => {
    const filled = props.operation.path.replace(/\{(\w+)\}/g, (whole, name: string) =>
      values[name] ? encodeURIComponent(values[name]) : whole);
    const query = new URLSearchParams();
    for (const it of fields()) if (it.in === "query" && values[it.name]) query.set(it.name, values[it.name] ?? "");
    return `${filled}${query.size > 0 ? `?${query}` : ""}`;
  };

  const send = async () => {
    if (sending()) return;
    const method = props.operation.method;
    if (method !== "GET") {
      const isSure = await confirm({
        title: `Send ${method} ${path()}?`,
        text: `It is done for real, with your account. ${props.operation.summary}`,
        action: `Send ${method}`,
      });
      if (!isSure) return;
    }
    const controller = new AbortController();
    setSending(controller);
    setFailure("");
    setAnswer(undefined);
    try {
      const text = json() && body().trim() !== "" ? body() : null;
      const headers: Record<string, string> = text === null ? {} : { "Content-Type": "application/json" };
      await receive(await sendRaw(method, path(), text, headers, controller.signal), setAnswer);
    } catch (error) {
      setFailure(controller.signal.aborted ? "You stopped it." : error instanceof Error ? error.message : String(error));
    } finally {
      setSending(undefined);
    }
  };

  return (
    <form class="docs-try" aria-label={`Try ${props.operation.method} ${props.operation.path}`}
      onSubmit={(event) => { event.preventDefault(); void send(); }}>
      <div class="docs-try-fields">
        <For each={fields()}>
          {(it) => <Value parameter={it} schemas={props.schemas} value={values[it.name] ?? ""} onChange={(value) => setValues(it.name, value)} />}
        </For>
      </div>
      <Show when={json()}>
        <TextArea label="Body (JSON)" value={body()} error={bodyError()} spellcheck={false} onInput={(event) => setBody(event.currentTarget.value)} />
      </Show>
      <Show when={props.operation.body && !json()}>
        <p class="dim">This form sends JSON only, and this operation takes {props.operation.body?.content.map((it) => it.type).join(" or ")}. Use the command above.</p>
      </Show>
      <div class="actions">
        <Show when={sending()}>{(controller) => <Button onClick={() => controller().abort()}>Stop</Button>}</Show>
        <Button type="submit" look="primary" busy={sending() !== undefined} disabled={missing().length > 0 || bodyError() !== undefined}>
          {sending() ? "Sending…" : missing().length > 0 ? `Fill in ${missing().join(", ")}` : "Send"}
        </Button>
      </div>
      <Show when={failure()}>{(text) => <p class="bad" role="alert">There is no complete answer: {text()}</p>}</Show>
      <Show when={answer()}>{(answer) => <Shown answer={answer()} />}</Show>
    </form>
  );
}

/** Reads an answer as far as it is shown. What arrives slowly appears as it arrives. */
async function receive(answer: Response, show: (answer: Answer) => void): Promise<void> {
  const headers = HEADERS.flatMap((name): [string, string][] => {
    const value = answer.headers.get(name);
    return value === null ? [] : [[name, value]];
  });
  const type = answer.headers.get("Content-Type") ?? "";
  const base = { status: answer.status, headers };
  if (!answer.body) return show({ ...base, body: "", note: "The answer has no body." });
  if (!isText(type)) {
    await answer.body.cancel();
    return show({ ...base, body: "", note: `The body is ${type || "of no named type"}, which is not shown here.` });
  }
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  show({ ...base, body: "", note: "The body is arriving…" });
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const part = value.subarray(0, MOST_BYTES - bytes);
    bytes += part.length;
    text += decoder.decode(part, { stream: true });
    if (bytes >= MOST_BYTES) {
      await reader.cancel();
      return show({ ...base, body: text, note: `Only the first ${MOST_BYTES / 1024} KiB are shown.` });
    }
    show({ ...base, body: text, note: "The body is arriving…" });
  }
  show({ ...base, body: pretty(text, type), note: "" });
}

function pretty(text: string, type: string): string {
  if (!type.includes("json")) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // Several lines of JSON, each a value of its own, are shown as they are.
    return text;
  }
}

function Shown(props: { answer: Answer }) {
  return (
    <section role="region" aria-label="Answer" class="stack">
      <p role="status"><strong classList={{ bad: props.answer.status >= 400 }}>Status {props.answer.status}</strong> {props.answer.note}</p>
      <dl class="docs-schema">
        <For each={props.answer.headers}>{([name, value]) => <div><dt><code>{name}</code></dt><dd>{value}</dd></div>}</For>
      </dl>
      <Show when={props.answer.body}>
        <pre tabindex="0" role="group" aria-label="Body of the answer"><code>{props.answer.body}</code></pre>
      </Show>
    </section>
  );
}

function Value(props: { parameter: Parameter; schemas: Schemas; value: string; onChange: (value: string) => void }) {
  const choices = () => {
    const [schema] = variants(resolved(props.parameter.schema, props.schemas)).map((it) => resolved(it, props.schemas));
    if (schema?.enum) return schema.enum.map(String);
    return [schema?.type].flat().includes("boolean") ? ["true", "false"] : undefined;
  };
  const label = () => `${props.parameter.name} (${props.parameter.in}${props.parameter.isRequired ? "" : ", optional"})`;
  return (
    <Show when={choices()} fallback={
      <Field label={label()} hint={typeOf(props.parameter.schema, props.schemas)} value={props.value}
        onInput={(event) => props.onChange(event.currentTarget.value)} />
    }>
      {(choices) => (
        <Select label={label()} value={props.value} onChange={props.onChange}
          options={[{ value: "", label: "not set" }, ...choices().map((it) => ({ value: it, label: it }))]} />
      )}
    </Show>
  );
}
