// Saved RTMP servers, to which computers send their screen and sound.

import { createResource, createSignal, Show } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { attempt, Button, confirm, Empty, Field, Loaded, notify, Since, Table, valueOf } from "../../ui";
import { createSteps, createWorkspaces, FormDialog, workspaceName, WorkspaceSelect } from "./parts";

/** The tab. */
export default function Tab() {
  const [connections, { refetch }] = createResource(async () => (await answerOf(api.GET("/stream/connections"))).connections);
  const [workspaces] = createWorkspaces();
  const [isAdding, setAdding] = createSignal(false);
  const { shown, More } = createSteps(() => valueOf(connections) ?? []);
  const known = () => valueOf(workspaces) ?? [];

  const remove = async (connection: Schemas["Connection"]) => {
    const isSure = await confirm({
      title: `Delete "${connection.name}"?`,
      text: "Streams that run go on; new ones cannot use it. You need its stream key to add it again.",
      action: "Delete connection",
    });
    if (!isSure) return;
    await attempt("The connection was not deleted", async () => {
      await answerOf(api.DELETE("/stream/connections/{name}", { params: { path: { name: connection.name } } }));
      await refetch();
    });
  };
  return (
    <div class="settings-tab">
      <section aria-labelledby="streaming-name">
        <div class="bar">
          <h2 id="streaming-name">Stream connections</h2><span class="grow" />
          <Button look="primary" onClick={() => setAdding(true)}>Add connection</Button>
        </div>
        <p class="dim">An RTMP server with its stream key, to which a computer sends its screen and sound live. <a href="/docs/api/streaming">Streaming</a></p>
        <Loaded of={connections} what="the connections" retry={() => void refetch()}>
          {(connections) => (
            <Show when={connections().length > 0} fallback={<Empty title="No connection"><p>Add the address and the stream key that your streaming site gives you.</p></Empty>}>
              <Table columns={["Name", "Server", "For keys of", "Saved", "Actions"]} rows={shown()}>
                {(it) => (
                  <tr>
                    <td>{it.name}</td>
                    <td><code>{it.url}</code></td>
                    <td>{it.workspace_id ? workspaceName(known(), it.workspace_id) : "the whole account"}</td>
                    <td><Since time={it.updated_at} /></td>
                    <td><Button look="danger" aria-label={`Delete the connection ${it.name}`} onClick={() => void remove(it)}>Delete</Button></td>
                  </tr>
                )}
              </Table>
            </Show>
          )}
        </Loaded>
        <More />
      </section>
      <Add open={isAdding()} workspaces={known()} onClose={() => setAdding(false)} onSaved={() => void refetch()} />
    </div>
  );
}

function Add(props: { open: boolean; workspaces: readonly Schemas["Workspace"][]; onClose: () => void; onSaved: () => void }) {
  const [name, setName] = createSignal("");
  const [url, setUrl] = createSignal("");
  const [key, setKey] = createSignal("");
  const [workspace, setWorkspace] = createSignal("");
  const urlError = () => (url() === "" || /^rtmps?:\/\/./.test(url()) ? undefined : "The address begins with rtmp:// or rtmps://");
  const save = async () => {
    const body = { name: name().trim(), url: url().trim(), key: key(), workspace_id: workspace() || null };
    const saved = await attempt("The connection was not saved", () => answerOf(api.POST("/stream/connections", { body })));
    if (!saved) return false;
    setName("");
    setUrl("");
    setKey("");
    notify({ text: `The connection "${saved.name}" is saved`, tone: "good" });
    props.onSaved();
    return true;
  };
  return (
    <FormDialog open={props.open} title="Add a stream connection" action="Save connection"
      disabled={name().trim() === "" || url().trim() === "" || urlError() !== undefined || key() === ""} onClose={props.onClose} onSubmit={save}>
      <Field label="Name" required maxLength={255} hint="A connection of the same name is replaced" value={name()}
        onInput={(event) => setName(event.currentTarget.value)} />
      <Field label="Server" required placeholder="rtmps://live.example.org/app" error={urlError()} value={url()}
        onInput={(event) => setUrl(event.currentTarget.value)} />
      <Field label="Stream key" type="password" required autocomplete="new-password" hint="It is never shown again" value={key()}
        onInput={(event) => setKey(event.currentTarget.value)} />
      <WorkspaceSelect label="Also for keys of" account="No workspace: only for account-wide keys" workspaces={props.workspaces}
        value={workspace()} onChange={setWorkspace} />
    </FormDialog>
  );
}
