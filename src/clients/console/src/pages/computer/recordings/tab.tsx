// Tab of a computer's recordings: record its screen, and play, keep and delete what was recorded.

import { useSearchParams } from "@solidjs/router";
import CircleDot from "lucide-solid/icons/circle-dot";
import { createMemo, createSignal, For, Show } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import { createFetched, every } from "../../../api/fetched";
import { answerOf, api, type Computer, type Schemas } from "../../../api/service";
import { attempt, Button, Empty, Failure, Loading, notify, Select } from "../../../ui";
import { pageVisible } from "../../../ui/visible";
import { Player } from "./player";
import { Row } from "./row";
import "./recordings.css";

type Recording = Schemas["Recording"];

/** Milliseconds between two looks at recordings in progress. */
const PAUSE = 3000;

const LENGTHS = [
  { value: "60", label: "1 minute" },
  { value: "600", label: "10 minutes" },
  { value: "3600", label: "1 hour" },
];
const RATES = [
  { value: "5", label: "5 a second" },
  { value: "10", label: "10 a second" },
  { value: "30", label: "30 a second" },
];

/** The tab. The query `recording` is the one in the player. */
export default function Tab(props: { computer: Computer }) {
  const running = createMemo(() => (props.computer.status === "running" ? props.computer.id : undefined));
  return (
    <Show when={running()} keyed fallback={
      <Empty title="The computer does not run">
        <p>Its recordings are on its own disk. Start it to see them, or to record its screen.</p>
      </Empty>
    }>
      {(id) => <List id={id} />}
    </Show>
  );
}

function List(props: { id: string }) {
  const [search, setSearch] = useSearchParams<{ recording: string }>();
  const path = () => ({ path: { id: props.id } });
  // A store keeps the rows as they are when the list is fetched again.
  const [recordings, setRecordings] = createStore<Recording[]>([]);
  const fetched = createFetched(() => props.id, async (id, signal) => {
    const list = await answerOf(api.GET("/computers/{id}/recordings", { params: { path: { id } }, signal }));
    setRecordings(reconcile(list.recordings.toReversed(), { key: "id" }));
    return true;
  });
  const screens = createFetched(() => props.id, async (id, signal) =>
    (await answerOf(api.GET("/computers/{id}/screens", { params: { path: { id } }, signal }))).screens);
  const [length, setLength] = createSignal("600");
  const [rate, setRate] = createSignal("10");
  const [screen, setScreen] = createSignal<string>();
  const [isStarting, setStarting] = createSignal(false);

  const wanted = () => screen() ?? screens.value()?.find((it) => it.default)?.id ?? "default";
  const isRecorded = () => recordings.some((it) => it.status === "recording" && it.screen === wanted());
  const inPlayer = createMemo(() => recordings.find((it) => it.id === search.recording && it.status !== "recording"));
  every(PAUSE, () => pageVisible() && recordings.some((it) => it.status === "recording"), fetched.refetch);

  const play = (recording: Recording | undefined) => setSearch({ recording: recording?.id });
  const start = async () => {
    setStarting(true);
    await attempt("The recording could not be started", async () => {
      const body = { max_seconds: Number(length()), fps: Number(rate()), screen: screen() };
      await answerOf(api.POST("/computers/{id}/recordings", { params: path(), body }));
      notify({ text: "The screen is being recorded", tone: "good" });
      await fetched.refetch();
    });
    setStarting(false);
  };

  return (
    <div class="stack recordings">
      <div class="bar recordings-bar">
        <Show when={(screens.value()?.length ?? 0) > 1}>
          <Select label="Screen" value={wanted()} onChange={setScreen}
            options={(screens.value() ?? []).map(({ id, default: isFirst }) => ({ value: id, label: isFirst ? `${id} (boot)` : id }))} />
        </Show>
        <Select label="At most" value={length()} options={LENGTHS} onChange={setLength} />
        <Select label="Pictures" value={rate()} options={RATES} onChange={setRate} />
        <Button look="primary" busy={isStarting()} disabled={isRecorded()} onClick={start}>
          <CircleDot size={16} aria-hidden="true" />
          {isStarting() ? "Starting…" : isRecorded() ? "Being recorded" : "Record the screen"}
        </Button>
      </div>
      <Show when={inPlayer()} keyed>
        {(recording) => <Player computer={props.id} recording={recording} onClose={() => play(undefined)} />}
      </Show>
      <Show when={fetched.failure() !== undefined}>
        <Failure what="The recordings could not be fetched" error={fetched.failure()} retry={fetched.refetch} />
      </Show>
      <Show when={fetched.value()} fallback={
        <Show when={fetched.failure() === undefined}><Loading what="the recordings" /></Show>
      }>
        <ul class="recordings-list" aria-label="Recordings, newest first">
          <For each={recordings} fallback={
            <li>
              <Empty title="No recordings yet">
                <p>Press “Record the screen”: the video and what is done on the screen are kept on the computer.</p>
              </Empty>
            </li>
          }>
            {(recording) => (
              <Row computer={props.id} recording={recording} isPlayed={inPlayer()?.id === recording.id}
                onPlay={() => play(recording)} onChange={fetched.refetch}
                onDelete={() => { if (search.recording === recording.id) play(undefined); }} />
            )}
          </For>
        </ul>
      </Show>
    </div>
  );
}
