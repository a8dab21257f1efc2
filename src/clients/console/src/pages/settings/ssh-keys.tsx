// SSH keys of the account.

import { createResource, createSignal, Show } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { attempt, Button, confirm, Empty, Field, Loaded, notify, Since, Table, TextArea, valueOf } from "../../ui";
import { createSteps, FormDialog } from "./parts";

/** The list of keys, with a form for another one. */
export function SshKeys() {
  const [keys, { refetch }] = createResource(async () => (await answerOf(api.GET("/keys/ssh"))).keys);
  const [isAdding, setAdding] = createSignal(false);
  const { shown, More } = createSteps(() => valueOf(keys) ?? []);

  const remove = async (key: Schemas["SshKey"]) => {
    const isSure = await confirm({
      title: `Delete the SSH key "${key.name}"?`,
      text: "New connections with it are refused. Connections that are open go on.",
      action: "Delete SSH key",
    });
    if (!isSure) return;
    await attempt("The SSH key was not deleted", async () => {
      await answerOf(api.DELETE("/keys/ssh/{ssh_key_id}", { params: { path: { ssh_key_id: key.id } } }));
      notify({ text: `The SSH key "${key.name}" is deleted`, tone: "good" });
      await refetch();
    });
  };
  return (
    <section aria-labelledby="ssh-keys-name">
      <div class="bar">
        <h2 id="ssh-keys-name">SSH keys</h2><span class="grow" />
        <Button onClick={() => setAdding(true)}>Add SSH key</Button>
      </div>
      <p class="dim">With a public key of your machine, <code>hotdesk ssh</code> and editors reach your computers. <a href="/docs/ssh">SSH</a></p>
      <Loaded of={keys} what="the SSH keys" retry={() => void refetch()}>
        {(keys) => (
          <Show when={keys().length > 0} fallback={<Empty title="No SSH key"><p>Add the content of <code>~/.ssh/id_ed25519.pub</code>.</p></Empty>}>
            <Table columns={["Name", "Fingerprint", "Created", "Actions"]} rows={shown()}>
              {(key) => (
                <tr>
                  <td>{key.name}</td>
                  <td><code>{key.fingerprint}</code></td>
                  <td><Since time={key.created_at} /></td>
                  <td><Button look="danger" aria-label={`Delete the SSH key ${key.name}`} onClick={() => void remove(key)}>Delete</Button></td>
                </tr>
              )}
            </Table>
          </Show>
        )}
      </Loaded>
      <More />
      <AddKey open={isAdding()} onClose={() => setAdding(false)} onAdded={() => void refetch()} />
    </section>
  );
}

function AddKey(props: { open: boolean; onClose: () => void; onAdded: () => void }) {
  const [text, setText] = createSignal("");
  const [name, setName] = createSignal("");
  const isPrivate = () => text().includes("PRIVATE KEY");
  const add = async () => {
    const body = { public_key: text().trim(), name: name().trim() || null };
    const key = await attempt("The SSH key was not added", () => answerOf(api.POST("/keys/ssh", { body })));
    if (!key) return false;
    setText("");
    setName("");
    props.onAdded();
    return true;
  };
  return (
    <FormDialog open={props.open} title="Add an SSH key" action="Add SSH key" disabled={text().trim() === "" || isPrivate()}
      onClose={props.onClose} onSubmit={add}>
      <TextArea label="Public key" required spellcheck={false} value={text()} onInput={(event) => setText(event.currentTarget.value)}
        hint="One line, such as the content of ~/.ssh/id_ed25519.pub"
        error={isPrivate() ? "This is a private key, which must stay on your machine. Paste the file that ends in .pub" : undefined} />
      <Field label="Name" hint="Without one: the comment of the key" maxLength={255} value={name()}
        onInput={(event) => setName(event.currentTarget.value)} />
    </FormDialog>
  );
}
