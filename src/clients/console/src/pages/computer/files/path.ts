// Paths of a computer's files.

import type { Schemas } from "../../../api/service";

/** Entry of a folder. */
export type Entry = Schemas["Entry"];

/** Folder that is shown first: the home folder. */
export const HOME = "~";

/** What the table is sorted by. */
export type SortKey = "name" | "size" | "modified";

/** Returns the path of a name in a folder. */
export function join(folder: string, name: string): string {
  return folder.endsWith("/") ? folder + name : `${folder}/${name}`;
}

/** Returns the last part of a path. */
export function nameOf(path: string): string {
  return path.split("/").filter(Boolean).at(-1) ?? "/";
}

/** Returns the folder of an absolute path. */
export function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/")) || "/";
}

/** Returns the folders on the way to an absolute path, the root first, with the path itself last. */
export function crumbs(path: string): { name: string; path: string }[] {
  const parts = path.split("/").filter(Boolean);
  return [
    { name: "/", path: "/" },
    ...parts.map((name, at) => ({ name, path: `/${parts.slice(0, at + 1).join("/")}` })),
  ];
}

/** Returns entries in the order of a column, folders first. A leading `-` of `by` reverses it. */
export function sorted(entries: readonly Entry[], by: string): Entry[] {
  const sign = by.startsWith("-") ? -1 : 1;
  const names = new Intl.Collator(undefined, { numeric: true });
  const order: Record<SortKey, (a: Entry, b: Entry) => number> = {
    name: (a, b) => names.compare(a.name, b.name),
    size: (a, b) => a.size - b.size,
    modified: (a, b) => Date.parse(a.modified_at) - Date.parse(b.modified_at),
  };
  const key = by.replace("-", "");
  const compare = key === "size" || key === "modified" ? order[key] : order.name;
  const rank = (entry: Entry) => (entry.type === "folder" ? 0 : 1);
  return [...entries].sort((a, b) => rank(a) - rank(b) || sign * compare(a, b) || names.compare(a.name, b.name));
}

/** Returns what is wrong with a name for a file or folder; undefined for a good one. The service has the last word. */
export function nameFault(name: string): string | undefined {
  if (!name) return "Enter a name";
  if (name.includes("/")) return "A name has no slash";
  if (name === "." || name === "..") return "This name means a folder that exists";
  if (name !== name.trim()) return "A name neither begins nor ends with white space";
  if (new TextEncoder().encode(name).length > 255) return "A name has at most 255 bytes";
  return undefined;
}
