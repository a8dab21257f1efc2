// Questions before something that cannot be undone.

import { createSignal, Show } from "solid-js";
import { Button } from "./button";
import { Dialog } from "./dialog";

interface Question {
  title: string;
  /** What happens, in a sentence or two. */
  text: string;
  /** Words of the button that does it, such as "Delete 3 computers". */
  action: string;
  /** Text that must be typed in first, for what destroys data of many. */
  typed?: string;
}

interface Asked extends Question {
  answer: (yes: boolean) => void;
}

const [asked, setAsked] = createSignal<Asked>();

/** Asks the person; resolves to whether they agree. */
export function confirm(question: Question): Promise<boolean> {
  return new Promise((resolve) => {
    asked()?.answer(false);
    setAsked({ ...question, answer: resolve });
  });
}

/** Shows the questions. The shell has one. */
export function ConfirmHost() {
  const [typed, setTyped] = createSignal("");
  const end = (yes: boolean) => {
    asked()?.answer(yes);
    setAsked(undefined);
    setTyped("");
  };
  return (
    <Dialog open={asked() !== undefined} title={asked()?.title ?? ""} onClose={() => end(false)}>
      <p>{asked()?.text}</p>
      <Show when={asked()?.typed}>
        {(text) => (
          <label class="field">
            <span>Type <strong>{text()}</strong> to confirm</span>
            <input value={typed()} onInput={(event) => setTyped(event.currentTarget.value)} autocomplete="off" />
          </label>
        )}
      </Show>
      <footer class="actions">
        <Button onClick={() => end(false)}>Cancel</Button>
        <Button look="danger" disabled={asked()?.typed !== undefined && typed() !== asked()?.typed} onClick={() => end(true)}>
          {asked()?.action}
        </Button>
      </footer>
    </Dialog>
  );
}
