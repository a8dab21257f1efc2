// Action timeline: who did what on the screens of a computer, with pictures from before and after.

import { useSearchParams } from "@solidjs/router";
import ArrowRight from "lucide-solid/icons/arrow-right";
import Download from "lucide-solid/icons/download";
import Undo from "lucide-solid/icons/undo-2";
import { createMemo, createSignal, For, Show } from "solid-js";
import { answerOf, api, fetchBlob, type Computer } from "../../../api/service";
import { attempt, Button, confirm, Empty, Failure, Loading, notify, Select, Since } from "../../../ui";
import { saveBlob } from "../../../ui/save";
import { createEntries } from "./entries";
import { Thumb } from "./thumb";
import { ACTOR_KINDS, actionInWords, actorFilter, actorInWords, counted, effectInWords, type Entry } from "./words";

interface Choice {
  value: string;
  label: string;
}

const EVERYBODY: Choice = { value: "", label: "Everybody" };

/** The timeline of a computer. The query `by` is the filter. */
export function Timeline(props: { computer: Computer }) {
  const [search] = useSearchParams<{ by: string }>();
  // Another computer or another filter is another list.
  const key = createMemo(() => `${props.computer.id} ${search.by ?? ""}`);
  // `Show` makes its child anew for each key only when the child takes it.
  return <Show when={key()} keyed>{(_key) => <List computer={props.computer} />}</Show>;
}

function List(props: { computer: Computer }) {
  const [search, setSearch] = useSearchParams<{ by: string }>();
  const id = props.computer.id;
  const by = search.by;
  const timeline = createEntries(id, by);
  const [isFetching, setFetching] = createSignal(false);
  const [isExporting, setExporting] = createSignal(false);

  /** Choices of actors that entries name. They stay the same objects, so that an open list of choices stays as it is. */
  const named = new Map<string, Choice>();
  const choices = createMemo((): Choice[] => {
    for (const { by } of timeline.entries) {
      const value = actorFilter(by);
      if (value?.includes(":") && !named.has(value)) named.set(value, { value, label: actorInWords(by) });
    }
    // The actor of the address may be in none of the entries.
    const isKnown = !by || named.has(by) || ACTOR_KINDS.some((kind) => kind.value === by);
    if (!isKnown) named.set(by, { value: by, label: by });
    return [EVERYBODY, ...ACTOR_KINDS, ...named.values()];
  });
  const older = async () => {
    setFetching(true);
    await attempt("Older actions could not be fetched", timeline.older);
    setFetching(false);
  };
  const save = async () => {
    setExporting(true);
    await attempt("The timeline could not be exported", async () => {
      const query = by ? `?by=${encodeURIComponent(by)}` : "";
      saveBlob(await fetchBlob(`/computers/${id}/timeline/export${query}`), `timeline-${props.computer.name}.jsonl`);
    });
    setExporting(false);
  };

  return (
    <section aria-label="Action timeline">
      <div class="bar activity-bar">
        <Select label="Actions by" value={by ?? ""} options={choices()}
          onChange={(value) => setSearch({ by: value || undefined }, { replace: true })} />
        <span class="grow" />
        <Button busy={isExporting()} onClick={save}>
          <Download size={16} aria-hidden="true" />{isExporting() ? "Exporting…" : "Export as JSON lines"}
        </Button>
      </div>
      <Show when={timeline.failure() !== undefined && timeline.isLoaded()}>
        <p class="bad" role="status">New actions could not be fetched: {String(timeline.failure())}. Trying again…</p>
      </Show>
      <Show when={timeline.isLoaded()} fallback={
        <Show when={timeline.failure() !== undefined} fallback={<Loading what="the timeline" />}>
          <Failure what="The timeline could not be fetched" error={timeline.failure()} retry={timeline.refresh} />
        </Show>
      }>
        <ol class="activity-entries" aria-label="Actions, newest first">
          <For each={timeline.entries} fallback={
            <li>
              <Empty title={by ? "Nobody of this kind has acted" : "Nobody has acted yet"}>
                <p>
                  {by
                    ? "Choose “Everybody” to see all actions."
                    : "Actions of people, models, programs and MCP clients appear here as they happen."}
                </p>
              </Empty>
            </li>
          }>
            {(entry) => <Row computer={props.computer} entry={entry} />}
          </For>
        </ol>
        <Show when={timeline.hasOlder()}>
          <Button busy={isFetching()} onClick={older}>{isFetching() ? "Fetching older actions…" : "Show older actions"}</Button>
        </Show>
      </Show>
    </section>
  );
}

function Row(props: { computer: Computer; entry: Entry }) {
  const path = (picture: "before" | "after") =>
    props.entry[picture] ? `/computers/${props.computer.id}/timeline/${props.entry.id}/${picture}` : undefined;
  const words = () => actionInWords(props.entry);
  const thread = () => (props.entry.by?.kind === "thread" ? props.entry.by.id : undefined);
  const goBack = async () => {
    const yes = await confirm({
      title: "Go back to before this action?",
      text: `${props.computer.name} returns to its newest snapshot from before this action, with its memory. Everything that `
        + "happened on it since that snapshot is lost. The timeline stays.",
      action: "Go back",
    });
    if (!yes) return;
    await attempt("The computer could not go back", async () => {
      const params = { path: { id: props.computer.id, entry_id: props.entry.id } };
      const went = await answerOf(api.POST("/computers/{id}/timeline/{entry_id}/go_back", { params }));
      const also = went.entries_between > 0 ? `; ${counted(went.entries_between, "earlier action")} after the snapshot too` : "";
      notify({ text: `${props.computer.name} goes back to before this action${also}`, tone: "good" });
    });
  };
  return (
    <li class="activity-entry">
      <div class="activity-pictures">
        <Thumb path={path("before")} alt={`The screen before: ${words()}`} />
        <ArrowRight size={16} aria-hidden="true" />
        <Thumb path={path("after")} alt={`The screen after: ${words()}`} />
      </div>
      <div class="activity-words">
        <p>
          <Show when={thread()} fallback={<strong>{actorInWords(props.entry.by)}</strong>}>
            {(thread) => <a href={`/console/threads/${thread()}`}><strong>{actorInWords(props.entry.by)}</strong></a>}
          </Show>
          {" "}{words()}
        </p>
        <Show when={effectInWords(props.entry)}>{(effect) => <p classList={{ bad: !props.entry.success }}>{effect()}</p>}</Show>
        <p class="dim">
          <Since time={props.entry.at} />, took {props.entry.took.toFixed(2)} s
          <Show when={props.entry.screen !== "default"}>, on screen {props.entry.screen}</Show>
          <Show when={props.entry.source === "vnc"}>, in a viewer</Show>
        </p>
        <Show when={props.entry.lost_before}>
          {(lost) => <p class="dim">{counted(lost(), "action")} before this one came too fast to be kept</p>}
        </Show>
      </div>
      <Show when={props.entry.snapshot_id}>
        <Button look="quiet" onClick={goBack}><Undo size={16} aria-hidden="true" />Go back to before this</Button>
      </Show>
    </li>
  );
}
