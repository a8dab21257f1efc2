// Which computers the fleet shows, and in which order: all of it is in the address.

import type { Computer } from "../../api/service";

/** What the address chooses. */
export interface Choice {
  /** Text in the name, ignoring case. */
  search: string;
  /** A status; empty for all. */
  status: string;
  /** Id of a workspace; empty for all. */
  workspace: string;
  sort: Sort;
}

/** Orders of the fleet, the usual one first. */
export const SORTS = [
  { value: "name", label: "By name" },
  { value: "newest", label: "Newest first" },
  { value: "status", label: "By status" },
] as const;

/** An order of the fleet. */
export type Sort = (typeof SORTS)[number]["value"];

// One for all comparisons: `localeCompare` with options makes one for each.
const names = new Intl.Collator(undefined, { numeric: true });

/** Compares ids, statuses and times: numbers in them are no numbers, such as the fraction of a second. */
function plain(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Returns the value of a parameter of the address, which may be there several times or not at all. */
function first(parameter: string | string[] | undefined): string {
  return (Array.isArray(parameter) ? parameter[0] : parameter) ?? "";
}

/** Returns what the query of an address chooses; an unknown order is the usual one. */
export function choiceOf(query: Partial<Record<keyof Choice, string | string[]>>): Choice {
  const sort = first(query.sort);
  return {
    search: first(query.search),
    status: first(query.status),
    workspace: first(query.workspace),
    sort: SORTS.find(({ value }) => value === sort)?.value ?? SORTS[0].value,
  };
}

/** Returns the chosen computers in their order. */
export function chosen(all: readonly Computer[], choice: Choice): Computer[] {
  const search = choice.search.trim().toLowerCase();
  const found = all.filter((computer) =>
    computer.name.toLowerCase().includes(search)
    && (choice.status === "" || computer.status === choice.status)
    && (choice.workspace === "" || computer.workspace_id === choice.workspace));
  const byName = (a: Computer, b: Computer) => names.compare(a.name, b.name) || plain(a.id, b.id);
  return found.sort((a, b) => {
    if (choice.sort === "newest") return plain(b.created_at, a.created_at) || byName(a, b);
    if (choice.sort === "status") return plain(a.status, b.status) || byName(a, b);
    return byName(a, b);
  });
}

/** Returns the names of the workspaces by id, in the order of their names. */
export function workspacesOf(all: readonly Computer[]): [id: string, name: string][] {
  const found = new Map(all.map((computer) => [computer.workspace_id, computer.project_name]));
  return [...found].sort(([, a], [, b]) => names.compare(a, b));
}
