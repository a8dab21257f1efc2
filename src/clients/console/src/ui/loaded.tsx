// Something that is fetched: its loading, its failure, and its value.

import { Match, Show, Switch, untrack, type JSX, type Resource } from "solid-js";
import type { Fetched } from "../api/fetched";
import { Failure, Loading } from "./states";

/**
 * Returns the value of a resource, undefined while there is none or after a failure. No `Suspense` around the reader waits for it,
 * so use it for what only completes a page, such as names.
 */
export function valueOf<T>(resource: Resource<T>): T | undefined {
  const isReady = resource.state === "ready" || resource.state === "refreshing";
  return isReady && resource.error === undefined ? resource.latest : undefined;
}

/**
 * Shows a resource by its state. `what` completes "Loading …" and "Could not load …". The value stays in place while it is
 * fetched again, and no `Suspense` around it hides the rest of the page.
 */
export function Loaded<T>(props: {
  of: Resource<T>;
  what: string;
  retry?: (() => void) | undefined;
  children: (value: () => T) => JSX.Element;
}) {
  return (
    <Switch fallback={<Loading what={props.what} />}>
      <Match when={props.of.error !== undefined}>
        <Failure what={`Could not load ${props.what}`} error={props.of.error} {...(props.retry && { retry: props.retry })} />
      </Match>
      <Match when={props.of.state === "ready" || props.of.state === "refreshing"}>
        {untrack(() => props.children(() => props.of.latest as T))}
      </Match>
    </Switch>
  );
}

/** Says that something is fetched for the first time, or why it could not be fetched. What was fetched before stays beside it. */
export function FetchState<T>(props: { of: Fetched<T>; what: string }) {
  return (
    <Show when={props.of.failure()} fallback={<Show when={props.of.value() === undefined}><Loading what={props.what} /></Show>}>
      {(error) => <Failure what={`Could not load ${props.what}`} error={error()} retry={() => void props.of.refetch()} />}
    </Show>
  );
}
