// Schemas of the API in words, and examples made of them.

import type { Schema } from "virtual:docs/reference";

/** Schemas by name. */
export type Schemas = Readonly<Record<string, Schema>>;

/** Depth to which schemas are shown and examples are made: some schemas contain themselves. */
export const MOST_DEPTH = 6;

const REFERENCE = "#/components/schemas/";

/** Returns the schema to which a reference leads, or the schema itself. */
export function resolved(schema: Schema, schemas: Schemas): Schema {
  if (schema.$ref === undefined) return schema;
  const target = schemas[schema.$ref.slice(REFERENCE.length)];
  return target ? { ...target, ...(schema.description !== undefined && { description: schema.description }) } : {};
}

/** Returns the variants of a schema that is one of several, without null; one variant for other schemas. */
export function variants(schema: Schema): Schema[] {
  const several = schema.oneOf ?? schema.anyOf;
  return several ? several.filter((it) => it.type !== "null") : [schema];
}

/** Returns a schema's type in words, such as "integer, 0 to 100, or null". */
export function typeOf(schema: Schema, schemas: Schemas): string {
  if (schema.$ref !== undefined) {
    const target = resolved(schema, schemas);
    return target.enum ? typeOf(target, schemas) : schema.$ref.slice(REFERENCE.length);
  }
  const several = schema.oneOf ?? schema.anyOf;
  if (several) return several.map((it) => typeOf(it, schemas)).join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((it) => JSON.stringify(it)).join(" or ");
  const types = schema.type === undefined ? ["any value"] : [schema.type].flat();
  const names = types.map((type) => (type === "array" ? `array of ${typeOf(schema.items ?? {}, schemas)}` : type));
  const limits = [
    schema.format,
    range(schema.minimum, schema.maximum),
    range(schema.minLength, schema.maxLength, " characters"),
    range(schema.minItems, schema.maxItems, " items"),
  ].filter((it) => it !== undefined && it !== "");
  return [names.join(" or "), ...limits].join(", ");
}

function range(from: number | undefined, to: number | undefined, unit = ""): string {
  if (from === undefined && to === undefined) return "";
  if (to === undefined) return `at least ${from}${unit}`;
  return from === undefined ? `at most ${to}${unit}` : `${from} to ${to}${unit}`;
}

/** Returns an example: the document's own, or the required fields with plain values. */
export function exampleOf(given: Schema, schemas: Schemas, depth = 0): unknown {
  const schema = resolved(given, schemas);
  for (const known of [schema.example, schema.const, schema.default, schema.enum?.[0]]) if (known !== undefined) return known;
  if (depth >= MOST_DEPTH) return null;
  if (schema.allOf) {
    return Object.assign({}, ...schema.allOf.map((it) => exampleOf(it, schemas, depth + 1))) as unknown;
  }
  const [first] = variants(schema);
  if (first && first !== schema) return exampleOf(first, schemas, depth + 1);
  const type = [schema.type].flat()[0];
  switch (type) {
    case "object":
      return Object.fromEntries(
        (schema.required ?? []).map((name) => [name, exampleOf(schema.properties?.[name] ?? {}, schemas, depth + 1)]),
      );
    case "array":
      return schema.items && (schema.minItems ?? 0) > 0 ? [exampleOf(schema.items, schemas, depth + 1)] : [];
    case "string":
      return schema.format === "date-time" ? "2026-01-31T09:30:00.000Z" : "text";
    case "integer":
    case "number":
      return schema.minimum ?? 0;
    case "boolean":
      return false;
    default:
      return null;
  }
}
