// What is shown in the place of a screen while the computer does not run.

import { createSignal, Match, Show, Switch } from "solid-js";
import type { Computer } from "../../../api/service";
import { Button, Empty } from "../../../ui";
import { reasonOf } from "../../fleet/words";
import { can, perform, PROGRESS, type Operation } from "../lifecycle/operations";

/** The words, and the button that helps. */
export function Asleep(props: { computer: Computer }) {
  const [busy, setBusy] = createSignal<Operation>();
  const run = async (operation: Operation) => {
    setBusy(operation);
    await perform(props.computer, operation);
    setBusy(undefined);
  };
  const help = (): Operation | undefined => (["resume", "start"] as const).find((operation) => can(props.computer, operation));
  const reason = () => {
    const words = reasonOf(props.computer);
    return words === undefined ? "" : `${words} `;
  };
  return (
    <Switch fallback={
      <p class="state" role="status">{PROGRESS[props.computer.status] ?? `The computer is ${props.computer.status}.`}</p>
    }>
      <Match when={props.computer.status === "suspended"}>
        <Empty title={`${props.computer.name} is suspended`}>
          <p>{reason()}Its memory is saved: everything continues where it was.</p>
          <Help operation={help()} busy={busy()} onRun={run} />
        </Empty>
      </Match>
      <Match when={props.computer.status === "stopped"}>
        <Empty title={`${props.computer.name} is stopped`}>
          <p>{reason()}Its disk is kept. It boots from there.</p>
          <Help operation={help()} busy={busy()} onRun={run} />
        </Empty>
      </Match>
      <Match when={props.computer.status === "error"}>
        <Empty title={`${props.computer.name} failed`}>
          <p>{reason() || "A step failed, so nothing of it runs. "}Its disk is kept: start it to try again.</p>
          <Help operation={help()} busy={busy()} onRun={run} />
        </Empty>
      </Match>
    </Switch>
  );
}

function Help(props: { operation: Operation | undefined; busy: Operation | undefined; onRun: (operation: Operation) => void }) {
  return (
    <Show when={props.operation} keyed>
      {(operation) => (
        <Button look="primary" busy={props.busy !== undefined} onClick={() => props.onRun(operation)}>
          {operation === "resume" ? (props.busy ? "Resuming…" : "Resume") : (props.busy ? "Starting…" : "Start")}
        </Button>
      )}
    </Show>
  );
}
