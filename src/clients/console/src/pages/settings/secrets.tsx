// Secrets of the account and of workspaces. The service never shows a value.

import { createResource, createSignal, Show } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { attempt, Button, confirm, Empty, Field, Loaded, notify, Since, Switch, Table, TextArea, valueOf } from "../../ui";
import { createChoice, createSteps, createWorkspaces, FormDialog, WorkspaceSelect } from "./parts";

/** The tab. */
export default function Tab() {
  const [workspaces, { refetch }] = createWorkspaces();
  return (
    <div class="settings-tab">
      <Loaded of={workspaces} what="the workspaces" retry={() => void refetch()}>
        {(workspaces) => <Scoped workspaces={workspaces()} />}
      </Loaded>
    </div>
  );
}

function Scoped(props: { workspaces: readonly Schemas["Workspace"][] }) {
  const choice = createChoice(() => props.workspaces, true);
  return (
    <>
      <WorkspaceSelect label="Secrets of" account="The account" workspaces={props.workspaces} value={choice.id()} onChange={choice.choose}
        hint="Computers use the secrets of their workspace; those of its owner's account only for the owner" />
      {/* An object, as the empty text is a choice, too. */}
      <Show when={{ id: choice.id() }} keyed>{(scope) => <Secrets workspace={scope.id} />}</Show>
    </>
  );
}

/** Secrets of one workspace; of the account when it is empty. */
function Secrets(props: { workspace: string }) {
  const query = () => (props.workspace ? { workspace_id: props.workspace } : {});
  const [secrets, { refetch }] = createResource(
    async () => (await answerOf(api.GET("/secrets", { params: { query: query() } }))).secrets,
  );
  const { shown, More } = createSteps(() => valueOf(secrets) ?? []);
  /** Name of the secret that is set; empty for a new one. */
  const [edited, setEdited] = createSignal<string>();

  const remove = async (name: string) => {
    const isSure = await confirm({
      title: `Delete the secret ${name}?`,
      text: "What types it or syncs it to a computer fails from now on. Files that were synced before keep the value. This cannot be undone.",
      action: "Delete secret",
    });
    if (!isSure) return;
    await attempt("The secret was not deleted", async () => {
      await answerOf(api.DELETE("/secrets/{name}", { params: { path: { name }, query: query() } }));
      notify({ text: `The secret ${name} is deleted`, tone: "good" });
      await refetch();
    });
  };
  return (
    <section aria-labelledby="secrets-name">
      <div class="bar">
        <h2 id="secrets-name">Secrets</h2><span class="grow" />
        <Button look="primary" onClick={() => setEdited("")}>Set secret</Button>
      </div>
      <p class="dim">
        Agents type a secret as <code>{"{{secret:NAME}}"}</code> without knowing it. A value is never shown again. <a href="/docs/api/secrets">Secrets</a>
      </p>
      <Loaded of={secrets} what="the secrets" retry={() => void refetch()}>
        {(secrets) => (
          <Show when={secrets().length > 0} fallback={<Empty title="No secret here"><p>Set one for passwords and keys that computers need.</p></Empty>}>
            <Table columns={["Name", "Created", "Value set", "Actions"]} rows={shown()}>
              {(secret) => (
                <tr>
                  <td><code>{secret.name}</code></td>
                  <td><Since time={secret.created_at} /></td>
                  <td><Since time={secret.updated_at} /></td>
                  <td>
                    <Button aria-label={`Replace the value of ${secret.name}`} onClick={() => setEdited(secret.name)}>Replace</Button>{" "}
                    <Button look="danger" aria-label={`Delete the secret ${secret.name}`} onClick={() => void remove(secret.name)}>Delete</Button>
                  </td>
                </tr>
              )}
            </Table>
          </Show>
        )}
      </Loaded>
      <More />
      <Show when={{ name: edited() }} keyed>
        {(form) => (
          <SetSecret open={form.name !== undefined} name={form.name ?? ""} workspace={props.workspace}
            onClose={() => setEdited(undefined)} onSet={() => void refetch()} />
        )}
      </Show>
    </section>
  );
}

function SetSecret(props: { open: boolean; name: string; workspace: string; onClose: () => void; onSet: () => void }) {
  const [name, setName] = createSignal(props.name);
  const [value, setValue] = createSignal("");
  const [isShown, setShown] = createSignal(false);
  const nameError = () => (name() === "" || /^[A-Z][A-Z0-9_]{0,63}$/.test(name()) ? undefined
    : "Use up to 64 capital letters, digits and underscores, a letter first");
  const set = async () => {
    const body = { value: value(), workspace_id: props.workspace || null };
    const secret = await attempt("The secret was not set", () =>
      answerOf(api.PUT("/secrets/{name}", { params: { path: { name: name() } }, body })));
    if (!secret) return false;
    setValue("");
    notify({ text: `The secret ${secret.name} is set`, tone: "good" });
    props.onSet();
    return true;
  };
  return (
    <FormDialog open={props.open} title={props.name ? `Replace the value of ${props.name}` : "Set a secret"} action="Set secret"
      disabled={name() === "" || nameError() !== undefined || value() === ""} onClose={props.onClose} onSubmit={set}>
      <Show when={props.name === ""}>
        <Field label="Name" hint="For example MAIL_PASSWORD; an existing secret of this name gets the new value" error={nameError()}
          value={name()} onInput={(event) => setName(event.currentTarget.value)} />
      </Show>
      <TextArea label="Value" class={isShown() ? "" : "settings-masked"} spellcheck={false} autocomplete="off" value={value()}
        onInput={(event) => setValue(event.currentTarget.value)} />
      <Switch label="Show what I type" checked={isShown()} onChange={setShown} />
    </FormDialog>
  );
}
