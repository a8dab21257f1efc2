// Clients of the account: customers with a workspace, a key and limits of their own.

import { A, useSearchParams } from "@solidjs/router";
import { createResource, createSignal, Show } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { attempt, Button, confirm, Empty, Field, Loaded, Menu, notify, Select, Since, Table, valueOf } from "../../ui";
import { createSteps, FormDialog, ShownOnce } from "./parts";
import { dollars, Usage } from "./usage";

type Client = Schemas["Client"];

const PAYERS = [{ value: "operator", label: "You" }, { value: "client", label: "The client" }] as const;

/** The tab. The client whose usage is shown is in the address. */
export default function Tab() {
  const [query] = useSearchParams<{ client: string }>();
  const [clients, { refetch }] = createResource(async () => (await answerOf(api.GET("/v1/accounts"))).accounts);
  const [isCreating, setCreating] = createSignal(false);
  const [edited, setEdited] = createSignal<Client>();
  const [made, setMade] = createSignal<Schemas["MadeClient"]>();
  const all = () => valueOf(clients) ?? [];
  const { shown, More } = createSteps(all);
  const chosen = () => all().find((it) => it.id === query.client);

  const remove = async (client: Client) => {
    const count = client.computers_used;
    const isSure = await confirm({
      title: `Delete the client "${client.name}"?`,
      text: `Its workspace with ${count === 1 ? "1 computer" : `${count} computers`} and all files is deleted, and its key is refused at once. Usage of past months stays. This cannot be undone.`,
      action: "Delete client",
      typed: client.external_id,
    });
    if (!isSure) return;
    await attempt("The client was not deleted", async () => {
      const params = { path: { client_id: client.id }, query: count > 0 ? { computers: "delete" as const } : {} };
      await answerOf(api.DELETE("/v1/accounts/{client_id}", { params }));
      notify({ text: `The client "${client.name}" is deleted`, tone: "good" });
    });
    await refetch();
  };

  return (
    <div class="settings-tab">
      <section aria-labelledby="clients-name">
        <div class="bar">
          <h2 id="clients-name">Clients</h2><span class="grow" />
          <Button look="primary" onClick={() => setCreating(true)}>Create client</Button>
        </div>
        <p class="dim">A client is a customer of yours, with a workspace, a key and limits of its own. <a href="/docs/api/accounts#clients">Clients</a></p>
        <ShownOnce title={`Key of "${made()?.name ?? ""}"`} text={made()?.key} label="Copy the key" onClose={() => setMade(undefined)} />
        <Loaded of={clients} what="the clients" retry={() => void refetch()}>
          {(clients) => (
            <Show when={clients().length > 0} fallback={<Empty title="No client"><p>Create one for each customer whose programs use your computers.</p></Empty>}>
              <Table columns={["Client", "Your id", "Computers", "AI cap a month", "Billed to", "Created", "Actions"]} rows={shown()}>
                {(client) => (
                  <tr>
                    <td><A href={`/console/settings/clients?client=${client.id}`}>{client.name}</A></td>
                    <td>{client.external_id}</td>
                    <td>{client.computers_used} of {client.max_computers ?? "your limit"}</td>
                    <td>{typeof client.monthly_ai_cap_usd === "number" ? dollars(client.monthly_ai_cap_usd) : "none"}</td>
                    <td>{client.billed_to === "client" ? "the client" : "you"}</td>
                    <td><Since time={client.created_at} /></td>
                    <td>
                      <Menu label={`Actions on ${client.name}`} items={[
                        { label: "Change limits…", onSelect: () => setEdited(client) },
                        { label: "Delete…", onSelect: () => void remove(client), danger: true, separated: true },
                      ]} />
                    </td>
                  </tr>
                )}
              </Table>
            </Show>
          )}
        </Loaded>
        <More />
      </section>
      <Show when={chosen()?.id} keyed>
        <Show when={chosen()}>
          {(client) => <div class="card stack"><h2>Usage of {client().name}</h2><Usage client={client()} /></div>}
        </Show>
      </Show>
      <Show when={isCreating()}>
        <Edit title="Create a client" action="Create client" onClose={() => setCreating(false)} onDone={() => void refetch()} onMade={setMade} />
      </Show>
      <Show when={edited()} keyed>
        {(client) => (
          <Edit title={`Change "${client.name}"`} action="Save" client={client} onClose={() => setEdited(undefined)} onDone={() => void refetch()} />
        )}
      </Show>
    </div>
  );
}

/** Returns the number in a field; null for an empty one, which means no limit. */
const limit = (text: string) => (text.trim() === "" ? null : Number(text));

function Edit(props: {
  title: string;
  action: string;
  client?: Client;
  onClose: () => void;
  onDone: () => void;
  onMade?: (client: Schemas["MadeClient"]) => void;
}) {
  const [externalId, setExternalId] = createSignal(props.client?.external_id ?? "");
  const [name, setName] = createSignal(props.client?.name ?? "");
  const [computers, setComputers] = createSignal(String(props.client?.max_computers ?? ""));
  const [cap, setCap] = createSignal(String(props.client?.monthly_ai_cap_usd ?? ""));
  const [payer, setPayer] = createSignal(props.client?.billed_to ?? "operator");
  const save = async () => {
    const limits = { max_computers: limit(computers()), monthly_ai_cap_usd: limit(cap()), billed_to: payer(), name: name().trim() || null };
    const done = await attempt("The client was not saved", async () => {
      if (props.client) {
        const params = { path: { client_id: props.client.id } };
        await answerOf(api.PATCH("/v1/accounts/{client_id}", { params, body: { ...limits, name: name().trim() || props.client.name } }));
      } else {
        const made = await answerOf(api.POST("/v1/accounts", { body: { ...limits, external_id: externalId().trim() } }));
        props.onMade?.(made);
      }
      return true;
    });
    if (done) props.onDone();
    return done === true;
  };
  return (
    <FormDialog open title={props.title} action={props.action} disabled={externalId().trim() === ""} onClose={props.onClose} onSubmit={save}>
      <Show when={!props.client}>
        <Field label="Your id" required maxLength={255} hint="How your own records name the customer; it cannot be changed" value={externalId()}
          onInput={(event) => setExternalId(event.currentTarget.value)} />
      </Show>
      <Field label="Name" maxLength={255} hint={props.client ? "" : "Without one: your id"} value={name()}
        onInput={(event) => setName(event.currentTarget.value)} />
      <Field label="Most computers" type="number" min="0" step="1" hint="Empty: only your own limit" value={computers()}
        onInput={(event) => setComputers(event.currentTarget.value)} />
      <Field label="Cap for AI models, US dollars a month" type="number" min="0" step="any" hint="Empty: no cap" value={cap()}
        onInput={(event) => setCap(event.currentTarget.value)} />
      <Select label="Billed to" hint="A note of yours, without effect" value={payer()} options={PAYERS} onChange={setPayer} />
    </FormDialog>
  );
}
