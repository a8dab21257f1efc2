// Streams, control, templates and secrets of the installed package `@hotdesk/client` against a small server
// (tests/it/typescript_library.rs).

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
    BuildError, Computer, ConflictError, ConnectionError, Hotdesk, HotdeskError, UnavailableError, type Schemas,
} from "@hotdesk/client";

interface Asked {
    method: string;
    path: string;
    type: string | undefined;
    key: string | undefined;
    anthropicKey: string | undefined;
    body: string;
}
type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const asked: Asked[] = [];
let answers: Answer[] = [];

const json = (status: number, body: object, headers: Record<string, string> = {}): Answer => (_, response) => {
    response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(body));
};
const later = { "Retry-After": "0" };

/** Answers with these bytes, each piece by itself. The last piece ends the answer, or leaves it open. */
function pieces(bytes: Uint8Array[], ending: "end" | "open" | "cut" = "end"): Answer {
    return (request, response) => {
        response.writeHead(200, { "X-Thread-Id": "thr_1" });
        const write = (at: number) => {
            const piece = bytes[at];
            if (piece) return response.write(piece, () => setTimeout(() => write(at + 1), 2));
            if (ending === "end") response.end();
            if (ending === "cut") request.socket.destroy();
        };
        write(0);
    };
}

const bytesOf = (text: string) => new TextEncoder().encode(text);
/** Pieces of three bytes: they cut characters, lines and events. */
const cutUp = (text: string) => {
    const bytes = bytesOf(text);
    return Array.from({ length: Math.ceil(bytes.length / 3) }, (_, at) => bytes.slice(at * 3, at * 3 + 3));
};
const events = (...data: unknown[]) => data.map((it) => `data: ${JSON.stringify(it)}\r\n\r\n`).join("");
const delta = (content: string, more: object = {}) => ({ choices: [{ delta: { content } }], ...more });

const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => (body += text)).on("end", () => {
        const field = (name: string) => request.headers[name] as string | undefined;
        const [key, type, anthropicKey] = ["idempotency-key", "content-type", "x-anthropic-key"].map(field);
        asked.push({ method: request.method ?? "", path: request.url ?? "", type, key, anthropicKey, body });
        const answer = answers.shift() ?? json(500, { error: "No answer is left" });
        answer(request, response);
    });
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const hotdesk = new Hotdesk({ url, key: "sk_test" });
const record = { id: "00000000-0000-4000-8000-000000000001", name: "desk", status: "running" } as Schemas["Computer"];
const desk = new Computer(hotdesk, record, false);
const controlPath = `/api/computers/${record.id}/screens/default/control`;

/** The requests that a call makes to a server with these answers. */
async function requests(next: Answer[], call: () => Promise<unknown>): Promise<Asked[]> {
    asked.length = 0;
    answers = next;
    await call();
    assert.equal(answers.length, 0, "every answer was asked for");
    return [...asked];
}

/** The error of a call to a server with these answers. */
async function errorOf(next: Answer[], call: () => Promise<unknown>): Promise<HotdeskError> {
    let thrown: unknown;
    await requests(next, async () => {
        thrown = await call().then(() => undefined, (error: unknown) => error);
    });
    assert.ok(thrown instanceof HotdeskError, String(thrown));
    return thrown;
}

// A run as it happens: texts and waits in order, whatever the pieces; comments and empty deltas are nothing.
const usage = { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8, prompt_tokens_details: { cached_tokens: 0 } };
const ended = { thread_id: "thr_1", steps: 1, cost_cents: 0.5, ended: "done" };
const waits = { waiting_for: "control", holder: { kind: "person" } };
const whole = `: waits\n\n${events(delta(""), delta("Grü"), { progress: waits }, { progress: { waiting_for: null } }, delta("ße."))}`
    + `${events(delta("", { orgo: ended, usage }))}data: [DONE]\n\n${events(delta("never"))}`;
const [run] = await requests([pieces(cutUp(whole))], async () => {
    const stream = desk.chat.stream("Hello.", { max_steps: 3, anthropicKey: "sk-ant" });
    await stream.ready;
    assert.equal(stream.threadId, "thr_1");
    const seen: unknown[] = [];
    for await (const event of stream) seen.push(event);
    const texts = [{ text: "Grü" }, { text: "", progress: waits }, { text: "", progress: { waiting_for: null } }, { text: "ße." }];
    assert.deepEqual(seen, texts);
    assert.deepEqual(stream.answer, { text: "Grüße.", run: ended, usage });
    assert.equal((await stream.next()).done, true);
});
assert.deepEqual(JSON.parse(run?.body ?? ""), {
    max_steps: 3, computer_id: record.id, messages: [{ role: "user", content: "Hello." }], stream: true,
});
assert.deepEqual([run?.path, run?.anthropicKey], ["/api/v1/chat/completions", "sk-ant"]);
assert.match(run?.key ?? "", /^[0-9a-f]{32}$/);

