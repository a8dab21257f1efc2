// Bar above a screen: who controls it, and what the person may do about it.

import Bot from "lucide-solid/icons/bot";
import Eye from "lucide-solid/icons/eye";
import Hand from "lucide-solid/icons/hand";
import { createSignal, createUniqueId, Show } from "solid-js";
import { Button, Since, TextArea } from "../../../ui";
import { called, holds } from "./actors";
import type { Control } from "./control";
import { MAX_NOTE } from "./hand-back";

/** The bar. `readOnly`: a viewer of the workspace, who may only watch. */
export function Bar(props: {
  control: Control;
  readOnly: boolean;
  watching: boolean;
  onWatch: (watching: boolean) => void;
  onTake: () => void;
  onHandBack: () => void;
}) {
  const words = () => {
    const holder = props.control.holder();
    if (props.control.mine()) return "You are in control";
    if (holder) return holds(holder);
    return props.control.control() ? "Nobody is in control" : "Asking who is in control…";
  };
  const hint = () => {
    if (props.readOnly) return "You may watch this workspace's screens.";
    if (props.control.mine()) return "Agents are refused until you hand the screen back.";
    if (props.watching) return "You are watching: your pointer and keys stay here.";
    return props.control.holder() ? "You see what it does." : "Click the screen to work on it.";
  };
  const watch = async () => {
    const now = !props.watching;
    if (now && props.control.mine() && !(await props.control.handBack(""))) return;
    props.onWatch(now);
  };
  return (
    <section class="screen-control" aria-label="Control of the screen">
      <p role="status" classList={{ "screen-mine": props.control.mine() }}>
        <Show when={props.control.mine()} fallback={
          <Show when={props.control.holder()} fallback={<Eye size={18} aria-hidden="true" />}><Bot size={18} aria-hidden="true" /></Show>
        }><Hand size={18} aria-hidden="true" /></Show>
        <strong>{words()}</strong>
        <small>{hint()}</small>
      </p>
      <span class="grow" />
      <Show when={!props.readOnly}>
        <Show when={props.control.mine()} fallback={
          <Button look="primary" busy={props.control.busy() === "taking"} onClick={() => props.onTake()}>
            {props.control.busy() === "taking" ? "Taking control…" : "Take control"}
          </Button>
        }>
          <Button look="primary" onClick={() => props.onHandBack()}>Hand back</Button>
        </Show>
        <Button aria-pressed={props.watching} disabled={props.control.busy() !== undefined} onClick={() => void watch()}>Watch only</Button>
      </Show>
      <Said control={props.control} />
      <Show when={props.control.control()?.help}>
        {(help) => <Help control={props.control} message={help().message} since={help().since} readOnly={props.readOnly} />}
      </Show>
    </section>
  );
}

/** The note of the holder, or of the last hand-back while nobody holds the screen. */
function Said(props: { control: Control }) {
  const last = () => {
    const control = props.control.control();
    return control && !control.holder && control.last_hand_back?.note ? control.last_hand_back : undefined;
  };
  return (
    <>
      <Show when={!props.control.mine() && props.control.control()?.note}>{(note) => <p class="screen-note">“{note()}”</p>}</Show>
      <Show when={last()}>
        {(last) => <p class="screen-note dim">Handed back <Since time={last().at} />: “{last().note}”</p>}
      </Show>
    </>
  );
}

function Help(props: { control: Control; message: string; since: string; readOnly: boolean }) {
  const [text, setText] = createSignal("");
  const heading = createUniqueId();
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    if (await props.control.answer(text())) setText("");
  };
  return (
    <section class="screen-help card" aria-labelledby={heading}>
      <h2 id={heading}>{called(props.control.asker())} asks for help</h2>
      <p class="screen-message">{props.message}</p>
      <small>Asked <Since time={props.since} />. It waits for your answer, or for you to take control and hand the screen back.</small>
      <Show when={!props.readOnly}>
        <form onSubmit={(event) => void send(event)}>
          <TextArea label="Answer" rows={2} maxlength={MAX_NOTE} value={text()} onInput={(event) => setText(event.currentTarget.value)} />
          <div class="actions">
            <Button type="submit" look="primary" busy={props.control.busy() === "answering"}>
              {props.control.busy() === "answering" ? "Sending the answer…" : "Send the answer"}
            </Button>
          </div>
        </form>
      </Show>
    </section>
  );
}
