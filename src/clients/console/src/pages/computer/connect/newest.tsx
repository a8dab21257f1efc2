// What is done on a computer, as it happens: the newest entries of its timeline with their pictures.

import { createSignal, For, onCleanup, onMount, Show } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import { onLive, watchScreen } from "../../../api/live";
import { answerOf, api, fetchPicture, type Schemas } from "../../../api/service";
import { Empty, Failure, Loading, Since } from "../../../ui";
import { called } from "../screen/actors";
import { done, failed } from "./words";

/** Entries that are shown. */
const SHOWN = 20;
/** Milliseconds between looks while nothing is painted: some actions paint nothing. */
const PAUSE = 4000;
/** Least milliseconds between two looks: a busy screen changes all the time. */
const LEAST = 1000;

type Entry = Schemas["ScreenTimelineEntry"];

/** The list. Its computer stays the same while it is shown. */
export function Newest(props: { computer: string }) {
  const [entries, setEntries] = createStore<Entry[]>([]);
  const [state, setState] = createSignal<"loading" | "here">("loading");
  const [error, setError] = createSignal<unknown>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let looked = 0;
  let running = false;
  let again = false;
  const gone = new AbortController();

  const look = async () => {
    clearTimeout(timer);
    // A page that nobody sees asks nothing; `visibilitychange` begins again.
    if (gone.signal.aborted || document.visibilityState !== "visible") return;
    if (running) {
      again = true;
      return;
    }
    running = true;
    again = false;
    looked = Date.now();
    try {
      const params = { path: { id: props.computer }, query: { limit: SHOWN } };
      const page = await answerOf(api.GET("/computers/{id}/timeline", { params, signal: gone.signal }));
      if (gone.signal.aborted) return;
      setEntries(reconcile(page.entries, { key: "id" }));
      setError(undefined);
      setState("here");
    } catch (caught) {
      if (!gone.signal.aborted) setError(caught);
    } finally {
      running = false;
      soon(again ? LEAST : PAUSE);
    }
  };
  const soon = (pause: number) => {
    clearTimeout(timer);
    if (!gone.signal.aborted) timer = setTimeout(() => void look(), pause);
  };
  const seen = () => {
    if (document.visibilityState === "visible") void look();
  };

  onMount(() => {
    document.addEventListener("visibilitychange", seen);
    void look();
  });
  watchScreen(props.computer);
  onLive((message) => {
    if (message.type === "screen" && message.id === props.computer) soon(Math.max(0, LEAST - (Date.now() - looked)));
  });
  onCleanup(() => {
    document.removeEventListener("visibilitychange", seen);
    gone.abort();
    clearTimeout(timer);
  });

  return (
    <Show when={!error()} fallback={<Failure what="The timeline did not come" error={error()} retry={() => void look()} />}>
      <Show when={state() === "here"} fallback={<Loading what="what was done" />}>
        <Show when={entries.length > 0} fallback={
          <Empty title="Nobody has acted yet"><p>Run one of the samples: each action appears here, with a picture.</p></Empty>
        }>
          <ol class="connect-entries" aria-label="Newest actions">
            <For each={entries}>{(entry) => <Line computer={props.computer} entry={entry} />}</For>
          </ol>
        </Show>
      </Show>
    </Show>
  );
}

function Line(props: { computer: string; entry: Entry }) {
  const picture = () => (props.entry.after ? "after" : props.entry.before ? "before" : undefined);
  return (
    <li>
      <Show when={picture()} keyed fallback={<span class="connect-picture" aria-hidden="true" />}>
        {(which) => (
          <Picture path={`/computers/${props.computer}/timeline/${props.entry.id}/${which}`} words={`Screen ${which} ${done(props.entry)}`} />
        )}
      </Show>
      <div>
        <strong>{called(props.entry.by)}</strong> {done(props.entry)}
        <Show when={failed(props.entry)}>{(text) => <span class="bad"> {text()}</span>}</Show>
        <br />
        <small><Since time={props.entry.at} /></small>
      </div>
    </li>
  );
}

/** A picture of the API, which needs the token. */
function Picture(props: { path: string; words: string }) {
  const [address, setAddress] = createSignal<string>();
  const gone = new AbortController();
  onMount(() => {
    // A picture that was removed meanwhile leaves its place empty.
    fetchPicture(props.path, gone.signal).then((blob) => {
      if (!gone.signal.aborted) setAddress(URL.createObjectURL(blob));
    }, () => undefined);
  });
  onCleanup(() => {
    gone.abort();
    const made = address();
    if (made) URL.revokeObjectURL(made);
  });
  return (
    <Show when={address()} fallback={<span class="connect-picture" aria-hidden="true" />}>
      {(address) => <img class="connect-picture" src={address()} alt={props.words} />}
    </Show>
  );
}
