// Dialogs for a new folder and a new path.

import { createSignal } from "solid-js";
import { answerOf, api } from "../../../api/service";
import { Button, Dialog, Field } from "../../../ui";
import { join, nameFault } from "./path";

/** Asks for the name of a new folder, and makes it. */
export function NewFolder(props: { computer: string; folder: string; onClose: () => void; onDone: () => void }) {
  const [name, setName] = createSignal("");
  const make = async () => {
    const params = { path: { id: props.computer } };
    await answerOf(api.POST("/computers/{id}/files/mkdir", { params, body: { path: join(props.folder, name()) } }));
  };
  return (
    <Ask title="New folder" action="Make the folder" doing="Making…" fault={nameFault(name())} work={make}
      onClose={props.onClose} onDone={props.onDone} label="Name" value={name()} onValue={setName} hint={`In ${props.folder}`} />
  );
}

/** Asks for the new path of a file or folder, and moves it. */
export function Rename(props: { computer: string; path: string; onClose: () => void; onDone: () => void }) {
  const [to, setTo] = createSignal(props.path);
  const fault = () => {
    if (!to().startsWith("/")) return "Enter the whole path, from the first slash on";
    if (to() === props.path) return "This is its path now";
    return nameFault(to().slice(to().lastIndexOf("/") + 1));
  };
  const move = async () => {
    const params = { path: { id: props.computer } };
    await answerOf(api.POST("/computers/{id}/files/move", { params, body: { from: props.path, to: to() } }));
  };
  return (
    <Ask title="Rename or move" action="Move" doing="Moving…" fault={fault()} work={move}
      onClose={props.onClose} onDone={props.onDone} label="New path" value={to()} onValue={setTo}
      hint="Nothing is replaced: a path that exists is refused." />
  );
}

function Ask(props: {
  title: string;
  label: string;
  hint: string;
  value: string;
  onValue: (value: string) => void;
  /** What is wrong with the value. */
  fault: string | undefined;
  action: string;
  doing: string;
  work: () => Promise<void>;
  onClose: () => void;
  onDone: () => void;
}) {
  const [isBusy, setBusy] = createSignal(false);
  const [refusal, setRefusal] = createSignal<string>();
  const [isTouched, setTouched] = createSignal(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setTouched(true);
    if (props.fault !== undefined || isBusy()) return;
    setBusy(true);
    try {
      await props.work();
      props.onDone();
      props.onClose();
    } catch (error) {
      setRefusal(error instanceof Error ? error.message : String(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog open title={props.title} onClose={props.onClose}>
      <form onSubmit={(event) => void submit(event)} novalidate>
        <Field label={props.label} hint={props.hint} autofocus value={props.value}
          error={refusal() ?? (isTouched() ? props.fault : undefined)}
          onInput={(event) => { setRefusal(undefined); props.onValue(event.currentTarget.value); }} />
        <footer class="actions">
          <Button onClick={() => props.onClose()}>Cancel</Button>
          <Button look="primary" type="submit" busy={isBusy()}>{isBusy() ? props.doing : props.action}</Button>
        </footer>
      </form>
    </Dialog>
  );
}
