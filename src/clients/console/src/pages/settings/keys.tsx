// API keys and SSH keys of the account.

import { createResource, createSignal, Show } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { attempt, Button, confirm, Empty, Field, Loaded, notify, Since, Table, valueOf } from "../../ui";
import { createSteps, createWorkspaces, FormDialog, ShownOnce, workspaceName, WorkspaceSelect } from "./parts";
import { SshKeys } from "./ssh-keys";

/** The tab. */
export default function Tab() {
  const [keys, { refetch }] = createResource(async () => (await answerOf(api.GET("/keys"))).keys);
  const [workspaces] = createWorkspaces();
  const [isCreating, setCreating] = createSignal(false);
  const [made, setMade] = createSignal<Schemas["MintedKey"]>();

  const remove = async (key: Schemas["ApiKey"]) => {
    const isSure = await confirm({
      title: `Delete the key "${key.name}"?`,
      text: `Programs that use the key …${key.last_four} are refused from their next request on, and what they have open ends. This cannot be undone.`,
      action: "Delete key",
    });
    if (!isSure) return;
    await attempt("The key was not deleted", async () => {
      await answerOf(api.DELETE("/keys/{id}", { params: { path: { id: key.id } } }));
      if (made()?.id === key.id) setMade(undefined);
      notify({ text: `The key "${key.name}" is deleted`, tone: "good" });
      await refetch();
    });
  };

  return (
    <div class="settings-tab">
      <section aria-labelledby="keys-name">
        <div class="bar">
          <h2 id="keys-name">API keys</h2><span class="grow" />
          <Button look="primary" onClick={() => setCreating(true)}>Create key</Button>
        </div>
        <p class="dim">A key lets a program act for you. It is valid until you delete it. <a href="/docs/api/authentication">How keys work</a></p>
        <ShownOnce title={`Key "${made()?.name ?? ""}"`} text={made()?.key} label="Copy the key" onClose={() => setMade(undefined)} />
        <Loaded of={keys} what="the API keys" retry={() => void refetch()}>
          {(keys) => (
            <Show when={keys().length > 0} fallback={<Empty title="No API key"><p>Create one for your first program.</p></Empty>}>
              <KeyTable keys={keys()} workspaces={valueOf(workspaces)} onDelete={remove} />
            </Show>
          )}
        </Loaded>
      </section>
      <SshKeys />
      <CreateKey open={isCreating()} onClose={() => setCreating(false)}
        onMade={(key) => { setMade(key); void refetch(); }} />
    </div>
  );
}

function KeyTable(props: {
  keys: readonly Schemas["ApiKey"][];
  workspaces: readonly Schemas["Workspace"][] | undefined;
  onDelete: (key: Schemas["ApiKey"]) => Promise<void>;
}) {
  const { shown, More } = createSteps(() => props.keys);
  return (
    <>
      <Table columns={["Name", "Key", "Reaches", "Created", "Last used", "Actions"]} rows={shown()}>
        {(key) => (
          <tr>
            <td>{key.name}</td>
            <td><code>{key.prefix}…{key.last_four}</code></td>
            <td>{key.workspace_id ? workspaceName(props.workspaces, key.workspace_id) : "the whole account"}</td>
            <td><Since time={key.created_at} /></td>
            <td><Show when={key.last_used_at} fallback="never">{(time) => <Since time={time()} />}</Show></td>
            <td><Button look="danger" aria-label={`Delete the key ${key.name}`} onClick={() => void props.onDelete(key)}>Delete</Button></td>
          </tr>
        )}
      </Table>
      <More />
    </>
  );
}

function CreateKey(props: { open: boolean; onClose: () => void; onMade: (key: Schemas["MintedKey"]) => void }) {
  const [workspaces] = createWorkspaces();
  const [name, setName] = createSignal("");
  const [workspace, setWorkspace] = createSignal("");
  const create = async () => {
    const body = { name: name().trim(), workspace_id: workspace() || null };
    const key = await attempt("The key was not created", () => answerOf(api.POST("/keys", { body })));
    if (!key) return false;
    setName("");
    props.onMade(key);
    return true;
  };
  return (
    <FormDialog open={props.open} title="Create an API key" action="Create key" disabled={name().trim() === ""}
      onClose={props.onClose} onSubmit={create}>
      <Field label="Name" hint="What will use it, for example the name of a program" required maxLength={255}
        value={name()} onInput={(event) => setName(event.currentTarget.value)} />
      <Loaded of={workspaces} what="the workspaces">
        {(workspaces) => (
          <WorkspaceSelect label="Reaches" account="The whole account" workspaces={workspaces()} value={workspace()} onChange={setWorkspace}
            hint="A key of one workspace reaches its computers, files and secrets, and nothing else" />
        )}
      </Loaded>
    </FormDialog>
  );
}
