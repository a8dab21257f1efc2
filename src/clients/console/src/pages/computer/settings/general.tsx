// Name, auto-stop, isolation and workspace of a computer.

import { createResource, createSignal } from "solid-js";
import { answerOf, api, type Computer } from "../../../api/service";
import { Field, Loaded, Select, valueOf } from "../../../ui";
import { Part, SaveForm } from "./part";

/** Longest idle time in minutes: 30 days. */
const MAX_IDLE_MINUTES = 43_200;

const ISOLATIONS: Record<Computer["isolation"], string> = {
  sandbox: "Sandbox: a kernel of its own in user space",
  shared: "Shared: the kernel of the host",
  vm: "Virtual machine: a kernel of its own",
};

/** Renames the computer. */
export function Name(props: { computer: Computer }) {
  const [changed, setChanged] = createSignal<string>();
  const save = async () => {
    const params = { path: { id: props.computer.id } };
    const body = { name: (changed() ?? props.computer.name).trim() };
    const renamed = await answerOf(api.PATCH("/computers/{id}", { params, body }));
    setChanged(undefined);
    return `The computer is named ${renamed.name}`;
  };
  return (
    <Part title="Name">
      <SaveForm action="Rename" doing="Renaming…" failed="The computer was not renamed" save={save}
        disabled={changed() === undefined || changed() === props.computer.name}>
        <Field label="Name" required maxLength={255} value={changed() ?? props.computer.name}
          onInput={(event) => setChanged(event.currentTarget.value)} />
      </SaveForm>
    </Part>
  );
}

/** Sets the idle minutes after which the computer suspends itself. */
export function AutoStop(props: { computer: Computer }) {
  const [changed, setChanged] = createSignal<string>();
  const [setting] = createResource(
    // What an idle computer keeps depends on its isolation.
    () => ({ id: props.computer.id, isolation: props.computer.isolation }),
    ({ id }) => answerOf(api.GET("/computers/{id}/auto-stop", { params: { path: { id } } })),
  );
  const current = () => String(props.computer.auto_stop_minutes);
  const save = async () => {
    const params = { path: { id: props.computer.id } };
    const body = { auto_stop_minutes: Number(changed() ?? current()) };
    const done = await answerOf(api.PATCH("/computers/{id}/auto-stop", { params, body }));
    setChanged(undefined);
    if (done.auto_stop_minutes === 0) return "The computer stays on";
    return `The idle computer ${done.keeps_memory ? "suspends" : "stops"} after ${done.auto_stop_minutes} minutes`;
  };
  const hint = () => {
    const known = valueOf(setting);
    if (!known) return "0 keeps it on.";
    return known.keeps_memory
      ? "0 keeps it on. It suspends with its memory, and the next action wakes it."
      : "0 keeps it on. It stops: what is in its memory is lost, and the next action starts it from its disk.";
  };
  return (
    <Part title="Auto-stop">
      <SaveForm action="Save" doing="Saving…" failed="Auto-stop was not changed" save={save}
        disabled={changed() === undefined || changed() === current()}>
        <Field label="Minutes without use" type="number" required min={0} max={MAX_IDLE_MINUTES} step={1} hint={hint()}
          value={changed() ?? current()} onInput={(event) => setChanged(event.currentTarget.value)} />
      </SaveForm>
    </Part>
  );
}

/** Changes the kernel behind a stopped computer. */
export function Isolation(props: { computer: Computer }) {
  const [changed, setChanged] = createSignal<Computer["isolation"]>();
  const [health] = createResource(() => answerOf(api.GET("/health")));
  const isStopped = () => props.computer.status === "stopped";
  const offered = () => {
    const names = (Object.keys(ISOLATIONS) as Computer["isolation"][]);
    return names.filter((name) => name === props.computer.isolation || valueOf(health)?.isolations?.includes(name));
  };
  const save = async () => {
    const params = { path: { id: props.computer.id } };
    const isolation = changed() ?? props.computer.isolation;
    await answerOf(api.PATCH("/computers/{id}", { params, body: { isolation } }));
    setChanged(undefined);
    return "The isolation counts from the next start";
  };
  const choose = (value: string) => setChanged(offered().find((name) => name === value));
  return (
    <Part title="Isolation">
      <SaveForm action="Save" doing="Saving…" failed="The isolation was not changed" save={save}
        disabled={!isStopped() || changed() === undefined || changed() === props.computer.isolation}>
        <Select label="Kernel" value={changed() ?? props.computer.isolation} onChange={choose} disabled={!isStopped()}
          hint={isStopped() ? "It counts from the next start." : "Stop the computer to change it."}
          options={offered().map((value) => ({ value, label: ISOLATIONS[value] }))} />
      </SaveForm>
    </Part>
  );
}

/** Moves the computer to another workspace of its owner. */
export function Workspace(props: { computer: Computer }) {
  const [changed, setChanged] = createSignal<string>();
  const [workspaces, { refetch }] = createResource(async () => (await answerOf(api.GET("/workspaces"))).workspaces);
  const mine = () => (valueOf(workspaces) ?? []).filter((it) => it.user_id === props.computer.user_id);
  const save = async () => {
    const params = { path: { id: props.computer.id } };
    const workspace_id = changed() ?? props.computer.workspace_id;
    await answerOf(api.PATCH("/computers/{id}/move", { params, body: { workspace_id } }));
    setChanged(undefined);
    return `The computer is in ${mine().find((it) => it.id === workspace_id)?.name ?? "the other workspace"} now`;
  };
  return (
    <Part title="Workspace">
      <Loaded of={workspaces} what="the workspaces" retry={() => void refetch()}>
        {() => (
          <SaveForm action="Move" doing="Moving…" failed="The computer was not moved" save={save}
            disabled={changed() === undefined || changed() === props.computer.workspace_id}>
            <Select label="In the workspace" value={changed() ?? props.computer.workspace_id} onChange={setChanged}
              hint="It goes on meanwhile. Members of the old workspace who are not in the new one lose access."
              options={mine().map((it) => ({ value: it.id, label: it.name }))} />
          </SaveForm>
        )}
      </Loaded>
    </Part>
  );
}