// A run that fails after its head is the error that it would have been before, with its thread, and is not repeated.
const failure = { type: "api_error", message: "The model is down", code: "model_unavailable", thread_id: "thr_1", request_id: "ab" };
let error = await errorOf([pieces([bytesOf(events(delta("One"), { error: failure }))])], () => desk.chat.run("Hello."));
assert.ok(error instanceof UnavailableError);
const fields = [error.status, error.code, error.message, error.threadId, error.requestId];
assert.deepEqual(fields, [503, "model_unavailable", "The model is down", "thr_1", "ab"]);
const inUse = { ...failure, type: "conflict_error", code: "run_in_progress" };
error = await errorOf([json(409, { error: inUse }, { ...later, "X-Should-Retry": "false" })], () => desk.chat.run("Hello."));
assert.ok(error instanceof ConflictError);
assert.equal(error.threadId, "thr_1");
const [first, second] = await requests(
    [json(503, { error: failure }, later), pieces([bytesOf(`${events(delta("Hi", { orgo: ended }))}data: [DONE]\n\n`)])],
    async () => assert.equal((await desk.chat.run("Hello.")).text, "Hi"),
);
assert.ok(first?.key && first.key === second?.key);

// An answer that breaks off, or that ends too early.
for (const ending of ["cut", "end"] as const) {
    error = await errorOf([pieces([bytesOf(events(delta("One")))], ending)], () => desk.chat.run("Hello."));
    assert.ok(error instanceof ConnectionError, String(error));
}

// Who leaves a run closes its request: by the end of a loop, by `close` while somebody waits, and by a signal.
let closed: Promise<void> = Promise.resolve();
const open: Answer = (request, response) => {
    closed = new Promise((resolve) => response.once("close", resolve));
    pieces([bytesOf(events(delta("One")))], "open")(request, response);
};
await requests([open], async () => {
    for await (const event of desk.chat.stream("Hello.")) {
        assert.equal(event.text, "One");
        break;
    }
    await closed;
});
await requests([open], async () => {
    await using stream = desk.chat.stream("Hello.");
    assert.equal((await stream.next()).value?.text, "One");
    const waiting = stream.next();
    stream.close();
    assert.equal((await waiting).done, true);
    await closed;
});
await requests([open], async () => {
    const aborting = new AbortController();
    const stream = desk.chat.stream("Hello.", { signal: aborting.signal });
    assert.equal((await stream.next()).value?.text, "One");
    const reason = new Error("enough");
    aborting.abort(reason);
    await assert.rejects(stream.next(), (thrown: unknown) => thrown === reason);
    await closed;
});

