// Entries of a folder as a table.

import ArrowDown from "lucide-solid/icons/arrow-down";
import ArrowUp from "lucide-solid/icons/arrow-up";
import FileIcon from "lucide-solid/icons/file";
import Folder from "lucide-solid/icons/folder";
import LinkIcon from "lucide-solid/icons/link-2";
import { createMemo, For, Match, Show, Switch } from "solid-js";
import { Bytes, Menu, Since } from "../../../ui";
import { join, sorted, type Entry, type SortKey } from "./path";

/** What a person does with an entry. */
export interface Actions {
  /** Address of a folder or file. */
  address: (entry: Entry) => string;
  /** Opens a link, whose target is not known. */
  follow: (entry: Entry) => void;
  download: (entry: Entry) => void;
  rename: (entry: Entry) => void;
  remove: (entry: Entry) => void;
}

const COLUMNS: readonly { key: SortKey; name: string }[] = [
  { key: "name", name: "Name" },
  { key: "size", name: "Size" },
  { key: "modified", name: "Changed" },
];

/** The table. `by` is the column that it is sorted by, with a `-` before it for the reverse. */
export function Table(props: {
  folder: string;
  entries: readonly Entry[];
  by: string;
  onSort: (by: string) => void;
  actions: Actions;
}) {
  const rows = createMemo(() => sorted(props.entries, props.by));
  const order = (key: SortKey) => (props.by === key ? "ascending" : props.by === `-${key}` ? "descending" : "none");
  return (
    <table class="files-table" aria-label={`Files in ${props.folder}`}>
      <thead>
        <tr>
          <For each={COLUMNS}>
            {(column) => (
              <th scope="col" class={`files-${column.key}`} aria-sort={order(column.key)}>
                <button type="button" class="button quiet"
                  onClick={() => props.onSort(order(column.key) === "ascending" ? `-${column.key}` : column.key)}>
                  {column.name}
                  <Switch>
                    <Match when={order(column.key) === "ascending"}><ArrowUp size={14} aria-hidden="true" /></Match>
                    <Match when={order(column.key) === "descending"}><ArrowDown size={14} aria-hidden="true" /></Match>
                  </Switch>
                </button>
              </th>
            )}
          </For>
          <th scope="col"><span class="files-unseen">Actions</span></th>
        </tr>
      </thead>
      <tbody><For each={rows()}>{(entry) => <Row folder={props.folder} entry={entry} actions={props.actions} />}</For></tbody>
    </table>
  );
}

function Row(props: { folder: string; entry: Entry; actions: Actions }) {
  const canDownload = () => props.entry.type === "file" || props.entry.type === "folder";
  return (
    <tr>
      <td class="files-name">
        <Switch fallback={<span><FileIcon size={16} aria-hidden="true" />{props.entry.name}</span>}>
          {/* Plain links: `A` takes all addresses of this page for the current one, whatever their query. */}
          <Match when={props.entry.type === "folder"}>
            <a href={props.actions.address(props.entry)}><Folder size={16} aria-hidden="true" />{props.entry.name}</a>
          </Match>
          <Match when={props.entry.type === "file"}>
            <a href={props.actions.address(props.entry)}><FileIcon size={16} aria-hidden="true" />{props.entry.name}</a>
          </Match>
          <Match when={props.entry.type === "link"}>
            <button type="button" class="files-link" onClick={() => props.actions.follow(props.entry)}>
              <LinkIcon size={16} aria-hidden="true" />{props.entry.name}
              <span class="dim"> → {props.entry.target ?? "?"}</span>
            </button>
          </Match>
        </Switch>
      </td>
      <td class="files-size">
        <Show when={props.entry.type === "file"} fallback={<span class="dim">{props.entry.type}</span>}>
          <Bytes value={props.entry.size} />
        </Show>
      </td>
      <td class="files-modified"><Since time={props.entry.modified_at} /></td>
      <td>
        <Menu label={`Actions on ${props.entry.name}`} items={[
          {
            label: props.entry.type === "folder" ? "Download as an archive" : "Download",
            disabled: !canDownload(),
            onSelect: () => props.actions.download(props.entry),
          },
          { label: "Rename or move", onSelect: () => props.actions.rename(props.entry) },
          {
            label: "Copy the path",
            disabled: !navigator.clipboard,
            onSelect: () => void navigator.clipboard.writeText(join(props.folder, props.entry.name)),
          },
          { label: "Delete", danger: true, separated: true, onSelect: () => props.actions.remove(props.entry) },
        ]} />
      </td>
    </tr>
  );
}
