// Dialog that copies a computer: its disk (clone), or its memory as well (fork).

import { useNavigate } from "@solidjs/router";
import { createSignal, Show } from "solid-js";
import { answerOf, api, type Computer } from "../../../api/service";
import { Button, Dialog, Field, notify } from "../../../ui";

/** Kind of a copy. */
export type Kind = "clone" | "fork";

const WORDS = {
  clone: {
    title: "Clone",
    text: "The clone gets a copy of everything on the disk. What is not saved in programs is not copied. This computer continues.",
    doing: "Copying the disk and booting the clone: this may take a minute. You may close this dialog; a notice tells when it is ready.",
    action: "Clone it",
    busy: "Cloning…",
  },
  fork: {
    title: "Fork",
    text: "The fork continues with the same programs and windows. This computer continues, too; its connections may end for a moment.",
    doing: "Copying memory and disk: this may take a minute. You may close this dialog; a notice tells when it is ready.",
    action: "Fork it",
    busy: "Forking…",
  },
} as const;

/** The dialog; it is open while there is a kind. */
export function Copy(props: { computer: Computer; kind: Kind | undefined; onClose: () => void }) {
  const navigate = useNavigate();
  const [name, setName] = createSignal("");
  const [busy, setBusy] = createSignal(false);
  const [error, setError] = createSignal<string>();

  const make = async (event: SubmitEvent) => {
    event.preventDefault();
    const kind = props.kind;
    if (!kind || busy()) return;
    setBusy(true);
    setError(undefined);
    const params = { path: { id: props.computer.id } };
    const body = name().trim() ? { name: name().trim() } : {};
    try {
      const made = await (kind === "clone"
        ? answerOf(api.POST("/computers/{id}/clone", { params, body }))
        : answerOf(api.POST("/computers/{id}/fork", { params, body })));
      notify({
        text: `${made.name} is ready.`,
        tone: "good",
        action: { label: "Open it", run: () => navigate(`/console/computers/${made.id}`) },
      });
      setName("");
      props.onClose();
    } catch (caught) {
      const text = caught instanceof Error ? caught.message : String(caught);
      setError(text);
      // The dialog may have been closed meanwhile.
      if (!props.kind) notify({ text: `The copy was not made: ${text}`, tone: "bad" });
    } finally {
      setBusy(false);
    }
  };

  return (
    <Dialog open={props.kind !== undefined} title={`${props.kind ? WORDS[props.kind].title : ""} ${props.computer.name}`} onClose={props.onClose}>
      <Show when={props.kind}>
        {(kind) => (
          <form onSubmit={(event) => void make(event)}>
            <p>{WORDS[kind()].text}</p>
            <Field label="Name" maxlength={255} placeholder={`${props.computer.name} (${kind()})`} value={name()} disabled={busy()}
              hint="Without one it gets this name, or one with a number." error={error()}
              onInput={(event) => setName(event.currentTarget.value)} />
            <Show when={busy()}><p role="status">{WORDS[kind()].doing}</p></Show>
            <div class="actions">
              <Button onClick={() => props.onClose()}>{busy() ? "Close" : "Cancel"}</Button>
              <Button type="submit" look="primary" busy={busy()}>{busy() ? WORDS[kind()].busy : WORDS[kind()].action}</Button>
            </div>
          </form>
        )}
      </Show>
    </Dialog>
  );
}