const silent: Answer = (_, response) => {
    closed = new Promise((resolve) => response.once("close", resolve));
};
await requests([silent], async () => {
    const aborting = new AbortController();
    const stream = desk.chat.stream("Hello.", { signal: aborting.signal });
    const waiting = stream.next();
    while (asked.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    const reason = new Error("too late");
    aborting.abort(reason);
    await assert.rejects(waiting, (thrown: unknown) => thrown === reason);
    await assert.rejects(stream.ready);
    await closed;
});

// Steps in pages, until the run has ended.
const step = (number: number) => ({ number, call: { id: "c", name: "bash", input: {} } });
const followed = await requests(
    [
        json(200, { run: "running" }), json(200, { steps: [step(1), step(2)], next_cursor: "2" }),
        json(200, { run: "running" }), json(200, { steps: [] }),
        json(200, { run: "done" }), json(200, { steps: [step(5)], next_cursor: null }),
    ],
    async () => {
        const numbers: number[] = [];
        for await (const it of desk.chat.steps("thr_1", { follow: true })) numbers.push(it.number);
        assert.deepEqual(numbers, [1, 2, 5]);
    },
);
assert.ok(followed[3]?.path.includes("cursor=2"), followed[3]?.path);

// Input on a screen that somebody else holds is refused at once.
const held = json(409, { error: "Held", code: "control_held", holder: { kind: "person" } }, later);
error = await errorOf([held], () => desk.click(1, 1));
assert.ok(error instanceof ConflictError);
assert.equal(error.code, "control_held");

// Control is renewed without `force`, and handed back with a note or at the end of the block.
const state = (revision: number) => json(200, { screen: "default", revision });
const bodyOf = (it: Asked | undefined) => JSON.parse(it?.body ?? "") as unknown;
const taken = await requests([state(1), state(2), state(3), state(4)], async () => {
    const lease = await desk.control.take({ note: "I sign in", seconds: 1, force: true });
    assert.equal(lease.state.revision, 1);
    while (lease.state.revision < 3) await new Promise((resolve) => setTimeout(resolve, 10));
    await lease.handBack("Signed in.");
    await lease[Symbol.asyncDispose]();
});
assert.deepEqual(taken.map((it) => it.path), [
    `${controlPath}?force=true`, controlPath, controlPath, `${controlPath}/hand_back`,
]);
assert.deepEqual([bodyOf(taken[1]), bodyOf(taken[3])], [{ note: "I sign in", seconds: 1 }, { note: "Signed in." }]);
// A renewal may be lost: the next one is in time.
const busy = json(503, { error: "Busy" });
await requests([state(1), busy, state(2), state(3)], async () => {
    await using lease = await desk.control.take({ seconds: 3 });
    while (lease.state.revision < 2) await new Promise((resolve) => setTimeout(resolve, 10));
});
// Not longer than the time of the control: then there is no further renewal, and the block ends with the error of the last one.
error = await errorOf([state(1)], async () => {
    await using lease = await desk.control.take({ seconds: 1 });
    for (let count = 0; count < asked.length; await new Promise((resolve) => setTimeout(resolve, 1500))) count = asked.length;
    assert.equal(lease.state.revision, 1);
    answers = [state(2)];
});
assert.equal(error.message, "No answer is left");
// When somebody else took it, the block ends with that error.
error = await errorOf([state(1), held, held], async () => {
    await using lease = await desk.control.take({ seconds: 1 });
    while (answers.length > 1) await new Promise((resolve) => setTimeout(resolve, 10));
    assert.equal(lease.state.revision, 1);
});
assert.equal(error.code, "control_held");

// The log of a build, and a timeline whose last line is not complete yet.
const entry = { ts: "2026-01-01T00:00:00Z", level: "info", phase: "install", line: "Grüße" };
const [logged] = await requests([pieces(cutUp(events(entry, { ...entry, phase: "ready" })))], async () => {
    const phases: string[] = [];
    for await (const { phase, line } of hotdesk.templates.buildLog("tools@1.0.0")) phases.push(`${phase} ${line}`);
    assert.deepEqual(phases, ["install Grüße", "ready Grüße"]);
});
assert.equal(logged?.path, "/api/templates/default/tools/1.0.0/build/events");
await requests([pieces(cutUp('{"at": 0.5, "action": "click"}\n{"at": 1'))], async () => {
    const actions: unknown[] = [];
    for await (const it of desk.recordings.timeline({ id: "r" })) actions.push(it.action);
    assert.deepEqual(actions, ["click"]);
});
await requests([pieces([bytesOf("video")])], async () => {
    let text = "";
    for await (const piece of await desk.recordings.video("r")) text += new TextDecoder().decode(piece);
    assert.equal(text, "video");
});

// A definition file is YAML under a key, also from an object.
const published = { ref: "default/tools@1.0.0", digest: "d", published: true };
const [, posted] = await requests([json(503, { error: "Busy" }, later), json(201, published)], () =>
    hotdesk.templates.publish({ name: "tools@1.0.0" }, { build: true }),
);
assert.deepEqual([posted?.path, posted?.type, posted?.body], [
    "/api/templates?auto_build=true", "application/yaml", '{"name":"tools@1.0.0"}',
]);
assert.match(posted?.key ?? "", /^[0-9a-f]{32}$/);
const failed = { ref: "default/tools@1.0.0", digest: "d", status: "failed", error: "install: exit code 1" };
error = await errorOf([json(200, { ...failed, status: "building" }), json(200, failed)], () =>
    hotdesk.templates.waitForBuild("tools@1.0.0"),
);
assert.ok(error instanceof BuildError);
assert.deepEqual(error.build, failed);
for (const wrong of ["tools", "tools@", "@1.0.0", "/tools@1.0.0", "a/b/c@1.0.0"]) {
    await assert.rejects(hotdesk.templates.get(wrong), /is no reference of a template/);
}

// Secrets of a workspace by its name.
const [found, stored] = await requests([json(200, { id: "w1" }), json(200, { name: "TOKEN" })], () =>
    hotdesk.secrets.set("TOKEN", "value", { workspace: "team" }),
);
assert.deepEqual([found?.path, bodyOf(stored)], ["/api/workspaces/by-name/team", { value: "value", workspace_id: "w1" }]);
await assert.rejects(desk.streaming.start("studio", { url: "rtmp://live.example/app" }), /both `url` and `key`/);

server.close();
console.log("all streams passed");
