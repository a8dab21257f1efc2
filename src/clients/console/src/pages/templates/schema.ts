// Fields of the definition file at a place in the text, by its JSON Schema.

/** A part of a JSON Schema, as far as completion reads it. */
interface Schema {
  $ref?: string;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  definitions?: Record<string, Schema>;
  description?: string;
  enum?: unknown[];
  const?: unknown;
}

/** Something that may be written at a place. */
export interface Choice {
  label: string;
  description?: string | undefined;
}

/** Segment of a path that stands for an entry of a list. */
const ITEM = "[]";
/** Deepest nesting of references that is followed: more than any document may have. */
const DEEPEST = 16;
const KEY = /^([\w.$/~-]+|"[^"]*"):(?:\s+(.*))?$/;

/** What a line of the text says about nesting. */
interface Line {
  /** Columns of its dashes. */
  dashes: number[];
  /** Column of what follows them. */
  column: number;
  key?: string | undefined;
  value: string;
}

function read(text: string): Line {
  const dashes: number[] = [];
  let column = text.search(/\S|$/);
  while (/^-(\s|$)/.test(text.slice(column))) {
    dashes.push(column);
    column += text.slice(column + 1).search(/\S|$/) + 1;
  }
  const found = KEY.exec(text.slice(column).trimEnd());
  const value = (found ? (found[2] ?? "") : text.slice(column)).replace(/(^|\s)#.*$/, "").trim();
  return { dashes, column, key: found?.[1]?.replace(/^"|"$/g, ""), value };
}

/**
 * Returns the path of the map that holds the last of the lines, by indentation. Undefined where no field can be, such as in a
 * script.
 */
export function pathAt(lines: readonly string[]): string[] | undefined {
  const path: string[] = [];
  const last = read(lines.at(-1) ?? "");
  let limit = last.column;
  let isItem = false;
  const climb = (dashes: readonly number[]) => {
    for (const dash of dashes.toReversed()) {
      if (dash >= limit) continue;
      path.unshift(ITEM);
      limit = dash;
      isItem = true;
    }
  };
  climb(last.dashes);
  for (const text of lines.slice(0, -1).toReversed()) {
    if (/^\s*(#|$)/.test(text)) continue;
    const line = read(text);
    // The entries of a list may be as far left as its name.
    const isAbove = line.column < limit || (isItem && line.column === limit && line.dashes.length === 0);
    if (isAbove) {
      if (line.key === undefined || line.value !== "") return undefined;
      path.unshift(line.key);
      limit = line.column;
      isItem = false;
    } else if (line.key === undefined && line.dashes.some((dash) => dash < limit) && /^[|>]/.test(line.value)) {
      // A script that is an entry of a list.
      return undefined;
    }
    climb(line.dashes);
  }
  return path;
}

/** Returns the fields that a map at a path may have. */
export function fieldsAt(root: object, path: readonly string[]): Choice[] {
  const found = new Map<string, Choice>();
  for (const schema of at(root, path)) {
    for (const [label, field] of Object.entries(schema.properties ?? {})) {
      found.set(label, { label, description: field.description ?? flat(root, field).find((it) => it.description)?.description });
    }
  }
  return [...found.values()];
}

/** Returns the fixed values that the field at a path may have. */
export function valuesAt(root: object, path: readonly string[]): Choice[] {
  const values = at(root, path).flatMap((it) => [...(it.enum ?? []), ...(it.const === undefined ? [] : [it.const])]);
  return [...new Set(values.filter((it) => it !== null).map(String))].map((label) => ({ label }));
}

/** The schemas that count at a path. */
function at(root: Schema, path: readonly string[]): Schema[] {
  let schemas = flat(root, root);
  for (const segment of path) {
    schemas = schemas.flatMap((it) => {
      const other = typeof it.additionalProperties === "object" ? it.additionalProperties : undefined;
      const next = segment === ITEM ? it.items : (it.properties?.[segment] ?? other);
      return next ? flat(root, next) : [];
    });
  }
  return schemas;
}

/** A schema with those that it refers to and of which it is made. */
function flat(root: Schema, schema: Schema, depth = 0): Schema[] {
  if (depth > DEEPEST) return [];
  const parts = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])];
  const target = schema.$ref === undefined ? undefined : root.definitions?.[schema.$ref.replace("#/definitions/", "")];
  return [schema, ...(target ? [target] : []).concat(parts).flatMap((part) => flat(root, part, depth + 1))];
}
