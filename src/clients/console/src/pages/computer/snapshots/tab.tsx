// Snapshots of a computer: create, roll back, launch, delete.

import { useNavigate } from "@solidjs/router";
import { createEffect, createResource, createSignal, For, onCleanup, Show } from "solid-js";
import { answerOf, api, type Computer, type Schemas } from "../../../api/service";
import { attempt, Button, Bytes, confirm, Empty, Loaded, Menu, notify, Since, valueOf } from "../../../ui";
import { since } from "../../../ui/values";
import { createRows } from "../../../api/rows";
import { pageVisible } from "../../../ui/visible";
import { Thumb } from "../activity/thumb";
import { CreateSnapshot, LaunchSnapshot } from "./dialogs";
import "./snapshots.css";

type Snapshot = Schemas["Snapshot"];

/** Most snapshots on the page: the most that the service answers at once. */
const MOST = 1000;
/** Milliseconds before snapshots that are being made or removed are looked at again. */
const AGAIN = 2000;
/** States in which a computer can be rolled back: those that last. */
const SETTLED: readonly string[] = ["running", "stopped", "suspended", "error"] satisfies Computer["status"][];

const load = (id: string) =>
  answerOf(api.GET("/computers/{id}/snapshots", { params: { path: { id }, query: { limit: MOST } } }));

/** Returns what a person calls a snapshot. */
function nameOf(snapshot: Snapshot): string {
  return snapshot.name ?? `Snapshot of ${new Date(snapshot.created_at).toLocaleString()}`;
}

/** Returns the path of a snapshot's picture; undefined without one. */
function picturePath(snapshot: Snapshot): string | undefined {
  if (!snapshot.has_picture) return undefined;
  return `/computers/${snapshot.computer_id}/snapshots/${snapshot.id}/picture`;
}

