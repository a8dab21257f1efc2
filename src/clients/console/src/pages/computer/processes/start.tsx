// Form that starts a background process.

import { createSignal } from "solid-js";
import { answerOf, api, type Schemas } from "../../../api/service";
import { Button, Dialog, Field } from "../../../ui";

/** Asks for a command, and starts it. */
export function Start(props: { computer: string; onClose: () => void; onDone: (process: Schemas["Process"]) => void }) {
  const [command, setCommand] = createSignal("");
  const [name, setName] = createSignal("");
  const [folder, setFolder] = createSignal("");
  const [isBusy, setBusy] = createSignal(false);
  const [refusal, setRefusal] = createSignal<string>();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!command().trim()) {
      setRefusal("Enter a command");
      return;
    }
    setBusy(true);
    try {
      const body = { command: command(), name: name().trim() || null, cwd: folder().trim() || null };
      const params = { path: { id: props.computer } };
      const process = await answerOf(api.POST("/computers/{id}/processes", { params, body }));
      props.onClose();
      props.onDone(process);
    } catch (error) {
      setRefusal(error instanceof Error ? error.message : String(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog open title="Start a process" onClose={props.onClose}>
      <form onSubmit={(event) => void submit(event)} novalidate>
        <Field label="Command" hint="A line for bash, such as python3 -m http.server 8000" error={refusal()} autofocus class="mono"
          value={command()} onInput={(event) => { setRefusal(undefined); setCommand(event.currentTarget.value); }} />
        <Field label="Name (optional)" maxlength={128} value={name()} onInput={(event) => setName(event.currentTarget.value)} />
        <Field label="Folder (optional)" hint="Where it runs; the home folder if empty" value={folder()}
          onInput={(event) => setFolder(event.currentTarget.value)} />
        <footer class="actions">
          <Button onClick={() => props.onClose()}>Cancel</Button>
          <Button look="primary" type="submit" busy={isBusy()}>{isBusy() ? "Starting…" : "Start"}</Button>
        </footer>
      </form>
    </Dialog>
  );
}
