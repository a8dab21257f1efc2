// MCP client with the official TypeScript client (npm @modelcontextprotocol/client), with and without sessions, over HTTP with
// OAuth and over the relay `hotdesk mcp`. The package checks each result against its tool's output schema.
//
// usage: HOTDESK=... HOTDESK_API_KEY=... COOKIE=... node mcp_client.mjs FOLDER BASE WORKSPACE COMPUTER ELSEWHERE
//
// FOLDER has node_modules/@modelcontextprotocol/client. The key is of WORKSPACE alone. COOKIE is the session of a person, who
// approves each request of the client. ELSEWHERE is a computer of another workspace.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";

const [folder, base, workspace, computer, elsewhere] = process.argv.slice(2);
const { HOTDESK, HOTDESK_API_KEY, COOKIE } = process.env;
const require = createRequire(`${folder}/`);
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

// Nothing listens there: the person's browser only has to be sent there.
const REDIRECT = "http://127.0.0.1:53211/callback";

// Storage of a client, and a person with a signed-in browser who approves every request.
class Person {
  prompts = 0;
  redirectUrl = REDIRECT;
  clientMetadata = {
    client_name: "TypeScript",
    redirect_uris: [REDIRECT],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
  state = () => randomUUID();
  clientInformation = () => this.client;
  saveClientInformation = (client) => void (this.client = client);
  tokens = () => this.stored;
  saveTokens = (tokens) => void (this.stored = tokens);
  saveCodeVerifier = (verifier) => void (this.verifier = verifier);
  codeVerifier = () => this.verifier;
  discoveryState = () => this.discovered;
  saveDiscoveryState = (discovered) => void (this.discovered = discovered);

  async redirectToAuthorization(url) {
    this.prompts += 1;
    const headers = { Cookie: COOKIE };
    const page = await fetch(url, { headers });
    const text = await page.text();
    assert.equal(page.status, 200, text);
    const csrf = /name="csrf" value="([^"]+)"/.exec(text)[1];
    const body = new URLSearchParams({ csrf, decision: "allow", workspace });
    const answer = await fetch(url, { method: "POST", headers, body, redirect: "manual" });
    assert.equal(answer.status, 303, await answer.text());
    const target = answer.headers.get("location");
    assert.ok(target.startsWith(`${REDIRECT}?`), target);
    this.callback = new URL(target).searchParams;
  }
}

// What the person answers to the next questions, and the questions.
const person = { accepts: true, questions: [] };

function newClient(mode) {
  const options = { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } };
  const client = new Client({ name: "test", version: "1" }, options);
  client.setRequestHandler("elicitation/create", async (request) => {
    person.questions.push(request.params.message);
    return person.accepts ? { action: "accept", content: {} } : { action: "decline" };
  });
  return client;
}

// Connects over HTTP: the client is refused, finds the metadata, registers, is approved, and comes again with its tokens.
async function connectOverHttp(mode) {
  const browser = new Person();
  const open = () => new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { authProvider: browser });
  const first = open();
  const refused = await newClient(mode).connect(first).then(() => undefined, (error) => error);
  assert.ok(refused instanceof UnauthorizedError, `no request for authorization: ${refused?.stack}`);
  await first.finishAuth(browser.callback);
  assert.equal(browser.client.client_secret, undefined, "a public client");
  const client = newClient(mode);
  await client.connect(open());
  // The client believes in its token until the server refuses it, and renews it without a prompt.
  const before = browser.stored;
  browser.stored = { ...before, access_token: "no-longer-valid" };
  await client.callTool({ name: "list_workspaces", arguments: {} });
  assert.notEqual(browser.stored.access_token, before.access_token);
  assert.notEqual(browser.stored.refresh_token, before.refresh_token);
  assert.equal(browser.prompts, 1);
  return client;
}

async function connectOverStdio(mode) {
  const client = newClient(mode);
  const env = { HOTDESK_URL: base, HOTDESK_API_KEY };
  await client.connect(new StdioClientTransport({ command: HOTDESK, args: ["mcp"], env }));
  return client;
}

async function newThread() {
  const headers = { Authorization: `Bearer ${HOTDESK_API_KEY}`, "Content-Type": "application/json" };
  const body = JSON.stringify({ desktopId: computer });
  const created = await fetch(`${base}/api/chat/threads`, { method: "POST", headers, body });
  assert.equal(created.status, 201);
  return (await created.json()).remoteId;
}

