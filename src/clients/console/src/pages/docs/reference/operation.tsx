// One operation: what it does, its parameters, its body, its answers, an example, and a form to try it.

import { createSignal, For, Show } from "solid-js";
import type { Content, Operation as Described } from "virtual:docs/reference";
import { Button, CopyButton } from "../../../ui";
import { Prose, Signature } from "./prose";
import { exampleOf, typeOf, type Schemas } from "./schema";
import { SchemaView } from "./schema-view";
import { TryIt } from "./try-it";

/** Returns the operation as a command. */
function commandOf(operation: Described, schemas: Schemas): string {
  const required = operation.parameters.filter((it) => it.in === "query" && it.isRequired);
  const query = required.map((it) => `${it.name}=${encodeURIComponent(String(exampleOf(it.schema, schemas)))}`).join("&");
  const lines = [`curl -sS --fail-with-body "$HOTDESK_URL/api${operation.path}${query && `?${query}`}"`];
  if (operation.method !== "GET") lines[0] = lines[0]?.replace("curl ", `curl -X ${operation.method} `) ?? "";
  if (operation.needsKey) lines.push('-H "Authorization: Bearer $HOTDESK_API_KEY"');
  const [content] = operation.body?.content ?? [];
  if (content?.type === "application/json") {
    // How a shell writes a quote inside of quotes.
    lines.push(`-d '${JSON.stringify(exampleOf(content.schema, schemas)).replaceAll("'", "'\\''")}'`);
  } else if (content) {
    lines.push(`-H "Content-Type: ${content.type}" --data-binary @FILE`);
  }
  return lines.join(" \\\n  ");
}

/** The operation. */
export function Operation(props: { operation: Described; schemas: Schemas }) {
  const [isTried, setTried] = createSignal(false);
  const command = () => commandOf(props.operation, props.schemas);
  const successes = () => props.operation.answers.filter((it) => /^[123]/.test(it.status));
  const failures = () => props.operation.answers.filter((it) => !/^[123]/.test(it.status));
  return (
    <section class="card docs-operation" id={props.operation.id} aria-labelledby={`${props.operation.id}-name`}>
      <h2 id={`${props.operation.id}-name`}>
        <Signature method={props.operation.method} path={props.operation.path} />
        <a class="docs-anchor" href={`#${props.operation.id}`} aria-hidden="true" tabindex="-1">#</a>
      </h2>
      <p><Prose text={`${props.operation.summary} ${props.operation.description}`} /></p>
      <p class="dim">
        <Show when={props.operation.needsKey} fallback="It needs no key. ">It needs an API key. </Show>
        <Show when={props.operation.isIdempotent}>An <a href="/docs/api/conventions#idempotency"><code>Idempotency-Key</code></a> makes it safe to repeat.</Show>
      </p>
      <Show when={props.operation.parameters.length > 0}>
        <h3>Parameters</h3>
        <dl class="docs-schema">
          <For each={props.operation.parameters}>
            {(it) => (
              <div>
                <dt><code>{it.name}</code> in the {it.in}{it.isRequired && it.in !== "path" ? " (required)" : ""}</dt>
                <dd><div class="dim">{typeOf(it.schema, props.schemas)}</div><Prose text={it.description} /></dd>
              </div>
            )}
          </For>
        </dl>
      </Show>
      <Show when={props.operation.body}>
        {(body) => (
          <>
            <h3>Body{body().isRequired ? "" : " (optional)"}</h3>
            <For each={body().content}>{(content) => <Shape content={content} schemas={props.schemas} />}</For>
          </>
        )}
      </Show>
      <h3>Answers</h3>
      <For each={successes()}>
        {(answer) => (
          <>
            <p><strong>{answer.status}</strong> <Prose text={answer.description} /></p>
            <For each={answer.content}>{(content) => <Shape content={content} schemas={props.schemas} />}</For>
          </>
        )}
      </For>
      <details>
        <summary>Failures: {failures().map((it) => it.status).join(", ") || "none"}</summary>
        <ul><For each={failures()}>{(it) => <li><strong>{it.status}</strong> <Prose text={it.description} /></li>}</For></ul>
      </details>
      <h3>Example</h3>
      <pre tabindex="0" aria-label={`Example of ${props.operation.method} ${props.operation.path}`} role="group"><code>{command()}</code></pre>
      <div class="actions">
        <CopyButton text={command()} label="Copy the command" />
        <Button aria-expanded={isTried()} onClick={() => setTried(!isTried())}>
          Try {props.operation.method} {props.operation.path}
        </Button>
      </div>
      <Show when={isTried()}><TryIt operation={props.operation} schemas={props.schemas} /></Show>
    </section>
  );
}

function Shape(props: { content: Content; schemas: Schemas }) {
  return (
    <div>
      <div class="dim"><code>{props.content.type}</code>: {typeOf(props.content.schema, props.schemas)}</div>
      <SchemaView schema={props.content.schema} schemas={props.schemas} />
    </div>
  );
}
