// Ways into a computer: its password, and SSH.

import { createEffect, createSignal, For, on, Show } from "solid-js";
import { answerOf, api, type Computer, type Schemas } from "../../../api/service";
import { attempt, Button } from "../../../ui";
import { Copied, Part } from "./part";

/** Shows the password of the screens when it is asked for. */
export function Password(props: { computer: Computer }) {
  const [password, setPassword] = createSignal<string>();
  const [isBusy, setBusy] = createSignal(false);
  // Another start has another password. A status that arrives late does not hide that of a computer that runs.
  createEffect(on(() => props.computer.status, (status) => {
    if (status !== "running") setPassword(undefined);
  }, { defer: true }));
  const show = async () => {
    setBusy(true);
    const params = { path: { id: props.computer.id } };
    const found = await attempt("The password cannot be shown", () =>
      answerOf(api.GET("/computers/{id}/vnc-password", { params })));
    setBusy(false);
    setPassword(found?.password);
  };
  return (
    <Part title="Password">
      <p class="dim">It opens the computer's screens and sockets for programs such as VNC viewers. It changes at every start.</p>
      <Show when={password()} fallback={
        <div>
          <Button busy={isBusy()} onClick={() => void show()}>{isBusy() ? "Fetching the password…" : "Show the password"}</Button>
        </div>
      }>
        {(text) => (
          <>
            <Copied label="password" text={text()} />
            <div><Button onClick={() => setPassword(undefined)}>Hide the password</Button></div>
          </>
        )}
      </Show>
    </Part>
  );
}

/** A word of a shell, in quotes where it needs them. */
function word(text: string): string {
  return /^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The command of SSH, and the host keys when they are asked for. */
export function Ssh(props: { computer: Computer }) {
  const [keys, setKeys] = createSignal<Schemas["SshHostKeys"]>();
  const [isBusy, setBusy] = createSignal(false);
  const show = async () => {
    setBusy(true);
    const params = { path: { id: props.computer.id } };
    setKeys(await attempt("The host keys cannot be shown", () => answerOf(api.GET("/computers/{id}/ssh/host-keys", { params }))));
    setBusy(false);
  };
  return (
    <Part title="SSH">
      <p class="dim">
        Add your public key once by <code>hotdesk ssh-keys add</code>; nothing of the computer listens in a
        network. <a href="/docs/ssh">More about SSH</a>
      </p>
      <Copied label="SSH command" text={`hotdesk ssh ${word(props.computer.name)}`} />
      <Show when={keys()} fallback={
        <div>
          <Button busy={isBusy()} onClick={() => void show()}>{isBusy() ? "Fetching the host keys…" : "Show the host keys"}</Button>
        </div>
      }>
        {(keys) => (
          <>
            <p>User <code>{keys().user}</code>, host keys:</p>
            <For each={keys().host_keys}>{(key) => <Copied label={`host key ${key.split(" ")[0]}`} text={key} />}</For>
          </>
        )}
      </Show>
    </Part>
  );
}
