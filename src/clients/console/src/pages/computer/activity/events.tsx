// Events of a computer as they happen.

import { useSearchParams } from "@solidjs/router";
import Pause from "lucide-solid/icons/pause";
import Play from "lucide-solid/icons/play";
import { createMemo, For, Show } from "solid-js";
import type { Computer } from "../../../api/service";
import { Button, Empty, Select, Since } from "../../../ui";
import { eventInWords, typeInWords } from "./event-words";
import { createFeed } from "./feed";
import { counted } from "./words";

/** The events of a computer from now on. The query `type` is the filter. */
export function Events(props: { computer: Computer }) {
  const running = createMemo(() => (props.computer.status === "running" ? props.computer.id : undefined));
  return (
    <Show when={running()} keyed fallback={
      <Empty title="The computer does not run">
        <p>Events come from a running computer. Start it, and they appear here as they happen.</p>
      </Empty>
    }>
      {(id) => <List id={id} />}
    </Show>
  );
}

function List(props: { id: string }) {
  const [search, setSearch] = useSearchParams<{ type: string }>();
  const feed = createFeed(props.id);
  const shown = createMemo(() => {
    const type = search.type;
    return type ? feed.events().filter((event) => event.type === type) : feed.events();
  });
  const choices = createMemo(() => {
    const types = new Set(feed.types());
    if (search.type) types.add(search.type);
    return [{ value: "", label: "All types" }, ...[...types].map((value) => ({ value, label: typeInWords(value) }))];
  });
  const state = () => {
    switch (feed.state()) {
      case "connecting":
        return "Connecting to the computer's events…";
      case "lost":
        return `The connection was lost${feed.failure() === undefined ? "" : `: ${reason(feed.failure())}`}. Connecting again…`;
      case "live":
        return feed.isPaused() ? "Paused: new events wait." : "Live: new events appear at the top.";
    }
  };
  return (
    <section aria-label="Events">
      <div class="bar activity-bar">
        <Select label="Type" value={search.type ?? ""} options={choices()}
          onChange={(value) => setSearch({ type: value || undefined }, { replace: true })} />
        <p class="grow dim" role="status">{state()}</p>
        <Show when={feed.isPaused()} fallback={
          <Button onClick={() => feed.pause(true)}><Pause size={16} aria-hidden="true" />Pause</Button>
        }>
          <Button look="primary" onClick={() => feed.pause(false)}>
            <Play size={16} aria-hidden="true" />{feed.waiting() > 0 ? `Continue (${feed.waiting()} new)` : "Continue"}
          </Button>
        </Show>
        <Button disabled={feed.events().length === 0 && feed.waiting() === 0} onClick={feed.clear}>Clear</Button>
      </div>
      <Show when={feed.missed() > 0}>
        <p class="dim">{counted(feed.missed(), "event")} came too fast and were missed.</p>
      </Show>
      <ol class="activity-events" aria-label="Events, newest first">
        <For each={shown()} fallback={
          <li>
            <Empty title={search.type ? "No event of this type yet" : "Nothing has happened yet"}>
              <p>Windows, files, the clipboard, processes and sound of the computer appear here from now on.</p>
            </Empty>
          </li>
        }>
          {(event) => (
            <li>
              <span class="activity-type">{typeInWords(event.type)}</span>
              <span class="activity-what">{eventInWords(event)}</span>
              <small><Since time={event.timestamp} /></small>
            </li>
          )}
        </For>
      </ol>
    </section>
  );
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
