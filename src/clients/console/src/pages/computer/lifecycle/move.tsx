// Dialog that moves a computer to another host, for the operator.

import { createEffect, createSignal, on, Show } from "solid-js";
import { answerOf, once, type Computer, type Schemas } from "../../../api/service";
import { Button, Dialog, notify, Select } from "../../../ui";
import { inBytes } from "../../../ui/values";

/** Bytes of a MB in the records of hosts. */
export const MB = 1024 * 1024;

/** Returns the hosts to which a computer on `from` may be moved. */
function targets(hosts: readonly Schemas["Host"][], from: string | null | undefined): Schemas["Host"][] {
  return hosts.filter((host) => host.status === "online" && host.name !== from);
}

/** The dialog; it is open while there is a computer. `onDone` is called when the service has answered. */
export function Move(props: {
  computer: Computer | undefined;
  hosts: readonly Schemas["Host"][];
  onClose: () => void;
  onDone?: () => void;
}) {
  const [host, setHost] = createSignal("");
  /** Ids of computers whose moves have no answer yet. The dialog may be opened for another one meanwhile. */
  const [moving, setMoving] = createSignal<ReadonlySet<string>>(new Set());
  const [error, setError] = createSignal<string>();
  const busy = () => props.computer !== undefined && moving().has(props.computer.id);
  const possible = () => targets(props.hosts, props.computer?.host);

  createEffect(on(() => props.computer?.id, () => {
    setHost("");
    setError(undefined);
  }));

  const move = async (event: SubmitEvent) => {
    event.preventDefault();
    const computer = props.computer;
    if (!computer || busy()) return;
    setMoving((ids) => new Set([...ids, computer.id]));
    setError(undefined);
    const params = { path: { id: computer.id } };
    // A host that was chosen may be drained meanwhile.
    const to = possible().find(({ name }) => name === host())?.name;
    try {
      // Not repeated: the person sees why it was refused.
      const moved = await answerOf(once.POST("/operator/computers/{id}/move", { params, body: to === undefined ? {} : { host: to } }));
      const where = to ?? "another host";
      const text = moved.moving ? `${computer.name} still moves to ${where}.` : `${computer.name} is on ${moved.host ?? where}.`;
      notify({ text, tone: "good" });
      if (props.computer?.id === computer.id) props.onClose();
      props.onDone?.();
    } catch (caught) {
      const text = caught instanceof Error ? caught.message : String(caught);
      if (props.computer?.id === computer.id) setError(text);
      else notify({ text: `${computer.name} was not moved: ${text}`, tone: "bad" });
    } finally {
      setMoving((ids) => new Set([...ids].filter((id) => id !== computer.id)));
    }
  };

  return (
    <Dialog open={props.computer !== undefined} title={`Move ${props.computer?.name ?? ""}`} onClose={props.onClose}>
      <form onSubmit={(event) => void move(event)}>
        <p>
          A running computer continues on the other host with its memory, or boots there when its isolation keeps none. Its disk and
          {" "}memory are copied, which may take minutes. Nobody can use it meanwhile.
        </p>
        <Show when={possible().length > 0} fallback={<p class="bad" role="status">No other host takes computers now.</p>}>
          <Select label="Host" value={host()} onChange={setHost} disabled={busy()} options={[
            { value: "", label: "The service chooses" },
            ...possible().map(({ name, memory_free_mb }) => ({ value: name, label: `${name}: ${inBytes(memory_free_mb * MB)} of memory free` })),
          ]} />
        </Show>
        <Show when={error()}>{(text) => <p class="bad" role="alert">{text()}</p>}</Show>
        <Show when={busy()}><p role="status">Moving it. You may close this dialog; a notice tells what became of it.</p></Show>
        <div class="actions">
          <Button onClick={() => props.onClose()}>{busy() ? "Close" : "Cancel"}</Button>
          <Button type="submit" look="primary" busy={busy()} disabled={possible().length === 0}>{busy() ? "Moving…" : "Move it"}</Button>
        </div>
      </form>
    </Dialog>
  );
}
