// API reference: every operation of the OpenAPI document, by subject.

import { A, useLocation } from "@solidjs/router";
import { createEffect, createMemo, createSignal, For, Show } from "solid-js";
import reference, { type Operation as Described } from "virtual:docs/reference";
import { createTitle } from "../../../app/title";
import { Empty, Field, LinkButton } from "../../../ui";
import { scrollToFragment } from "../fold";
import { Operation } from "./operation";
import { Signature } from "./prose";

/** Returns a subject's part of the address. */
const slug = (tag: string) => tag.replaceAll(" ", "-");

const addressOf = (it: Described) => `/docs/reference/${slug(it.tag)}#${it.id}`;

/** The reference of a subject; of all of them when it is empty. */
export default function Page(props: { subject: string }) {
  const tag = createMemo(() => reference.tags.find((it) => slug(it.name) === props.subject));
  createTitle(() => tag()?.name ?? "API reference");
  return (
    <Show when={props.subject !== ""} fallback={<Contents />}>
      <Show when={tag()} keyed fallback={
        <Empty title="The reference has no such subject"><LinkButton href="/docs/reference">All operations</LinkButton></Empty>
      }>
        {(tag) => <Subject name={tag.name} description={tag.description} />}
      </Show>
    </Show>
  );
}

function Contents() {
  const [text, setText] = createSignal("");
  const matches = (it: Described) => {
    const all = `${it.method} ${it.path} ${it.summary}`.toLowerCase();
    return text().toLowerCase().split(/\s+/).every((word) => all.includes(word));
  };
  const tags = createMemo(() => reference.tags
    .map((tag) => ({ ...tag, operations: reference.operations.filter((it) => it.tag === tag.name && matches(it)) }))
    .filter((tag) => tag.operations.length > 0));
  return (
    <div class="docs-reference">
      <h1>API reference</h1>
      <p>
        All {reference.operations.length} operations of version {reference.version}. Paths are below <code>{location.origin}/api</code>.
        Rules for all of them are in <A href="/docs/api/conventions">conventions</A>, codes of failures in <A href="/docs/api/errors">errors</A>.
      </p>
      <Field label="Find an operation" type="search" value={text()} onInput={(event) => setText(event.currentTarget.value)} />
      <For each={tags()} fallback={<p class="dim">No operation has all these words.</p>}>
        {(tag) => (
          <section>
            <h2><A href={`/docs/reference/${slug(tag.name)}`}>{tag.name}</A> <small>{tag.description}</small></h2>
            <ul>
              <For each={tag.operations}>
                {(it) => <li><A href={addressOf(it)}><Signature method={it.method} path={it.path} /></A> <small>{it.summary}</small></li>}
              </For>
            </ul>
          </section>
        )}
      </For>
    </div>
  );
}

function Subject(props: { name: string; description: string }) {
  const location = useLocation();
  createEffect(() => scrollToFragment(location.hash));
  return (
    <div class="docs-reference">
      <div><h1>{props.name}</h1><p class="dim">{props.description}. <A href="/docs/reference">All operations</A></p></div>
      <For each={reference.operations.filter((it) => it.tag === props.name)}>
        {(it) => <Operation operation={it} schemas={reference.schemas} />}
      </For>
    </div>
  );
}
