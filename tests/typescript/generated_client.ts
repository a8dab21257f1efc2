// Use of the types that openapi-typescript generates from the recorded OpenAPI document, with openapi-fetch.
//
// usage: generated_client.ts API_URL FILE.png   (the key is in HOTDESK_API_KEY)
//
// Creates a computer, performs a list of actions and saves a screenshot.

import { writeFileSync } from "node:fs";
import createClient from "openapi-fetch";
import type { paths } from "./api.d.ts";

function must<T>(answer: { data?: T; error?: { error: string } | unknown; response: Response }): T {
    if (answer.data === undefined) throw new Error(`${answer.response.status}: ${JSON.stringify(answer.error)}`);
    return answer.data;
}

const [url, picture] = process.argv.slice(2) as [string, string];
const headers = { Authorization: `Bearer ${process.env.HOTDESK_API_KEY}` };
const client = createClient<paths>({ baseUrl: url, headers });

const workspace = must(await client.POST("/workspaces", { body: { name: "generated typescript" } }));
const computer = must(
    await client.POST("/computers", {
        body: { name: "desk", workspace_id: workspace.id, cpu: 1 },
        params: { header: { "Idempotency-Key": "generated-typescript" } },
    }),
);
const path = { id: computer.id };
const done = must(
    await client.POST("/computers/{id}/actions", {
        params: { path },
        body: {
            actions: [
                { action: "click", x: 200, y: 150, button: "right" },
                { action: "key", key: "Escape" },
            ],
        },
    }),
);
if (!done.success) throw new Error(JSON.stringify(done));

const shot = must(
    await client.GET("/computers/{id}/screenshot", {
        params: { path, query: { response_format: "binary", format: "png" } },
        parseAs: "arrayBuffer",
    }),
);
writeFileSync(picture, Buffer.from(shot as ArrayBuffer));

// The body of a clone is optional.
const clone = must(await client.POST("/computers/{id}/clone", { params: { path } }));
for (const id of [clone.id, computer.id]) {
    must(await client.DELETE("/computers/{id}", { params: { path: { id } } }));
}
