// Dialogs of snapshots: take one, and launch a computer from one.

import { createSignal } from "solid-js";
import { answerOf, api, type Computer, type Schemas } from "../../../api/service";
import { attempt, Button, Dialog, Field, notify, Switch } from "../../../ui";

/** Asks for the name of a snapshot and whether it has the memory, and takes it. */
export function CreateSnapshot(props: { computer: Computer; onClose: () => void; onCreated: () => void }) {
  const [name, setName] = createSignal("");
  const [memory, setMemory] = createSignal(false);
  const [isBusy, setBusy] = createSignal(false);
  const reason = () => {
    if (props.computer.isolation === "shared") return "Its isolation is “shared”, which cannot save memory.";
    return props.computer.status === "running" ? undefined : "It does not run, so there is no memory to save.";
  };
  const create = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    const params = { path: { id: props.computer.id } };
    const body = { name: name().trim() || null, memory: memory() && reason() === undefined };
    const made = await attempt("The snapshot was not taken", () =>
      answerOf(api.POST("/computers/{id}/snapshots", { params, body })));
    setBusy(false);
    if (!made) return;
    if (made.state === "ready") notify({ text: "The snapshot is taken", tone: "good" });
    props.onCreated();
    props.onClose();
  };
  return (
    <Dialog open title={`Snapshot of ${props.computer.name}`} onClose={props.onClose}>
      <form onSubmit={(event) => void create(event)}>
        <Field label="Name" hint="For example what you are about to do. It may be empty." maxLength={255} value={name()}
          onInput={(event) => setName(event.currentTarget.value)} />
        <Switch label="With memory: programs and windows, too" checked={memory()} disabled={reason() !== undefined} onChange={setMemory} />
        <p class="dim">{reason() ?? "With memory, its connections end for a moment, and it can be launched as another computer."}</p>
        <footer class="actions">
          <Button onClick={() => props.onClose()}>Cancel</Button>
          <Button look="primary" type="submit" busy={isBusy()}>{isBusy() ? "Taking the snapshot…" : "Create"}</Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Asks for a name and launches a new computer from a snapshot with memory. */
export function LaunchSnapshot(props: {
  computer: Computer;
  snapshot: Schemas["Snapshot"];
  /** What a person calls the snapshot. */
  name: string;
  onClose: () => void;
  /** Gets the id of the new computer. */
  onLaunched: (id: string) => void;
}) {
  const [name, setName] = createSignal("");
  const [isBusy, setBusy] = createSignal(false);
  const launch = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    const params = { path: { id: props.computer.id } };
    const body = { snapshot_id: props.snapshot.id, name: name().trim() || null };
    const made = await attempt("The computer was not launched", () => answerOf(api.POST("/computers/{id}/fork", { params, body })));
    setBusy(false);
    if (!made) return;
    props.onClose();
    props.onLaunched(made.id);
  };
  return (
    <Dialog open title={`Launch from “${props.name}”`} onClose={props.onClose}>
      <form onSubmit={(event) => void launch(event)}>
        <p>A new computer goes on from this moment, with its programs and windows. {props.computer.name} does not change.</p>
        <Field label="Name" hint={`“${props.computer.name} (fork)” when it is empty`} maxLength={255} value={name()}
          onInput={(event) => setName(event.currentTarget.value)} />
        <footer class="actions">
          <Button onClick={() => props.onClose()}>Cancel</Button>
          <Button look="primary" type="submit" busy={isBusy()}>{isBusy() ? "Launching…" : "Launch"}</Button>
        </footer>
      </form>
    </Dialog>
  );
}
