// Fields of a body, as deep as the reader opens them.

import { createSignal, For, Show } from "solid-js";
import type { Schema } from "virtual:docs/reference";
import { Prose } from "./prose";
import { MOST_DEPTH, resolved, typeOf, variants, type Schemas } from "./schema";

/** Fields of a schema: those of each variant when it is one of several. Nothing for a plain value. */
export function SchemaView(props: { schema: Schema; schemas: Schemas; depth?: number }) {
  const depth = () => props.depth ?? 0;
  const schema = () => resolved(props.schema, props.schemas);
  const isSeveral = () => variants(schema()).length > 1;
  return (
    <Show when={isSeveral()} fallback={<Fields schema={only(schema(), props.schemas)} schemas={props.schemas} depth={depth()} />}>
      <For each={variants(schema())}>
        {(variant) => (
          <Opening title={typeOf(variant, props.schemas)} schema={variant} schemas={props.schemas} depth={depth()} />
        )}
      </For>
    </Show>
  );
}

/** Returns what has the fields: the only variant, or the elements of an array. */
function only(schema: Schema, schemas: Schemas): Schema {
  const [variant = schema] = variants(schema);
  const found = resolved(variant, schemas);
  return found.items ? resolved(found.items, schemas) : found;
}

function hasFields(schema: Schema, schemas: Schemas): boolean {
  const found = resolved(schema, schemas);
  return variants(found).some((it) => {
    const inner = only(resolved(it, schemas), schemas);
    return inner.properties !== undefined || inner.allOf !== undefined || variants(inner).length > 1;
  });
}

/** A line that opens to fields. */
function Opening(props: { title: string; schema: Schema; schemas: Schemas; depth: number }) {
  const [isOpen, setOpen] = createSignal(false);
  return (
    <Show when={props.depth < MOST_DEPTH && hasFields(props.schema, props.schemas)} fallback={<div class="dim">{props.title}</div>}>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary class="dim">{props.title}</summary>
        <Show when={isOpen()}><SchemaView schema={props.schema} schemas={props.schemas} depth={props.depth + 1} /></Show>
      </details>
    </Show>
  );
}

function Fields(props: { schema: Schema; schemas: Schemas; depth: number }) {
  const parts = () => (props.schema.allOf ?? [props.schema]).map((it) => resolved(it, props.schemas));
  const fields = () => parts().flatMap((part) =>
    Object.entries(part.properties ?? {}).map(([name, schema]) => ({
      name,
      schema,
      isRequired: part.required?.includes(name) === true,
    })));
  return (
    <Show when={fields().length > 0}>
      <dl class="docs-schema">
        <For each={fields()}>
          {(field) => (
            <div>
              <dt><code>{field.name}</code>{field.isRequired ? " (required)" : ""}</dt>
              <dd>
                <Opening title={typeOf(field.schema, props.schemas)} schema={field.schema} schemas={props.schemas} depth={props.depth} />
                <Prose text={resolved(field.schema, props.schemas).description ?? ""} />
              </dd>
            </div>
          )}
        </For>
      </dl>
    </Show>
  );
}
