// Rows of a table whose records are fetched again and again.

import { createComputed, type Accessor } from "solid-js";
import { createStore, reconcile } from "solid-js/store";

/**
 * Returns records that stay the same objects while their `key` does, so that a table changes cells instead of rows: the focus and
 * open menus stay where they are.
 */
export function createRows<T extends object>(
  value: Accessor<readonly T[] | undefined>,
  key: keyof T & string,
): Accessor<readonly T[]> {
  const [rows, setRows] = createStore<{ all: object[] }>({ all: [] });
  createComputed(() => setRows("all", reconcile<object[], object[]>([...(value() ?? [])], { key })));
  // The store has nothing but these records.
  return () => rows.all as unknown as readonly T[];
}
