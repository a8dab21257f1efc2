// Filters of the audit log, as they are in the address of the page.

import type { Schemas } from "../../api/service";

/** Filters by the names that they have in the address. All are texts; empty ones do not count. */
export interface Filters {
  /** Ids, by which the service filters. */
  workspace: string;
  computer: string;
  key: string;
  /** Times in ISO 8601, by which the service filters. */
  since: string;
  until: string;
  /** Words of the actor: address, name of the key, IP address. The page filters by these two. */
  who: string;
  /** Words of the action and its target: method, route, action, result, code, ids. */
  what: string;
}

/** Returns the service's part of the filters. */
export function queryOf(filters: Filters) {
  return {
    ...(filters.workspace && { workspace_id: filters.workspace }),
    ...(filters.computer && { computer_id: filters.computer }),
    ...(filters.key && { key_id: filters.key }),
    ...(filters.since && { since: filters.since }),
    ...(filters.until && { until: filters.until }),
  };
}

/** Returns whether a text contains all words of a filter, whatever their case. */
function hasWords(text: string, words: string): boolean {
  const lower = text.toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}

/** Returns whether an entry has the page's words. `names` are those of its computer and workspace. */
export function matches(entry: Schemas["AuditEntry"], filters: Pick<Filters, "who" | "what">, names: readonly string[]): boolean {
  const actor = [entry.account_email, entry.client, entry.credential, entry.source];
  const subject = [entry.method, entry.route, entry.action, entry.result, entry.status, entry.code, entry.computer_id,
    entry.workspace_id, entry.target_id, entry.request_id, ...names];
  return hasWords(actor.join(" "), filters.who) && hasWords(subject.join(" "), filters.what);
}

/** Returns a time of the address for a field of the type `datetime-local`; empty for none or a wrong one. */
export function toLocal(time: string): string {
  const date = new Date(time);
  if (time === "" || Number.isNaN(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** Returns the time of such a field for the address; empty for none. */
export function fromLocal(value: string): string {
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString();
}
