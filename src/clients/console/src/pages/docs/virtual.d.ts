// Modules that docs-plugin.mjs makes of the repository's documents.

declare module "virtual:docs/index" {
  export interface Heading { level: number; id: string; text: string }
  export interface Page { title: string; html: string; headings: Heading[] }
  /** Pages below one heading of the navigation. A path is what follows `/docs/`; that of the start page is empty. */
  export interface Group { name: string; pages: { path: string; title: string }[] }
  export const groups: readonly Group[];
  export const pages: Readonly<Record<string, () => Promise<{ default: Page }>>>;
}

declare module "virtual:docs/search" {
  /** Options with which the index was made. */
  export const options: { fields: string[]; storeFields: string[] };
  /** The index as JSON. */
  const index: string;
  export default index;
}

declare module "virtual:docs/reference" {
  export interface Schema {
    $ref?: string;
    type?: string | string[];
    description?: string;
    properties?: Record<string, Schema>;
    required?: string[];
    items?: Schema;
    oneOf?: Schema[];
    anyOf?: Schema[];
    allOf?: Schema[];
    enum?: unknown[];
    const?: unknown;
    default?: unknown;
    example?: unknown;
    format?: string;
    pattern?: string;
    minimum?: number;
    maximum?: number;
    minLength?: number;
    maxLength?: number;
    minItems?: number;
    maxItems?: number;
    additionalProperties?: boolean | Schema;
  }
  export interface Content { type: string; schema: Schema }
  export interface Parameter { name: string; in: string; isRequired: boolean; description: string; schema: Schema }
  export interface Operation {
    id: string;
    method: string;
    /** Pattern below `/api`, such as `/computers/{id}`. */
    path: string;
    tag: string;
    summary: string;
    description: string;
    isIdempotent: boolean;
    needsKey: boolean;
    parameters: Parameter[];
    body?: { isRequired: boolean; content: Content[] };
    /** Failures have no content: their body is that of all failures. */
    answers: { status: string; description: string; content: Content[] }[];
  }
  export interface Reference {
    version: string;
    tags: { name: string; description: string }[];
    operations: Operation[];
    schemas: Record<string, Schema>;
  }
  const reference: Reference;
  export default reference;
}
