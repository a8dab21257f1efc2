// Uploads and downloads with their progress.

import { createMemo, For, Show } from "solid-js";
import X from "lucide-solid/icons/x";
import { Button, Bytes, IconButton } from "../../../ui";
import { inBytes } from "../../../ui/values";
import { again, cancel, clear, replace, transfersOf, type Transfer } from "./transfers";

/** Words of a state. */
const WORDS: Record<Transfer["state"], string> = {
  waiting: "waits",
  running: "",
  broken: "interrupted",
  stopped: "stopped",
  exists: "exists",
  failed: "failed",
  done: "done",
};

/** The transfers of a computer; nothing without any. */
export function Transfers(props: { computer: string }) {
  const all = createMemo(() => transfersOf(props.computer));
  const left = () => all().filter((it) => it.state !== "done" && it.state !== "failed").length;
  return (
    <Show when={all().length > 0}>
      <section class="card files-transfers" aria-labelledby="files-transfers">
        <div class="bar">
          <h2 id="files-transfers">Transfers</h2>
          <span class="dim" role="status">{left() === 0 ? "All transfers have ended" : `${left()} of ${all().length} go on`}</span>
          <span class="grow" />
          <Button look="quiet" disabled={left() === all().length} onClick={() => clear(props.computer)}>Clear the ended</Button>
        </div>
        <ul aria-label="Transfers"><For each={all()}>{(transfer) => <Row transfer={transfer} />}</For></ul>
      </section>
    </Show>
  );
}

function Row(props: { transfer: Transfer }) {
  const what = () => (props.transfer.kind === "upload" ? "Upload" : "Download");
  const label = () => `${what()} of ${props.transfer.name}`;
  const share = () => (props.transfer.size ? props.transfer.done / props.transfer.size : 1);
  const isActive = () => ["waiting", "running", "broken", "stopped"].includes(props.transfer.state);
  return (
    <li data-state={props.transfer.state}>
      <div class="files-transfer-name">
        <span>{what()}: <strong title={props.transfer.path}>{props.transfer.name}</strong></span>
        <span class="dim">
          <Show when={props.transfer.size !== undefined && isActive()} fallback={<Bytes value={props.transfer.done} />}>
            {inBytes(props.transfer.done)} of {inBytes(props.transfer.size ?? 0)}
          </Show>{" "}
          {WORDS[props.transfer.state]}
        </span>
      </div>
      <Show when={isActive()}>
        <Show when={props.transfer.size !== undefined} fallback={<progress aria-label={label()} />}>
          <progress aria-label={label()} value={share()} max={1} />
        </Show>
      </Show>
      <Show when={props.transfer.text}>
        <p classList={{ bad: props.transfer.state === "failed" }} role={props.transfer.state === "failed" ? "alert" : undefined}>
          {props.transfer.text}
        </p>
      </Show>
      <div class="files-transfer-actions">
        <Show when={props.transfer.state === "exists"}>
          <Button look="danger" onClick={() => replace(props.transfer.key)}>Replace {props.transfer.name}</Button>
        </Show>
        <Show when={props.transfer.state === "stopped"}>
          <Button onClick={() => again(props.transfer.key)}>Continue</Button>
        </Show>
        <Show when={props.transfer.state === "failed"}>
          <Button onClick={() => again(props.transfer.key)}>Try again</Button>
        </Show>
        <IconButton look="quiet" onClick={() => cancel(props.transfer.key)}
          label={isActive() ? `Cancel the ${what().toLowerCase()} of ${props.transfer.name}` : `Remove ${props.transfer.name} from the list`}>
          <X size={16} />
        </IconButton>
      </div>
    </li>
  );
}
