// Deletion of a computer.

import { useNavigate } from "@solidjs/router";
import { createSignal } from "solid-js";
import { answerOf, api, type Computer } from "../../../api/service";
import { attempt, Button, confirm, notify } from "../../../ui";
import { Part } from "./part";

/** The button, which asks for the computer's name. */
export function Remove(props: { computer: Computer }) {
  const navigate = useNavigate();
  const [isBusy, setBusy] = createSignal(false);
  const remove = async () => {
    const { id, name } = props.computer;
    const isAgreed = await confirm({
      title: `Delete ${name}?`,
      text: "Its disk, its memory and its snapshots are removed. Nothing brings them back.",
      action: "Delete the computer",
      typed: name,
    });
    if (!isAgreed) return;
    setBusy(true);
    const done = await attempt("The computer was not deleted", () =>
      answerOf(api.DELETE("/computers/{id}", { params: { path: { id } } })));
    setBusy(false);
    if (!done) return;
    notify({ text: `${name} is deleted`, tone: "good" });
    navigate("/console");
  };
  return (
    <Part title="Delete">
      <p class="dim">Deletes the computer with its disk and its snapshots. Templates that were saved from it stay.</p>
      <div>
        <Button look="danger" busy={isBusy()} onClick={() => void remove()}>{isBusy() ? "Deleting…" : "Delete the computer"}</Button>
      </div>
    </Part>
  );
}
