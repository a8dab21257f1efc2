// Dialog of a new computer: its name, its template with a picture, its size.

import { createResource, createSignal, For, onCleanup, Show } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { Button, Dialog, Field, notify, Select } from "../../ui";
import { valueOf } from "../../ui/loaded";

/** Workspace that is made for a person who has none. */
const DEFAULT_WORKSPACE = "default";

/** Sizes that people choose from. Others are for the settings of the computer. */
const SIZES = [
  { value: "1/4/8", label: "Small: 1 CPU, 4 GB memory, 8 GB disk" },
  { value: "2/4/20", label: "Medium: 2 CPUs, 4 GB memory, 20 GB disk" },
  { value: "4/8/40", label: "Large: 4 CPUs, 8 GB memory, 40 GB disk" },
] as const;

const AUTO_STOP = [
  { value: "0", label: "Never" },
  { value: "15", label: "After 15 idle minutes" },
  { value: "60", label: "After an idle hour" },
] as const;

const ISOLATIONS: Record<string, string> = {
  sandbox: "Sandbox: its own kernel in user space, keeps memory",
  shared: "Shared: the host's kernel, keeps no memory",
  vm: "Virtual machine: its own kernel, keeps memory",
};

/** Returns a name that is probably free. */
function suggested(): string {
  return `desk-${Math.floor(Math.random() * 10_000)}`;
}

/** Returns the person's first workspace, which is made if there is none. */
async function firstWorkspace(): Promise<string> {
  const { workspaces } = await answerOf(api.GET("/workspaces", {}));
  const [first] = workspaces;
  return (first ?? await answerOf(api.POST("/workspaces", { body: { name: DEFAULT_WORKSPACE } }))).id;
}

/** The dialog. `onOpen` is called to show it again when the service has refused what it asked for. */
export function NewComputer(props: { open: boolean; onOpen: () => void; onClose: () => void }) {
  const [name, setName] = createSignal(suggested());
  const [workspace, setWorkspace] = createSignal<string>();
  const [template, setTemplate] = createSignal<string>();
  const [size, setSize] = createSignal<string>(SIZES[0].value);
  const [autoStop, setAutoStop] = createSignal("0");
  const [isolation, setIsolation] = createSignal("");
  const [busy, setBusy] = createSignal(false);
  const [failure, setFailure] = createSignal<string>();
  let isGone = false;
  onCleanup(() => {
    isGone = true;
  });
  const isOpen = () => props.open || undefined;
  const [workspaces] = createResource(isOpen, () => answerOf(api.GET("/workspaces", {})));
  const [templates] = createResource(isOpen, () => answerOf(api.GET("/templates/global", {})));
  const [own] = createResource(isOpen, () => answerOf(api.GET("/templates", {})));
  const templatesOffered = () => {
    const all = [...(valueOf(templates)?.templates ?? []), ...(valueOf(own)?.templates ?? [])];
    return [...new Map(all.map((it) => [it.ref, it])).values()];
  };
  const [health] = createResource(isOpen, () => answerOf(api.GET("/health", {})));
  const choices = () => (valueOf(workspaces)?.workspaces ?? []).map(({ id, name }) => ({ value: id, label: name }));
  const offered = () => [
    { value: "", label: "As the workspace says" },
    ...(valueOf(health)?.isolations ?? [])
      .map((value) => ({ value, label: ISOLATIONS[value] ?? value })),
  ];

  const create = async (event: SubmitEvent) => {
    event.preventDefault();
    const wanted = name();
    const [cpu, ram, disk_size_gb] = size().split("/").map(Number);
    setBusy(true);
    setFailure(undefined);
    try {
      const workspace_id = workspace() ?? await firstWorkspace();
      const body = {
        name: wanted, workspace_id, cpu, ram, disk_size_gb, auto_stop_minutes: Number(autoStop()),
        ...(template() && { template_ref: template() }),
        ...(isolation() && { isolation: isolation() }),
      } as Schemas["CreateComputer"];
      const made = await answerOf(api.POST("/computers", { body }));
      notify({ text: `${made.name} is ready.`, tone: "good" });
      // Another name may have been typed in meanwhile.
      if (name() === wanted) setName(suggested());
    } catch (error) {
      const text = `${wanted} was not made: ${error instanceof Error ? error.message : String(error)}`;
      if (isGone) {
        notify({ text, tone: "bad" });
      } else {
        // The form is shown again as it was filled in.
        setFailure(text);
        props.onOpen();
      }
    } finally {
      setBusy(false);
    }
  };
  const close = () => {
    setFailure(undefined);
    props.onClose();
  };
  // The card shows the progress from now on.
  const submit = (event: SubmitEvent) => {
    void create(event);
    props.onClose();
  };

  return (
    <Dialog open={props.open} title="New computer" onClose={close} wide>
      <form onSubmit={submit}>
        <Field label="Name" required maxLength={255} value={name()} onInput={(event) => setName(event.currentTarget.value)} />
        <Show when={failure()}>{(text) => <p class="bad" role="alert">{text()}</p>}</Show>
        <Show when={choices().length > 1}>
          <Select label="Workspace" value={workspace() ?? choices()[0]?.value ?? ""} options={choices()} onChange={setWorkspace} />
        </Show>
        <fieldset class="fleet-templates">
          <legend>Template</legend>
          <label class="card">
            <input type="radio" name="template" checked={template() === undefined} onChange={() => setTemplate(undefined)} />
            <span>Plain desktop</span>
          </label>
          <For each={templatesOffered()}>
            {(it) => (
              <label class="card">
                <input type="radio" name="template" checked={template() === it.ref} onChange={() => setTemplate(it.ref)} />
                <Show when={it.picture}>{(picture) => <img src={picture()} alt="" loading="lazy" />}</Show>
                <span>{it.ref}</span>
              </label>
            )}
          </For>
        </fieldset>
        <div class="fleet-choices">
          <Select label="Size" value={size()} options={SIZES} onChange={setSize} />
          <Select label="Suspend when idle" value={autoStop()} options={AUTO_STOP} onChange={setAutoStop} />
          <Select label="Isolation" value={isolation()} options={offered()} onChange={setIsolation} />
        </div>
        <footer class="actions">
          <Button onClick={close}>Cancel</Button>
          <Button look="primary" type="submit" busy={busy()}>Create</Button>
        </footer>
      </form>
    </Dialog>
  );
}
