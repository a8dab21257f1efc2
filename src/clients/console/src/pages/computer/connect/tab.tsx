// Tab that gives a computer to an agent: a key of its own, the lines for its program, and what it does beside them.

import { A, useSearchParams } from "@solidjs/router";
import Check from "lucide-solid/icons/check";
import Copy from "lucide-solid/icons/copy";
import KeyRound from "lucide-solid/icons/key-round";
import { createSignal, For, onCleanup, onMount, Show } from "solid-js";
import { answerOf, api, type Computer, type Schemas } from "../../../api/service";
import { attempt, Button, notify } from "../../../ui";
import { Newest } from "./newest";
import { NO_KEY, SAMPLES, type Filling, type Sample } from "./samples";
import "./connect.css";

/** Model of the sample while the service names none: that of docs/api/chat.md. */
const MODEL = "claude-sonnet-4.6";
/** Milliseconds for which a button says that it copied. */
const SAID = 3000;
/** Longest name of a key, in characters. */
const MAX_NAME = 255;

/** The tab. */
export default function Tab(props: { computer: Computer }) {
  return <Show when={props.computer.id} keyed>{(_id) => <Connect computer={props.computer} />}</Show>;
}

function Connect(props: { computer: Computer }) {
  const [query, setQuery] = useSearchParams<{ for: string }>();
  const [made, setMade] = createSignal<Schemas["MintedKey"]>();
  const [busy, setBusy] = createSignal(false);
  const [model, setModel] = createSignal(MODEL);
  const sample = () => SAMPLES.find((it) => it.id === query.for) ?? SAMPLES[0];

  onMount(() => {
    // Without an answer the sample names a model that the operator may have.
    answerOf(api.GET("/v1/models")).then(({ data }) => { if (data[0]) setModel(data[0].id); }, () => undefined);
  });

  const make = async () => {
    setBusy(true);
    const body = {
      name: `Agent of ${props.computer.name}`.slice(0, MAX_NAME).trim(),
      workspace_id: props.computer.workspace_id,
    };
    const key = await attempt("No key was made", () => answerOf(api.POST("/keys", { body })));
    setBusy(false);
    if (key) setMade(key);
  };
  const filling = (): Filling => ({
    url: location.origin,
    key: made()?.key ?? NO_KEY,
    computer: props.computer.id,
    model: model(),
  });

  return (
    <div class="connect">
      <div class="stack">
        <section class="card stack" aria-labelledby="connect-key">
          <h2 id="connect-key">1. A key for the agent</h2>
          <Show when={made()} fallback={
            <>
              <p>The key reaches the computers of the workspace {props.computer.project_name}, and nothing else.</p>
              <div>
                <Button look="primary" busy={busy()} onClick={() => void make()}>
                  <KeyRound size={16} aria-hidden="true" />{busy() ? "Making the key…" : "Make a key"}
                </Button>
              </div>
            </>
          }>
            {(key) => (
              <>
                <div class="connect-line">
                  <input class="mono" readonly aria-label="API key" value={key().key} onFocus={(event) => event.currentTarget.select()} />
                  <CopyButton text={key().key} label="Copy the key" />
                </div>
                <p>This is the only time that it is shown. It is in the lines below; keep it like a password.
                  {" "}<A href="/console/settings/keys">Keys can be deleted in the settings.</A></p>
              </>
            )}
          </Show>
        </section>
        <section class="card stack" aria-labelledby="connect-lines">
          <h2 id="connect-lines">2. The lines for its program</h2>
          <div class="connect-kinds" role="group" aria-label="Kind of program">
            <For each={SAMPLES}>
              {(it) => (
                <button type="button" class="button" aria-pressed={it.id === sample()?.id} onClick={() => setQuery({ for: it.id })}>{it.name}</button>
              )}
            </For>
          </div>
          <Show when={sample()}>{(sample) => <Lines sample={sample()} filling={filling()} hasKey={made() !== undefined} />}</Show>
        </section>
      </div>
      <section class="card stack" aria-labelledby="connect-done">
        <h2 id="connect-done">3. What it does, as it happens</h2>
        <p class="dim"><A href={`/console/computers/${props.computer.id}/screen`}>Watch its screen</A> to take over at any time.</p>
        <Newest computer={props.computer.id} />
      </section>
    </div>
  );
}

function Lines(props: { sample: Sample; filling: Filling; hasKey: boolean }) {
  const text = () => props.sample.text(props.filling);
  return (
    <>
      <p>{props.sample.needs} <a href={props.sample.docs}>Documentation</a></p>
      <pre role="region" tabindex="0" aria-label={`Lines for ${props.sample.name}`}>{text()}</pre>
      <Show when={props.sample.id === "mcp"}>
        <div class="connect-line">
          <span>The id of the computer: <code>{props.filling.computer}</code></span>
          <CopyButton text={props.filling.computer} label="Copy the id" />
        </div>
      </Show>
      <div class="connect-line">
        <Show when={!props.hasKey}><small>Make a key first: it is filled in here.</small></Show>
        <span class="grow" />
        <CopyButton text={text()} label="Copy the lines" />
      </div>
    </>
  );
}

function CopyButton(props: { text: string; label: string }) {
  const [said, setSaid] = createSignal(false);
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => clearTimeout(timer));
  const copy = async () => {
    try {
      // There is no clipboard on pages without TLS.
      await navigator.clipboard.writeText(props.text);
    } catch {
      notify({ text: "This browser did not copy it: select the text and copy it yourself.", tone: "bad" });
      return;
    }
    setSaid(true);
    clearTimeout(timer);
    timer = setTimeout(() => setSaid(false), SAID);
  };
  return (
    <Button onClick={() => void copy()}>
      <Show when={said()} fallback={<Copy size={16} aria-hidden="true" />}><Check size={16} aria-hidden="true" /></Show>
      {said() ? "Copied" : props.label}
    </Button>
  );
}
