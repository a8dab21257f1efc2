// Parts that the pages of templates share: state of a build, star, launch.

import { useNavigate } from "@solidjs/router";
import StarIcon from "lucide-solid/icons/star";
import { createResource, createSignal, Show } from "solid-js";
import { answerOf, api, service } from "../../api/service";
import { attempt, Button, Dialog, Field, IconButton, Loaded, notify, Select, valueOf } from "../../ui";

/** Name of the workspace that is made when there is none. */
const FIRST_WORKSPACE = "default";

const WORDS: Record<string, string> = { not_built: "not built", building: "building", ready: "ready", failed: "build failed" };

/** State of a template's build, by colour and word. */
export function TemplateStatus(props: { status: string }) {
  return <span class="status templates-status" data-build={props.status}>{WORDS[props.status] ?? props.status}</span>;
}

/** A star that is given or taken by a click. */
export function Star(props: { reference: string; isStarred: boolean }) {
  const [changed, setChanged] = createSignal<{ reference: string; starred: boolean }>();
  const isStarred = () => {
    const change = changed();
    return change?.reference === props.reference ? change.starred : props.isStarred;
  };
  const turn = async () => {
    const reference = props.reference;
    const params = { path: { id: reference } };
    const body = { starred: !isStarred() };
    const answer = await attempt("The star was not changed", () => answerOf(api.POST("/templates/{id}/star", { params, body })));
    if (answer) setChanged({ reference, starred: answer.starred });
  };
  return (
    <IconButton look="quiet" label={`Star ${props.reference}`} pressed={isStarred()} onClick={() => void turn()}>
      <StarIcon size={18} fill={isStarred() ? "currentColor" : "none"} aria-hidden="true" />
    </IconButton>
  );
}

/** Asks for name and workspace of a new computer of a template, creates it and leads to it. */
export function Launch(props: { reference: string; name: string; onClose: () => void }) {
  const navigate = useNavigate();
  const [workspaces, { refetch }] = createResource(async () => (await answerOf(api.GET("/workspaces"))).workspaces
    .filter((workspace) => workspace.role !== "viewer"));
  const [name, setName] = createSignal(props.name);
  const [chosen, setChosen] = createSignal<string>();
  const [isBusy, setBusy] = createSignal(false);
  const workspace = () => chosen() ?? valueOf(workspaces)?.[0]?.id;
  const launch = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    const made = await attempt("The computer was not created", async () => {
      const workspace_id = workspace() ?? (await service.workspace(FIRST_WORKSPACE)).id;
      return answerOf(api.POST("/computers", { body: { name: name().trim(), workspace_id, template_ref: props.reference } }));
    });
    setBusy(false);
    if (!made) return;
    props.onClose();
    notify({ text: `${made.name} runs`, tone: "good" });
    navigate(`/console/computers/${made.id}`);
  };
  return (
    <Dialog open title={`Launch a computer of ${props.reference}`} onClose={props.onClose}>
      <form onSubmit={(event) => void launch(event)}>
        <Field label="Name" required maxLength={255} value={name()} onInput={(event) => setName(event.currentTarget.value)} />
        <Loaded of={workspaces} what="the workspaces" retry={() => void refetch()}>
          {(known) => (
            <Show when={known().length > 0}
              fallback={<p class="dim">It comes into a new workspace named “{FIRST_WORKSPACE}”.</p>}>
              <Select label="Workspace" value={workspace() ?? ""} onChange={setChosen}
                options={known().map((it) => ({ value: it.id, label: it.name }))} />
            </Show>
          )}
        </Loaded>
        <footer class="actions">
          <Button onClick={() => props.onClose()}>Cancel</Button>
          {/* Without the list nobody knows where it would be made. */}
          <Button look="primary" type="submit" busy={isBusy()} disabled={valueOf(workspaces) === undefined}>
            {isBusy() ? "Launching…" : "Launch"}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
