// Text of the OpenAPI document, in which code is between backticks.

import { For } from "solid-js";

/** The text as one paragraph's content. */
export function Prose(props: { text: string }) {
  // Every other part is code.
  return <For each={props.text.split("`")}>{(part, at) => (at() % 2 === 1 ? <code>{part}</code> : part)}</For>;
}

/** Method and path of an operation. */
export function Signature(props: { method: string; path: string }) {
  return <code><span class="docs-method" data-method={props.method}>{props.method}</span> {props.path}</code>;
}
