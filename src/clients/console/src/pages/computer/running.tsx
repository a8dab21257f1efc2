// What needs a running computer, and how to start one that does not run.

import { createSignal, Match, Show, Switch, type JSX } from "solid-js";
import { answerOf, api, type Computer } from "../../api/service";
import { attempt, Button, Empty } from "../../ui";

/** Statuses from which a person starts a computer; it leaves the others by itself. */
const STARTABLE = ["stopped", "suspended", "error"];

/** Shows the children while the computer runs. `what` names them in a sentence, such as "Its files". */
export function Running(props: { computer: Computer; what: string; children: JSX.Element }) {
  const [isStarting, setStarting] = createSignal(false);
  const start = async () => {
    setStarting(true);
    const params = { path: { id: props.computer.id } };
    await attempt("The computer could not be started", () => answerOf(api.POST("/computers/{id}/ensure-running", { params })));
    setStarting(false);
  };
  return (
    <Show when={props.computer.status === "running"} fallback={
      <Empty title={`The computer is ${props.computer.status}`}>
        <Switch>
          <Match when={STARTABLE.includes(props.computer.status)}>
            <p>{props.what} can be reached while it runs.</p>
            <Button look="primary" busy={isStarting()} onClick={() => void start()}>
              {isStarting() ? "Starting…" : props.computer.status === "suspended" ? "Resume the computer" : "Start the computer"}
            </Button>
          </Match>
          <Match when={true}><p>{props.what} will be here when it runs.</p></Match>
        </Switch>
      </Empty>
    }>
      {props.children}
    </Show>
  );
}
