// Clipboard between this device and the computer.

import { createEffect, createSignal, on, Show } from "solid-js";
import { answerOf, once } from "../../../api/service";
import { attempt, Button, Dialog, notify, TextArea } from "../../../ui";

/** Longest text that the computer's clipboard takes, in bytes of UTF-8. */
const MAX_TEXT = 1024 * 1024;

/** The dialog. `copied` is what was copied in the computer last. */
export function Clipboard(props: {
  computer: string;
  screen: string;
  open: boolean;
  copied: string;
  /** Whether the person may give input. */
  canType: boolean;
  onClose: () => void;
}) {
  const [text, setText] = createSignal("");
  const [busy, setBusy] = createSignal<"pasting" | "typing">();
  // What the person writes at the moment stays.
  createEffect(on(() => props.copied, (copied, before) => {
    if (!props.open || text() === (before ?? "")) setText(copied);
  }));
  const tooLong = () => (new TextEncoder().encode(text()).length > MAX_TEXT ? "It is longer than 1 MiB." : undefined);
  const params = () => ({ path: { id: props.computer }, query: { screen: props.screen } });

  const send = async (kind: "pasting" | "typing", failed: string, done: string, work: () => Promise<unknown>) => {
    setBusy(kind);
    const answer = await attempt(failed, work);
    setBusy(undefined);
    if (answer === undefined) return;
    notify({ text: done, tone: "good" });
    props.onClose();
  };
  const paste = () =>
    send("pasting", "The text was not pasted", "The text is on the computer's clipboard. Press Ctrl+V there.", () =>
      answerOf(once.PUT("/computers/{id}/clipboard", { params: params(), body: { text: text() } })));
  const type = () =>
    send("typing", "The text was not typed", "The text was typed.", () =>
      answerOf(once.POST("/computers/{id}/type", { params: params(), body: { text: text() } })));
  const copy = () =>
    attempt("This browser did not copy the text: select it and copy it yourself", async () => {
      // There is no clipboard on pages without TLS.
      await navigator.clipboard.writeText(text());
      notify({ text: "The text is on this device's clipboard.", tone: "good" });
      props.onClose();
    });

  return (
    <Dialog open={props.open} title="Clipboard" onClose={props.onClose}>
      <TextArea label="Text" rows={6} value={text()} error={tooLong()}
        hint="What was copied in the computer appears here; what you write or paste here can go there."
        onInput={(event) => setText(event.currentTarget.value)} />
      <Show when={!props.canType}><p class="dim">Take control of the screen to paste or type into the computer.</p></Show>
      <div class="actions">
        <Button disabled={text() === ""} onClick={() => void copy()}>Copy to this device</Button>
        <Button disabled={!props.canType || text() === "" || tooLong() !== undefined} busy={busy() !== undefined} onClick={() => void type()}>
          {busy() === "typing" ? "Typing…" : "Type it"}
        </Button>
        <Button look="primary" disabled={!props.canType || text() === "" || tooLong() !== undefined} busy={busy() !== undefined}
          onClick={() => void paste()}>
          {busy() === "pasting" ? "Pasting…" : "Paste into the computer"}
        </Button>
      </div>
    </Dialog>
  );
}
