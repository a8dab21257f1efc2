// Plugin of Vite for the documentation: one module for each page of `docs`, the search index, and the API reference.
//
// | module | content |
// |---|---|
// | `virtual:docs/index` | navigation, and for each page a function that loads it |
// | `virtual:docs/page/FILE` | title, HTML and headings of a page |
// | `virtual:docs/search` | index of MiniSearch over the sections of all pages and the operations of the API |
// | `virtual:docs/reference` | what the reference shows of `packaging/openapi.json` |

import { readFileSync } from "node:fs";
import { join } from "node:path/posix";
import MiniSearch from "minisearch";
import { addressOf, IMAGE_MARK, navigation, readPages } from "./docs-pages.mjs";

const PREFIX = "virtual:docs/";
/** Characters of a section that the index stores to show where words were found: a few sentences. */
const STORED = 600;
const ERROR_BODY = "#/components/schemas/ErrorBody";

/** Returns the plugin. `folder` is `docs` of the repository, `openapi` the OpenAPI document. */
export function docs({ folder, openapi }) {
  let pages;
  const all = () => (pages ??= readPages(folder));
  return {
    name: "hotdesk-docs",
    buildStart() {
      pages = undefined;
      if (all().some((page) => page.path === "reference" || page.path.startsWith("reference/"))) {
        throw new Error("docs/reference is the address of the API reference: give the page another name");
      }
    },
    resolveId(id) {
      return id.startsWith(PREFIX) ? `\0${id}` : undefined;
    },
    load(id) {
      if (!id.startsWith(`\0${PREFIX}`)) return undefined;
      const name = id.slice(PREFIX.length + 1);
      if (name === "index") return indexModule(all());
      if (name === "search") return searchModule(all(), reference(openapi));
      if (name === "reference") return `export default JSON.parse(${JSON.stringify(JSON.stringify(reference(openapi)))});`;
      const page = all().find((it) => `page/${it.file}` === `${name}.md`);
      if (!page) throw new Error(`There is no module ${PREFIX}${name}`);
      return pageModule(folder, page);
    },
  };
}

function indexModule(pages) {
  const loads = pages.map((page) => {
    const name = `${PREFIX}page/${page.file.replace(/\.md$/, "")}`;
    return `${JSON.stringify(page.path)}: () => import(${JSON.stringify(name)})`;
  });
  return `export const groups = ${JSON.stringify(navigation(pages))};\nexport const pages = { ${loads.join(",\n")} };`;
}

function pageModule(folder, page) {
  // Text and names of images take turns.
  const parts = page.html.split(IMAGE_MARK);
  const imports = [];
  const html = parts.map((part, at) => {
    if (at % 2 === 0) return JSON.stringify(part);
    imports.push(`import image${at} from ${JSON.stringify(join(folder, part))};`);
    return `image${at}`;
  });
  const { title, headings } = page;
  return `${imports.join("\n")}\nexport default { ...${JSON.stringify({ title, headings })}, html: ${html.join(" + ")} };`;
}

function searchModule(pages, api) {
  const options = { fields: ["heading", "page", "text"], storeFields: ["heading", "page", "address", "text"] };
  const entries = pages.flatMap((page) =>
    page.sections.map((it) => ({
      heading: it.heading,
      page: page.title,
      address: addressOf(page.path) + (it.id ? `#${it.id}` : ""),
      text: it.text,
    })),
  );
  for (const it of api.operations) {
    entries.push({
      heading: `${it.method} ${it.path}`,
      page: "API operations",
      address: `/docs/reference/${it.tag.replaceAll(" ", "-")}#${it.id}`,
      text: `${it.summary} ${it.description}`.trim(),
    });
  }
  const index = new MiniSearch({
    ...options,
    extractField: (entry, field) => entry[field],
  });
  index.addAll(entries.map((it, id) => ({ ...it, id })));
  const stored = index.toJSON();
  for (const fields of Object.values(stored.storedFields)) fields.text = fields.text.slice(0, STORED);
  const text = JSON.stringify(JSON.stringify(stored));
  return `export const options = ${JSON.stringify(options)};\nexport default ${text};`;
}

/** Returns what the reference shows of the OpenAPI document: the failures of an operation without their common body. */
function reference(openapi) {
  const api = JSON.parse(readFileSync(openapi, "utf8"));
  const operations = [];
  for (const [path, item] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      if (!operation.operationId) continue;
      const parameters = operation.parameters ?? [];
      operations.push({
        id: operation.operationId,
        method: method.toUpperCase(),
        path,
        tag: operation.tags?.[0] ?? "service",
        summary: operation.summary ?? "",
        description: operation.description ?? "",
        // The same text at each change; the page says it once.
        isIdempotent: parameters.some((it) => it.name === "Idempotency-Key"),
        needsKey: (operation.security ?? []).length > 0,
        parameters: parameters
          .filter((it) => it.name !== "Idempotency-Key")
          .map((it) => ({
            name: it.name,
            in: it.in,
            isRequired: it.required === true,
            description: it.description ?? "",
            schema: it.schema ?? {},
          })),
        body: operation.requestBody && {
          isRequired: operation.requestBody.required === true,
          content: contentOf(operation.requestBody),
        },
        answers: Object.entries(operation.responses ?? {}).map(([status, answer]) => ({
          status,
          description: answer.description ?? "",
          content: contentOf(answer).filter((it) => it.schema.$ref !== ERROR_BODY),
        })),
      });
    }
  }
  return {
    version: api.info.version,
    tags: (api.tags ?? []).map(({ name, description }) => ({ name, description: description ?? "" })),
    operations,
    schemas: api.components.schemas,
  };
}

function contentOf(part) {
  return Object.entries(part.content ?? {}).map(([type, { schema }]) => ({ type, schema: schema ?? {} }));
}
