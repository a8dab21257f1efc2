// Entries of the audit log: the newest, and older ones on demand.

import { createMemo, createResource, createSignal, For, Show } from "solid-js";
import { computers } from "../../api/live";
import { answerOf, api, type Schemas } from "../../api/service";
import { attempt, Button, Empty, Failure, Loaded } from "../../ui";
import { matches, queryOf, type Filters } from "./filters";

type Entry = Schemas["AuditEntry"];

/** Entries of one request: several screens. */
const PAGE = 100;
/** Most entries in the page: more would make it slow, and a narrower time finds the same. */
const MOST = 2000;

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/** Entries of the service's filters, which stay the same for this list. */
export function Entries(props: { filters: Filters; workspaces: ReadonlyMap<string, string> }) {
  const read = (cursor?: string | null) =>
    answerOf(api.GET("/audit", { params: { query: { ...queryOf(props.filters), limit: PAGE, ...(cursor && { cursor }) } } }));
  const [first, { refetch }] = createResource(() => read());
  const isRefused = () => (first.error as { status?: number } | undefined)?.status === 403;
  return (
    <Show when={!isRefused()} fallback={
      <Failure what="You may not read these entries" error={first.error}
        retry={() => void refetch()} />
    }>
      <Loaded of={first} what="the entries" retry={() => void refetch()}>
        {(first) => (
          <Show when={first()} keyed>
            {(first) => (
              <List first={first} read={read} filters={props.filters} workspaces={props.workspaces} onReload={() => void refetch()} />
            )}
          </Show>
        )}
      </Loaded>
    </Show>
  );
}

function List(props: {
  first: Schemas["AuditPage"];
  read: (cursor: string) => Promise<Schemas["AuditPage"]>;
  filters: Filters;
  workspaces: ReadonlyMap<string, string>;
  onReload: () => void;
}) {
  const [older, setOlder] = createSignal<Schemas["AuditPage"][]>([]);
  const [busy, setBusy] = createSignal(false);
  const pages = () => [props.first, ...older()];
  const all = createMemo(() => pages().flatMap((page) => page.entries));
  const cursor = () => pages().at(-1)?.next_cursor ?? undefined;
  const names = (entry: Entry) => [
    (entry.computer_id && computers[entry.computer_id]?.name) ?? "",
    (entry.workspace_id && props.workspaces.get(entry.workspace_id)) ?? "",
  ];
  const shown = createMemo(() => all().filter((entry) => matches(entry, props.filters, names(entry))));
  const hasWords = () => props.filters.who !== "" || props.filters.what !== "";

  const loadOlder = async (at: string) => {
    setBusy(true);
    const page = await attempt("Older entries could not be loaded", () => props.read(at));
    if (page) setOlder([...older(), page]);
    setBusy(false);
  };
  return (
    <>
      <div class="bar">
        <span role="status" class="dim">
          {shown().length} entries{hasWords() ? ` of the ${all().length} that are loaded` : ""}{cursor() ? "; there are older ones" : ""}
        </span>
        <span class="grow" />
        <Button onClick={props.onReload}>Reload</Button>
      </div>
      <Show when={shown().length > 0} fallback={
        <Empty title="No entry matches"><p>{cursor() ? "Load older entries, or change the filters." : "Change the filters."}</p></Empty>
      }>
        <div class="scroll" tabindex="0" role="group" aria-label="Entries">
          <table class="audit-table">
            <thead><tr><th>Time</th><th>Actor</th><th>Action</th><th>Target</th><th>Result</th></tr></thead>
            <tbody><For each={shown()}>{(entry) => <Row entry={entry} names={names(entry)} />}</For></tbody>
          </table>
        </div>
      </Show>
      <Show when={cursor()}>
        {(cursor) => (
          <div class="actions">
            <Show when={all().length < MOST} fallback={<p class="dim">{MOST} entries are loaded. Set "Until" to see older ones.</p>}>
              <Button busy={busy()} onClick={() => void loadOlder(cursor())}>{busy() ? "Loading older entries…" : "Load older entries"}</Button>
            </Show>
          </div>
        )}
      </Show>
    </>
  );
}

function Row(props: { entry: Entry; names: readonly string[] }) {
  const actor = () => props.entry.account_email ?? (props.entry.method === "" ? "the service" : "unknown");
  const credential = () => [props.entry.credential, props.entry.client].filter(Boolean).join(" ");
  return (
    <tr>
      <td class="audit-time"><time dateTime={props.entry.at} title={props.entry.at}>{exact.format(new Date(props.entry.at))}</time></td>
      <td>
        {actor()}
        <Show when={credential()}><br /><small>{credential()}</small></Show>
        <Show when={props.entry.source}><br /><small>{props.entry.source}</small></Show>
      </td>
      <td>
        <Show when={props.entry.action}>{(action) => <>{action().replaceAll("_", " ")}<br /></>}</Show>
        <code>{props.entry.method} {props.entry.route}</code>
      </td>
      <td>
        <Show when={props.entry.computer_id}>
          {(id) => <div><a href={`/console/computers/${id()}`}>{props.names[0] || id()}</a></div>}
        </Show>
        <Show when={props.entry.workspace_id}>{(id) => <div><small title={id()}>workspace {props.names[1] || id()}</small></div>}</Show>
        <Show when={props.entry.target_id}>{(id) => <div><small class="mono">{id()}</small></div>}</Show>
      </td>
      <td title={`Request ${props.entry.request_id}`}>
        <span class="audit-result" data-result={props.entry.result}>{props.entry.result}</span> {props.entry.status}
        <Show when={props.entry.code}><br /><small>{props.entry.code}</small></Show>
      </td>
    </tr>
  );
}
