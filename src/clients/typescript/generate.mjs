// Generator of the low layer's types from the OpenAPI document.
//
// usage: node generate.mjs OPENAPI.json OUT.ts
//
// Two things differ from plain `openapi-typescript`: bytes are `Blob` and not `string`, and the many equal failures of an
// operation become one `default` response, which halves the file.

import { readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const FAILURE = "#/components/schemas/ErrorBody";

const [source, target] = process.argv.slice(2);
const text = readFileSync(source, "utf8");
const api = JSON.parse(text);

const isFailure = ([status, response]) =>
  !status.startsWith("2") && response.content?.["application/json"]?.schema?.$ref === FAILURE;

for (const item of Object.values(api.paths)) {
  for (const operation of Object.values(item)) {
    if (!operation.responses) continue;
    const all = Object.entries(operation.responses);
    const failures = all.filter(isFailure);
    if (failures.length === 0) continue;
    const rest = all.filter((entry) => !isFailure(entry));
    const content = { "application/json": { schema: { $ref: FAILURE } } };
    operation.responses = { ...Object.fromEntries(rest), default: { description: "A failure", content } };
  }
}

const blob = ts.factory.createTypeReferenceNode("Blob");
const tree = await openapiTS(api, {
  alphabetize: true,
  // Objects without listed fields hold any.
  emptyObjectsUnknown: true,
  transform: (schema) => (schema.format === "binary" ? blob : undefined),
});
const about = `/** Types of hotdesk's API ${api.info.version}, generated from its OpenAPI document by generate.mjs. */\n`;
writeFileSync(target, `${about}\n${astToString(tree)}`);