/** The tab. */
export default function Tab(props: { computer: Computer }) {
  const navigate = useNavigate();
  const [list, { refetch }] = createResource(() => props.computer.id, load);
  // The newest first. They stay the same entries while they are looked at again, with their pictures.
  const rows = createRows(() => valueOf(list)?.snapshots.toReversed(), "id");
  const [creates, setCreates] = createSignal(false);
  const [launched, setLaunched] = createSignal<Snapshot>();
  const [busy, setBusy] = createSignal<string>();
  const canCreate = () => props.computer.status === "running" || props.computer.status === "stopped";
  const canRollBack = () => SETTLED.includes(props.computer.status);

  createEffect(() => {
    const isMoving = valueOf(list)?.snapshots.some((it) => it.state !== "ready");
    if (!isMoving || list.loading || !pageVisible()) return;
    const timer = setTimeout(() => void refetch(), AGAIN);
    onCleanup(() => clearTimeout(timer));
  });

  const doing = async <T,>(snapshot: Snapshot, failed: string, work: () => Promise<T>): Promise<T | undefined> => {
    setBusy(snapshot.id);
    const done = await attempt(failed, work);
    setBusy(undefined);
    return done;
  };
  const rollBack = async (snapshot: Snapshot) => {
    const { id, name } = props.computer;
    const time = since(Date.parse(snapshot.created_at));
    const then = snapshot.memory
      ? "Programs and windows go on as they were then."
      : "Programs end, and the computer starts from its disk if it runs now.";
    const isAgreed = await confirm({
      title: `Roll back to “${nameOf(snapshot)}”?`,
      text: `Everything that was written on the computer since then (${time}) is lost. ${then} The snapshot stays.`,
      action: "Roll back",
    });
    if (!isAgreed) return;
    const params = { path: { id } };
    const body = { snapshot_id: snapshot.id };
    const done = await doing(snapshot, "The computer was not rolled back", () =>
      answerOf(api.POST("/computers/{id}/rollback", { params, body })));
    // The answer may come before the end.
    if (done && SETTLED.includes(done.status)) notify({ text: `${name} is rolled back: it is ${done.status}`, tone: "good" });
    else if (done) notify({ text: `${name} is still being rolled back: its state above changes when it is done` });
  };
  const remove = async (snapshot: Snapshot) => {
    const question = { title: `Delete “${nameOf(snapshot)}”?`, text: "The computer does not change.", action: "Delete the snapshot" };
    if (!(await confirm(question))) return;
    const params = { path: { id: props.computer.id, snapshot_id: snapshot.id } };
    await doing(snapshot, "The snapshot was not deleted", () =>
      answerOf(api.DELETE("/computers/{id}/snapshots/{snapshot_id}", { params })));
    void refetch();
  };

  return (
    <div class="stack">
      <div class="bar snapshots-bar">
        <p class="dim">A snapshot is the computer at one moment: its disk, and with memory also what runs.</p>
        <span class="grow" />
        <Button look="primary" disabled={!canCreate()} onClick={() => setCreates(true)}>Create a snapshot</Button>
      </div>
      <Show when={!canCreate()}>
        <p class="dim">
          A snapshot can be taken while the computer is running or stopped. It is {props.computer.status} now
          {canRollBack() ? "." : ", and cannot be rolled back either."}
        </p>
      </Show>
      <Loaded of={list} what="the snapshots" retry={() => void refetch()}>
        {(found) => (
          <Show when={found().snapshots.length > 0} fallback={
            <Empty title="No snapshot yet">
              <p>Take one before something risky: a roll back brings everything back as it was.</p>
            </Empty>
          }>
            <Show when={found().total > found().snapshots.length}>
              <p class="dim">The oldest {found().snapshots.length} of {found().total} snapshots are shown.</p>
            </Show>
            <ul class="snapshots-list" aria-label="Snapshots">
              <For each={rows()}>
                {(snapshot) => (
                  <li class="card snapshots-entry">
                    <Thumb alt={`Screen in ${nameOf(snapshot)}`} path={picturePath(snapshot)} />
                    <div class="snapshots-about">
                      <strong>{nameOf(snapshot)}</strong>
                      <span class="dim">
                        <Since time={snapshot.created_at} />
                        <Show when={snapshot.size_bytes} fallback=", size not known yet">{(size) => <>, <Bytes value={size()} /></>}</Show>
                        {snapshot.memory ? ", disk and memory" : ", disk"}
                      </span>
                    </div>
                    <Show when={snapshot.state === "ready"} fallback={
                      <span role="status">{snapshot.state === "creating" ? "Being taken…" : "Being removed…"}</span>
                    }>
                      <Button busy={busy() === snapshot.id} disabled={!canRollBack()} aria-label={`Roll back to ${nameOf(snapshot)}`}
                        onClick={() => void rollBack(snapshot)}>
                        {busy() === snapshot.id ? "Working…" : "Roll back"}
                      </Button>
                      <Menu label={`More actions on ${nameOf(snapshot)}`} items={[
                        {
                          label: snapshot.memory ? "Launch a new computer" : "Launch a new computer (needs memory)",
                          disabled: !snapshot.memory,
                          onSelect: () => setLaunched(snapshot),
                        },
                        { label: "Delete", danger: true, separated: true, onSelect: () => void remove(snapshot) },
                      ]} />
                    </Show>
                  </li>
                )}
              </For>
            </ul>
          </Show>
        )}
      </Loaded>
      <Show when={creates()}>
        <CreateSnapshot computer={props.computer} onClose={() => setCreates(false)} onCreated={() => void refetch()} />
      </Show>
      <Show when={launched()}>
        {(snapshot) => (
          <LaunchSnapshot computer={props.computer} snapshot={snapshot()} name={nameOf(snapshot())}
            onClose={() => setLaunched(undefined)} onLaunched={(id) => navigate(`/console/computers/${id}`)} />
        )}
      </Show>
    </div>
  );
}
