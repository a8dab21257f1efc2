// Workspaces of the person: their settings, and all computers of one at once.

import { createSignal, Show } from "solid-js";
import { A } from "@solidjs/router";
import { answerOf, api, type Schemas } from "../../api/service";
import { attempt, Button, confirm, Empty, Field, Loaded, Menu, notify, Select, Since, Switch, Table, valueOf } from "../../ui";
import { createSteps, createWorkspaces, FormDialog } from "./parts";

type Workspace = Schemas["Workspace"];

const ISOLATIONS = [
  { value: "", label: "The default of the service" },
  { value: "sandbox", label: "Sandbox: a kernel in user space" },
  { value: "shared", label: "Shared: the kernel of the host" },
  { value: "vm", label: "Virtual machine" },
] as const;

/** Returns what happened to the computers of a workspace, in words. */
function summary(answer: Schemas["WorkspaceTransition"]): string {
  const counts = new Map<string, number>();
  for (const { status } of answer.computers) counts.set(status, (counts.get(status) ?? 0) + 1);
  return [...counts].map(([status, count]) => `${count} ${status}`).join(", ") || "It has no computers";
}

/** The tab. */
export default function Tab() {
  const [workspaces, { refetch }] = createWorkspaces();
  const [isCreating, setCreating] = createSignal(false);
  const [edited, setEdited] = createSignal<Workspace>();
  const { shown, More } = createSteps(() => valueOf(workspaces) ?? []);

  const path = (workspace: Workspace) => ({ params: { path: { id: workspace.id } } });
  const start = (workspace: Workspace) => attempt("The computers were not started", async () => {
    const answer = await answerOf(api.POST("/workspaces/{id}/start", path(workspace)));
    notify({ text: `${workspace.name}: ${summary(answer)}`, tone: "good" });
  });
  const stop = async (workspace: Workspace) => {
    const isSure = await confirm({
      title: `Stop all computers of "${workspace.name}"?`,
      text: "Running programs end; disks stay. Suspended computers stay as they are.",
      action: "Stop all",
    });
    if (!isSure) return;
    await attempt("The computers were not stopped", async () => {
      const answer = await answerOf(api.POST("/workspaces/{id}/stop", path(workspace)));
      notify({ text: `${workspace.name}: ${summary(answer)}`, tone: "good" });
    });
  };
  const remove = async (workspace: Workspace) => {
    const isSure = await confirm({
      title: `Delete "${workspace.name}"?`,
      text: `Its ${workspace.computer_count} computers with their disks and snapshots, its files, keys and secrets are deleted for all ${workspace.member_count} members. This cannot be undone.`,
      action: "Delete workspace",
      typed: workspace.name,
    });
    if (!isSure) return;
    await attempt("The workspace was not deleted", async () => {
      await answerOf(api.DELETE("/workspaces/{id}", path(workspace)));
      notify({ text: `The workspace "${workspace.name}" is deleted`, tone: "good" });
    });
    // Also after a failure: some of it may be gone.
    await refetch();
  };
  const items = (workspace: Workspace) => {
    const isAdmin = workspace.role === "owner" || workspace.role === "admin";
    const isViewer = workspace.role === "viewer";
    return [
      { label: "Change…", onSelect: () => setEdited(workspace), disabled: !isAdmin },
      { label: "Start all computers", onSelect: () => void start(workspace), disabled: isViewer },
      { label: "Stop all computers…", onSelect: () => void stop(workspace), disabled: isViewer },
      { label: "Delete…", onSelect: () => void remove(workspace), disabled: workspace.role !== "owner", danger: true, separated: true },
    ];
  };

  return (
    <div class="settings-tab">
      <section aria-labelledby="workspaces-name">
        <div class="bar">
          <h2 id="workspaces-name">Workspaces</h2><span class="grow" />
          <Button look="primary" onClick={() => setCreating(true)}>Create workspace</Button>
        </div>
        <p class="dim">A workspace groups computers, files, keys and people.</p>
        <Loaded of={workspaces} what="the workspaces" retry={() => void refetch()}>
          {(workspaces) => (
            <Show when={workspaces().length > 0} fallback={<Empty title="No workspace"><p>Create one for your first computers.</p></Empty>}>
              <Table columns={["Name", "Your role", "Computers", "Members", "Created", "Actions"]} rows={shown()}>
                {(workspace) => (
                  <tr>
                    <td>{workspace.name}</td>
                    <td>{workspace.role}</td>
                    <td>{workspace.computer_count}</td>
                    <td><A href={`/console/settings/members?workspace=${workspace.id}`} aria-label={`Members of ${workspace.name}: ${workspace.member_count}`}>{workspace.member_count}</A></td>
                    <td><Since time={workspace.created_at} /></td>
                    <td><Menu label={`Actions on ${workspace.name}`} items={items(workspace)} /></td>
                  </tr>
                )}
              </Table>
            </Show>
          )}
        </Loaded>
        <More />
      </section>
      <Create open={isCreating()} onClose={() => setCreating(false)} onCreated={() => void refetch()} />
      <Show when={edited()} keyed>
        {(workspace) => <Change workspace={workspace} onClose={() => setEdited(undefined)} onChanged={() => void refetch()} />}
      </Show>
    </div>
  );
}

function Create(props: { open: boolean; onClose: () => void; onCreated: () => void }) {
  const [name, setName] = createSignal("");
  const create = async () => {
    const made = await attempt("The workspace was not created", () => answerOf(api.POST("/workspaces", { body: { name: name().trim() } })));
    if (!made) return false;
    setName("");
    notify({ text: `The workspace "${made.name}" is created`, tone: "good" });
    props.onCreated();
    return true;
  };
  return (
    <FormDialog open={props.open} title="Create a workspace" action="Create workspace" disabled={name().trim() === ""}
      onClose={props.onClose} onSubmit={create}>
      <Field label="Name" required maxLength={255} value={name()} onInput={(event) => setName(event.currentTarget.value)} />
    </FormDialog>
  );
}

function Change(props: { workspace: Workspace; onClose: () => void; onChanged: () => void }) {
  const [name, setName] = createSignal(props.workspace.name);
  const [readFiles, setReadFiles] = createSignal(props.workspace.viewers_read_files);
  const [isolation, setIsolation] = createSignal(props.workspace.isolation ?? "");
  const change = async () => {
    const changed = await attempt("The workspace was not changed", () => answerOf(api.PATCH("/workspaces/{id}", {
      params: { path: { id: props.workspace.id } },
      body: { name: name().trim(), viewers_read_files: readFiles(), isolation: isolation() },
    })));
    if (!changed) return false;
    props.onChanged();
    return true;
  };
  return (
    <FormDialog open title={`Change "${props.workspace.name}"`} action="Save" disabled={name().trim() === ""}
      onClose={props.onClose} onSubmit={change}>
      <Field label="Name" required maxLength={255} value={name()} onInput={(event) => setName(event.currentTarget.value)} />
      <Switch label="Viewers may read the files of its computers" checked={readFiles()} onChange={setReadFiles} />
      <Select label="Isolation of new computers" value={isolation()} options={ISOLATIONS} onChange={setIsolation} />
    </FormDialog>
  );
}
