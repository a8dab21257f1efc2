// Audit log: who did what, on what, when, and with which result.

import { useSearchParams } from "@solidjs/router";
import { createMemo, createResource, Show } from "solid-js";
import { computers } from "../../api/live";
import { answerOf, api } from "../../api/service";
import { createTitle } from "../../app/title";
import { Button, Field, Select, valueOf } from "../../ui";
import { Entries } from "./entries";
import { fromLocal, queryOf, toLocal, type Filters } from "./filters";
import "./audit.css";

const NONE: Filters = { workspace: "", computer: "", key: "", since: "", until: "", who: "", what: "" };
const NAMES = Object.keys(NONE) as (keyof Filters)[];

/** The page. The filters are in its address. */
export default function Page() {
  createTitle(() => "Audit log");
  const [query, setQuery] = useSearchParams<Record<keyof Filters, string>>();
  const [workspaces] = createResource(async () => (await answerOf(api.GET("/workspaces"))).workspaces);
  const [keys] = createResource(async () => (await answerOf(api.GET("/keys"))).keys);
  const filters = createMemo((): Filters =>
    ({ ...NONE, ...Object.fromEntries(NAMES.flatMap((name) => (typeof query[name] === "string" ? [[name, query[name]]] : []))) }));
  const set = (name: keyof Filters, value: string) => setQuery({ [name]: value || null }, { replace: true });
  /** The service's part as text: a list belongs to one of it. */
  const asked = createMemo(() => JSON.stringify(queryOf(filters())));

  const workspaceNames = () => new Map((valueOf(workspaces) ?? []).map((it): [string, string] => [it.id, it.name]));
  /** Choices with the one of the address, which may be gone. */
  const choices = (all: [string, string][], chosen: string, none: string) => [
    { value: "", label: none },
    ...all.map(([value, label]) => ({ value, label })),
    ...(chosen && !all.some(([id]) => id === chosen) ? [{ value: chosen, label: chosen }] : []),
  ];
  const keyNames = () => (valueOf(keys) ?? []).map((it): [string, string] => [it.id, `${it.name} (…${it.last_four})`]);
  const computerNames = () => Object.values(computers)
    .map((it): [string, string] => [it.id, it.name])
    .sort(([, a], [, b]) => a.localeCompare(b));

  return (
    <>
      <div class="bar"><h1>Audit log</h1></div>
      <p class="dim audit-about">
        What your account did, and what others did in workspaces that you own or administer. <a href="/docs/api/accounts#audit-log">What is logged</a>
      </p>
      <form class="card audit-filters" role="search" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
        <Field label="Actor" type="search" hint="Address, key, IP address" value={filters().who} onInput={(event) => set("who", event.currentTarget.value)} />
        <Field label="Action or target" type="search" hint="Route, action, result, id" value={filters().what}
          onInput={(event) => set("what", event.currentTarget.value)} />
        <Select label="Workspace" value={filters().workspace} options={choices([...workspaceNames()], filters().workspace, "Any")}
          onChange={(value) => set("workspace", value)} />
        <Select label="Computer" value={filters().computer} options={choices(computerNames(), filters().computer, "Any")}
          onChange={(value) => set("computer", value)} />
        <Select label="Key" value={filters().key} options={choices(keyNames(), filters().key, "Any")} onChange={(value) => set("key", value)} />
        <Field label="From" type="datetime-local" value={toLocal(filters().since)} onChange={(event) => set("since", fromLocal(event.currentTarget.value))} />
        <Field label="Until" type="datetime-local" value={toLocal(filters().until)} onChange={(event) => set("until", fromLocal(event.currentTarget.value))} />
        <Show when={NAMES.some((name) => filters()[name] !== "")}>
          <Button onClick={() => setQuery(Object.fromEntries(NAMES.map((name) => [name, null])))}>Clear filters</Button>
        </Show>
      </form>
      <Show when={asked()} keyed>
        <Entries filters={filters()} workspaces={workspaceNames()} />
      </Show>
    </>
  );
}
