// Dialog that hands a screen back with a note.

import { createSignal } from "solid-js";
import { Button, Dialog, TextArea } from "../../../ui";
import type { Control } from "./control";

/** Longest note and answer that the service takes, in characters. */
export const MAX_NOTE = 2000;

/** The dialog. */
export function HandBack(props: { open: boolean; control: Control; onClose: () => void }) {
  const [text, setText] = createSignal("");
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!(await props.control.handBack(text()))) return;
    setText("");
    props.onClose();
  };
  return (
    <Dialog open={props.open} title="Hand the screen back" onClose={props.onClose}>
      <form onSubmit={(event) => void send(event)}>
        <TextArea label="Note for the agent" hint="What you did, and how it should go on. It may be empty." rows={3} maxlength={MAX_NOTE}
          value={text()} onInput={(event) => setText(event.currentTarget.value)} />
        <div class="actions">
          <Button onClick={() => props.onClose()}>Keep control</Button>
          <Button type="submit" look="primary" busy={props.control.busy() === "handing back"}>
            {props.control.busy() === "handing back" ? "Handing back…" : "Hand back"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
