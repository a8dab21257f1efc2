// Place of the terminal that is shown, with its state in words.

import { createEffect, Match, onCleanup, onMount, Switch } from "solid-js";
import { Button } from "../../../ui";
import { createColours } from "../colours";
import type { Session } from "./session";

/** Shows a terminal. `forReaders`: whether its text is also there for screen readers. */
export function Pane(props: { session: Session; forReaders: boolean }) {
  const look = createColours("text", "surface", "accent", "line");
  let place!: HTMLDivElement;
  let frame = 0;
  const fit = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => props.session.fit());
  };
  const observer = new ResizeObserver(fit);
  onMount(() => observer.observe(place));
  onCleanup(() => {
    observer.disconnect();
    cancelAnimationFrame(frame);
  });
  createEffect(() => {
    place.replaceChildren(props.session.element);
    fit();
  });
  createEffect(() => props.session.show(look(), props.forReaders));

  const text = () => {
    const state = props.session.state();
    return "text" in state ? state.text : "";
  };
  return (
    <>
      <div class="terminal-place" ref={place} />
      <p class="terminal-state" role="status">
        <Switch>
          <Match when={props.session.state().is === "connecting"}>Connecting to the shell…</Match>
          <Match when={props.session.state().is === "lost"}>
            <span>{text()}</span> <Button onClick={() => props.session.restart()}>Connect now</Button>
          </Match>
          <Match when={props.session.state().is === "ended"}>
            <span>{text()}.</span> <Button onClick={() => props.session.restart()}>New shell</Button>
          </Match>
          <Match when={true}>
            <span class="dim">
              <kbd>Ctrl+Shift+Escape</kbd> or <kbd>Ctrl+F6</kbd> leaves the terminal, <kbd>Ctrl+Shift+C</kbd> copies,{" "}
              <kbd>Ctrl+Shift+V</kbd> pastes.
            </span>
          </Match>
        </Switch>
      </p>
    </>
  );
}
