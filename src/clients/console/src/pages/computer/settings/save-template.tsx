// Save of a computer as a template.

import { useNavigate } from "@solidjs/router";
import { createSignal, Show } from "solid-js";
import { answerOf, api, type Computer } from "../../../api/service";
import { attempt, Button, Field, notify, TextArea } from "../../../ui";
import { pageOf, parseReference } from "../../templates/reference";
import { Part } from "./part";

/** Why a computer cannot be saved now; undefined when it can. */
function reasonOf(computer: Computer): string | undefined {
  if (computer.isolation === "vm") return "The disk of a virtual machine cannot be read by the host.";
  return computer.status === "running" || computer.status === "stopped"
    ? undefined
    : `It has to be running or stopped, and it is ${computer.status}.`;
}

/** The form. */
export function SaveTemplate(props: { computer: Computer }) {
  const navigate = useNavigate();
  const [name, setName] = createSignal("");
  const [version, setVersion] = createSignal("1.0.0");
  const [description, setDescription] = createSignal("");
  const [isBusy, setBusy] = createSignal(false);
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    const params = { path: { id: props.computer.id } };
    const body = { ref: `default/${name().trim()}@${version().trim()}`, description: description().trim() || null };
    const made = await attempt("The computer was not saved", () =>
      answerOf(api.POST("/computers/{id}/template", { params, body })));
    setBusy(false);
    if (!made) return;
    const reference = parseReference(made.ref);
    notify({
      text: `${made.ref} is saved and can be launched`,
      tone: "good",
      ...(reference && { action: { label: "Open", run: () => navigate(pageOf(reference)) } }),
    });
  };
  return (
    <Part title="Save as a template">
      <p class="dim">
        New computers begin with a copy of this disk. Every file is in it: remove passwords and browser profiles first. Memory,
        temporary files and synced secrets are left out.
      </p>
      <form onSubmit={(event) => void save(event)}>
        <div class="computer-settings-fields">
          <Field label="Name of the template" required maxLength={64} pattern="[a-z0-9]+(-[a-z0-9]+)*"
            title="Lower-case letters, digits and single dashes" hint="Lower-case letters, digits and single dashes."
            value={name()} onInput={(event) => setName(event.currentTarget.value)} />
          <Field label="Version" required maxLength={64} pattern="\d+\.\d+\.\d+.*" title="Three numbers, such as 1.0.0"
            hint="Three numbers, such as 1.0.0." value={version()} onInput={(event) => setVersion(event.currentTarget.value)} />
        </div>
        <TextArea label="Description" rows={2} maxLength={4096} value={description()}
          onInput={(event) => setDescription(event.currentTarget.value)} />
        <Show when={reasonOf(props.computer)}>{(reason) => <p class="dim">{reason()}</p>}</Show>
        <div>
          <Button type="submit" disabled={reasonOf(props.computer) !== undefined} busy={isBusy()}>
            {isBusy() ? "Saving the disk…" : "Save as a template"}
          </Button>
        </div>
      </form>
    </Part>
  );
}
