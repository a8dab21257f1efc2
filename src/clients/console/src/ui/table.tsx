// Tables of records.

import { For, type JSX } from "solid-js";

/** A table with a row for each record. Where it is wider than its place, it scrolls sideways. `children` makes a row. */
export function Table<T>(props: {
  /** Name for screen readers; without it the heading before the table has to do. */
  label?: string;
  columns: readonly string[];
  rows: readonly T[];
  children: (row: T) => JSX.Element;
}) {
  return (
    <div class="scroll">
      <table aria-label={props.label}>
        <thead><tr><For each={props.columns}>{(column) => <th>{column}</th>}</For></tr></thead>
        <tbody><For each={props.rows}>{(row) => props.children(row)}</For></tbody>
      </table>
    </div>
  );
}
