// Parts of the settings: a titled card, and a form that saves one thing.

import { createSignal, type JSX } from "solid-js";
import { attempt, Button, CopyButton, notify } from "../../../ui";

/** A titled card. */
export function Part(props: { title: string; children: JSX.Element }) {
  return <section class="card stack" aria-label={props.title}><h2>{props.title}</h2>{props.children}</section>;
}

/** A form with one button. A failure is a notice that begins with `failed`; a success is the sentence that `save` returns. */
export function SaveForm(props: {
  /** Words of the button, such as "Save". */
  action: string;
  /** Words of the button meanwhile. */
  doing: string;
  failed: string;
  /** Returns what was done, in a sentence; undefined when the person changed their mind. */
  save: () => Promise<string | undefined>;
  disabled?: boolean;
  look?: "primary" | "danger";
  children: JSX.Element;
}) {
  const [isBusy, setBusy] = createSignal(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    const done = await attempt(props.failed, () => props.save());
    setBusy(false);
    if (done !== undefined) notify({ text: done, tone: "good" });
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      {props.children}
      <div><Button type="submit" look={props.look ?? "primary"} disabled={props.disabled ?? false} busy={isBusy()}>
        {isBusy() ? props.doing : props.action}
      </Button></div>
    </form>
  );
}

/** A text that is read and copied; `label` names it in a sentence, such as "password". */
export function Copied(props: { label: string; text: string }) {
  return (
    <div class="computer-settings-copied">
      <code aria-label={props.label} role="note">{props.text}</code>
      <CopyButton text={props.text} label={`Copy the ${props.label}`} />
    </div>
  );
}
