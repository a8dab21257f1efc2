// Fleet: every computer, live, as a grid of pictures or as a list.

import { useSearchParams } from "@solidjs/router";
import LayoutGrid from "lucide-solid/icons/layout-grid";
import List from "lucide-solid/icons/list";
import Plus from "lucide-solid/icons/plus";
import { createEffect, createMemo, createSignal, For, onCleanup, Show } from "solid-js";
import { computers, connection } from "../../api/live";
import { NotifyMe } from "../../app/help";
import { createTitle } from "../../app/title";
import type { Computer } from "../../api/service";
import { Button, confirm, Empty, IconButton, Loading, Select } from "../../ui";
import { BULK, count, fit, perform, type Bulk } from "./bulk";
import { Card, Row } from "./card";
import { choiceOf, chosen, SORTS, workspacesOf } from "./choice";
import { createPicturePixels } from "./columns";
import { NewComputer } from "./new";
import "./fleet.css";

/** Cards or rows that are made at once. The browser shows them, and handles what the person does, before it makes the next. */
const AT_ONCE = 48;
/** Computers whose deletion needs their number typed in. */
const MANY = 5;

const STATUSES = ["running", "suspended", "stopped", "error"] as const;

type Query = Record<"search" | "status" | "workspace" | "sort" | "view" | "new", string | string[]>;

/** The page. */
export default function Page() {
  createTitle(() => "Computers");
  const [query, setQuery] = useSearchParams<Query>();
  const [selected, setSelected] = createSignal<ReadonlySet<string>>(new Set());
  const [progress, setProgress] = createSignal<string>();
  const all = createMemo(() => Object.values(computers));
  const choice = createMemo(() => choiceOf(query));
  const shown = createMemo(() => chosen(all(), choice()));
  // Ids, so that a card stays when the record changes.
  const ids = createMemo(() => shown().map(({ id }) => id));
  const [most, setMost] = createSignal(AT_ONCE);
  const made = createMemo(() => ids().slice(0, most()));
  createEffect(() => {
    if (most() >= ids().length) return;
    const timer = setTimeout(() => setMost((before) => before + AT_ONCE));
    onCleanup(() => clearTimeout(timer));
  });
  const picked = createMemo(() => shown().filter(({ id }) => selected().has(id)));
  const [grid, pixels] = createPicturePixels();
  const workspaces = createMemo(() => workspacesOf(all()));
  const isList = () => query.view === "list";
  const set = (name: keyof Query, value: string) => setQuery({ [name]: value || undefined }, { replace: true });

  const select = (id: string, isSelected: boolean) => setSelected((before) => {
    const next = new Set(before);
    if (isSelected) next.add(id);
    else next.delete(id);
    return next;
  });
  const run = async (operation: Bulk, chosen: readonly Computer[]) => {
    const those = fit(chosen, operation);
    const [only] = those;
    if (!only) return;
    if (operation === "delete") {
      const agreed = await confirm({
        title: those.length === 1 ? `Delete ${only.name}?` : `Delete ${count(those.length)}?`,
        text: `Deleted with disk, snapshots and recordings: ${those.map(({ name }) => name).join(", ")}. This cannot be undone.`,
        action: those.length === 1 ? "Delete" : `Delete ${count(those.length)}`,
        ...(those.length > MANY && { typed: String(those.length) }),
      });
      if (!agreed) return;
    }
    setSelected(new Set<string>());
    await perform(those, operation, setProgress);
  };
  const propsOf = (computer: Computer) => ({
    computer,
    get selected() {
      return selected().has(computer.id);
    },
    onSelect: (isSelected: boolean) => select(computer.id, isSelected),
    onOperation: (operation: Bulk) => void run(operation, [computer]),
  });

  return (
    <>
      <div class="bar">
        <h1>Computers</h1>
        <span class="grow" />
        <NotifyMe />
        <Button look="primary" onClick={() => setQuery({ new: "1" })}><Plus size={16} aria-hidden="true" />New computer</Button>
      </div>
      <Show when={all().length > 0} fallback={
        <Show when={connection() === "live"} fallback={<Loading what="the computers" />}>
          <Empty title="There is no computer yet">
            <p>A computer is a Linux desktop that you, a program or an AI agent work with.</p>
            <Button look="primary" onClick={() => setQuery({ new: "1" })}>Make the first one</Button>
          </Empty>
        </Show>
      }>
        <div class="bar fleet-filters">
          <input type="search" aria-label="Search by name" placeholder="Search by name" value={choice().search}
            onInput={(event) => set("search", event.currentTarget.value)} />
          <Select label="Status" value={choice().status} onChange={(value) => set("status", value)}
            options={[{ value: "", label: "All" }, ...STATUSES.map((value) => ({ value, label: value }))]} />
          <Show when={workspaces().length > 1}>
            <Select label="Workspace" value={choice().workspace} onChange={(value) => set("workspace", value)}
              options={[{ value: "", label: "All" }, ...workspaces().map(([value, label]) => ({ value, label }))]} />
          </Show>
          <Select label="Order" value={choice().sort} options={SORTS} onChange={(value) => set("sort", value)} />
          <span class="grow" />
          <IconButton label="Grid" pressed={!isList()} onClick={() => set("view", "")}><LayoutGrid size={18} /></IconButton>
          <IconButton label="List" pressed={isList()} onClick={() => set("view", "list")}><List size={18} /></IconButton>
        </div>
        <div class="bar" role="group" aria-label="Actions on the selected computers">
          <label class="switch">
            <input type="checkbox" checked={shown().length > 0 && picked().length === shown().length}
              onChange={(event) => setSelected(new Set(event.currentTarget.checked ? ids() : []))} />
            <span>{picked().length > 0 ? `${count(picked().length)} selected` : `Select all ${shown().length}`}</span>
          </label>
          <For each={Object.keys(BULK) as Bulk[]}>
            {(operation) => (
              <Show when={fit(picked(), operation).length > 0}>
                <Button look={operation === "delete" ? "danger" : "quiet"} disabled={progress() !== undefined}
                  onClick={() => void run(operation, picked())}>
                  {BULK[operation].label} {fit(picked(), operation).length}{operation === "delete" ? "…" : ""}
                </Button>
              </Show>
            )}
          </For>
          <span role="status">{progress()}</span>
        </div>
        <Show when={shown().length > 0} fallback={
          <Empty title="No computer fits">
            <Button onClick={() => setQuery({ search: undefined, status: undefined, workspace: undefined })}>Show all</Button>
          </Empty>
        }>
          <Show when={isList()} fallback={
            <ul class="fleet-grid" aria-label="Computers" ref={grid}>
              <For each={made()}>
                {(id) => <Show when={computers[id]} keyed>{(computer) => <Card {...propsOf(computer)} pixels={pixels()} />}</Show>}
              </For>
            </ul>
          }>
            <div class="scroll">
              <table aria-label="Computers">
                <thead>
                  <tr>
                    <th><span class="fleet-hidden">Selected</span></th><th>Name</th><th>Status</th><th>Screen</th><th>Workspace</th>
                    <th>Template</th><th>Hardware</th><th>Made</th><th><span class="fleet-hidden">Actions</span></th>
                  </tr>
                </thead>
                <tbody>
                  <For each={made()}>
                    {(id) => <Show when={computers[id]} keyed>{(computer) => <Row {...propsOf(computer)} />}</Show>}
                  </For>
                </tbody>
              </table>
            </div>
          </Show>
        </Show>
      </Show>
      <NewComputer open={query.new !== undefined} onOpen={() => setQuery({ new: "1" })} onClose={() => setQuery({ new: undefined })} />
    </>
  );
}