async function useTools(client, transport, mode) {
  const call = (name, args = {}, options = undefined) => client.callTool({ name, arguments: args }, options);
  const succeed = async (name, args = {}, options = undefined) => {
    const result = await call(name, { computer_id: computer, ...args }, options);
    assert.ok(!result.isError, `${name}: ${JSON.stringify(result)}`);
    return result;
  };

  const tools = new Map((await client.listTools()).tools.map((tool) => [tool.name, tool]));
  const wanted = ["create_computer", "screenshot", "click", "bash", "list_threads", "run_agent"];
  assert.deepEqual(wanted.filter((name) => !tools.has(name)), []);
  assert.ok([...tools.values()].every((tool) => tool.outputSchema), "each tool has an output schema");
  assert.ok(tools.get("screenshot").annotations.readOnlyHint && !tools.get("bash").annotations.readOnlyHint);

  const { computers } = (await call("list_computers")).structuredContent;
  assert.deepEqual(computers.map((one) => one.id), [computer]);
  const shot = await succeed("screenshot", { format: "png" });
  const image = shot.content.find((part) => part.type === "image");
  assert.equal(image.mimeType, "image/png");
  assert.equal(Buffer.from(image.data, "base64").subarray(1, 4).toString(), "PNG");

  // A terminal that writes its input to a file, which is the judge.
  const mark = `typescript-${transport}-${mode}`;
  const terminal = `setsid xterm -T ${mark} -geometry 80x24+50+50 -e sh -c 'cat > /tmp/${mark}' >/dev/null 2>&1 &`;
  await succeed("bash", { command: terminal });
  const focus = `timeout 20 xdotool search --sync --onlyvisible --name ${mark} windowfocus --sync`;
  assert.equal((await succeed("bash", { command: focus })).structuredContent.exit_code, 0);
  await succeed("click", { x: 150, y: 150 });
  await succeed("type", { text: `hello ${mark}` });
  await succeed("key", { key: "Enter" });
  const written = `for i in $(seq 200); do grep -s . /tmp/${mark} && exit 0; sleep 0.1; done; exit 1`;
  assert.equal((await succeed("bash", { command: written })).structuredContent.output, `hello ${mark}\n`);
  await succeed("key", { key: "ctrl+d" });

  const text = "Grüße 🖥\n";
  await succeed("write_file", { path: `${mark}.txt`, text });
  assert.equal((await succeed("read_file", { path: `${mark}.txt` })).structuredContent.text, text);

  const reports = [];
  await succeed("bash", { command: "sleep 3" }, { onprogress: (report) => reports.push(report) });
  assert.ok(reports.length > 0 && reports[0].message.includes("bash"), JSON.stringify(reports));

  const { resources } = await client.listResources();
  assert.deepEqual(resources.map((one) => one.uri), [`hotdesk://computers/${computer}/screen`]);
  const [screen] = (await client.readResource({ uri: resources[0].uri })).contents;
  assert.equal(screen.mimeType, "image/jpeg");

  const refused = await call("screenshot", { computer_id: elsewhere });
  assert.ok(refused.isError && refused.structuredContent.code === "workspace_scope_mismatch", JSON.stringify(refused));
  assert.ok((await call("read_file", { computer_id: computer, path: "nowhere" })).isError);

  // The person is asked before something is destroyed: by a request of the session, or by the result of the call.
  const thread = await newThread();
  person.questions = [];
  person.accepts = false;
  const kept = await call("delete_thread", { thread_id: thread });
  assert.ok(kept.isError, JSON.stringify(kept));
  assert.ok(person.questions[0].includes(thread), person.questions[0]);
  person.accepts = true;
  const deleted = await call("delete_thread", { thread_id: thread });
  assert.ok(!deleted.isError, JSON.stringify(deleted));
  assert.equal(person.questions.length, 2);
  assert.ok((await call("get_thread", { thread_id: thread })).isError);
  console.log(`${transport} ${mode}: ${client.getNegotiatedProtocolVersion()}`);
}

for (const [transport, connect] of [["http", connectOverHttp], ["stdio", connectOverStdio]]) {
  for (const mode of ["legacy", "auto"]) {
    const client = await connect(mode);
    await useTools(client, transport, mode);
    await client.close();
  }
}
console.log("all tools used");
// Connections that are kept alive would delay the end.
process.exit(0);
