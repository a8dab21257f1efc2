// States of a page or a part that has nothing to show.

import { Show, type JSX } from "solid-js";
import { Button } from "./button";

/** Nothing is here yet; `children` say what to do. */
export function Empty(props: { title: string; children?: JSX.Element }) {
  return <section class="state"><h2>{props.title}</h2>{props.children}</section>;
}

/** Something is being fetched; `what` completes "Loading …". */
export function Loading(props: { what: string }) {
  return <p class="state" role="status">Loading {props.what}…</p>;
}

/** Something failed: what, why, and a way to try again. */
export function Failure(props: { error: unknown; what: string; retry?: () => void }) {
  const text = () => (props.error instanceof Error ? props.error.message : String(props.error));
  return (
    <section class="state bad" role="alert">
      <h2>{props.what}</h2>
      <p>{text()}</p>
      <Show when={props.retry}>{(retry) => <Button onClick={() => retry()()}>Try again</Button>}</Show>
    </section>
  );
}
