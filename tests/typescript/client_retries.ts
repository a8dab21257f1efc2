// Retries, keys and typed errors of the installed package `@hotdesk/client` against a small server
// (tests/it/typescript_library.rs).

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
    ConnectionError, Computer, Hotdesk, HotdeskError, NotFoundError, RateLimitError, Screenshot, UnavailableError, type Schemas,
    type SocketLike,
} from "@hotdesk/client";

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const asked: { method: string; path: string; key: string | undefined; body: string }[] = [];
let answers: Answer[] = [];

const json = (status: number, body: object, headers: Record<string, string> = {}): Answer => (_, response) => {
    response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(body));
};
const cut: Answer = (request) => request.socket.destroy();
const later = { "Retry-After": "0" };

const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => (body += text)).on("end", () => {
        const key = request.headers["idempotency-key"] as string | undefined;
        asked.push({ method: request.method ?? "", path: request.url ?? "", key, body });
        const answer = answers.shift() ?? json(500, { error: "No answer is left" });
        answer(request, response);
    });
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/`;
const hotdesk = new Hotdesk({ url, key: "sk_test" });
const record = { id: "00000000-0000-4000-8000-000000000001", name: "desk", status: "running" } as Schemas["Computer"];
const desk = new Computer(hotdesk, record, false);

/** The requests that a call makes to a server with these answers. */
async function requests(next: Answer[], call: () => Promise<unknown>): Promise<typeof asked> {
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

const clicked = json(200, { success: true, action: "click" });

// A change that was refused is repeated after Retry-After, with the same key and body.
const began = performance.now();
let made = await requests([json(429, { error: "Slow down" }, { "Retry-After": "1" }), clicked], () => desk.click(3, 4));
assert.ok(performance.now() - began >= 1000);
assert.equal(made.length, 2);
assert.deepEqual(made[0], made[1]);
assert.match(made[0]?.key ?? "", /^[0-9a-f]{32}$/);
assert.deepEqual([made[0]?.path, made[0]?.body], [`/api/computers/${record.id}/click`, '{"x":3,"y":4}']);

// Two changes have different keys, a read has none, and a caller's own key is used.
const [first] = await requests([clicked], () => desk.click(1, 1));
const [second] = await requests([clicked], () => desk.click(1, 1));
assert.notEqual(first?.key, second?.key);
const [read] = await requests([json(200, record)], () => desk.refresh());
assert.deepEqual([read?.method, read?.key], ["GET", undefined]);
const [own] = await requests([clicked], () => desk.click(1, 1, { idempotencyKey: "my-own-key" }));
assert.equal(own?.key, "my-own-key");

// A lost answer, an answer that the first request still runs (as often as needed), and a wake.
const running = json(409, { error: "Running", code: "idempotency_in_progress" }, later);
const waking = json(503, { error: "Waking", code: "resuming" }, later);
made = await requests([cut, ...Array.from({ length: 8 }, () => running), waking, clicked], () => desk.click(1, 1));
assert.equal(new Set(made.map((it) => it.key)).size, 1);

// A read is repeated after any failure of the service; a change without Retry-After is not.
await requests([json(500, { error: "Failed" }), json(200, record)], () => desk.refresh());
let error = await errorOf([json(500, { error: "Failed", request_id: "ab" })], () => desk.click(1, 1));
assert.deepEqual([error.status, error.message, error.requestId], [500, "Failed", "ab"]);

// Typed errors with their fields.
error = await errorOf([json(404, { error: "Desktop not found" }, { "X-Request-Id": "cd" })], () => desk.refresh());
assert.ok(error instanceof NotFoundError);
assert.deepEqual([error.status, error.code, error.requestId, error.name], [404, undefined, "cd", "NotFoundError"]);
const daily = json(429, { error: "Tomorrow", code: "RATE_LIMITED" }, { "Retry-After": "3600" });
error = await errorOf([daily], () => desk.refresh());
assert.ok(error instanceof RateLimitError);
assert.deepEqual([error.code, error.retryAfter], ["RATE_LIMITED", 3600]);
const proxy: Answer = (_, response) => response.writeHead(502).end("<html>Bad gateway</html>");
error = await errorOf([proxy], () => desk.click(1, 1));
assert.ok(error instanceof UnavailableError);
assert.equal(error.message, "The service answered 502");
const page: Answer = (_, response) => response.writeHead(200).end("<html>Sign in to the hotel's network</html>");
assert.ok((await errorOf([page], () => desk.refresh())) instanceof ConnectionError);

// Retries end, and 0 means none.
const busy = json(503, { error: "Busy" }, later);
assert.ok((await errorOf(Array.from({ length: 6 }, () => busy), () => desk.refresh())) instanceof UnavailableError);
const once = new Computer(new Hotdesk({ url, key: "sk_test", maxRetries: 0 }), record, false);
assert.ok((await errorOf([busy], () => once.refresh())) instanceof UnavailableError);
assert.ok((await errorOf([cut], () => once.refresh())) instanceof ConnectionError);

// An abort ends the wait for a repeat, and the reason is the caller's. It follows the answer, however late that is.
const leaving = new AbortController();
const signal = leaving.signal;
const waiting = () => desk.refresh({ signal });
const left: Answer = (request, response) => {
    response.on("finish", () => setTimeout(() => leaving.abort(), 50));
    json(429, { error: "Slow down" }, { "Retry-After": "50" })(request, response);
};
await requests([left], () => assert.rejects(waiting(), (thrown: unknown) => thrown === signal.reason));

// Small bytes are a file's body under a key; a workspace that another program creates meanwhile is found.
const written = await requests([busy, json(200, {})], () => desk.files.write("a b.txt", "ä"));
const target = `/api/computers/${record.id}/files/content?path=a%20b.txt&overwrite=true`;
assert.deepEqual([written[1]?.path, written[1]?.body], [target, "ä"]);
assert.ok(written[0]?.key && written[0].key === written[1]?.key);
const missing = json(404, { error: "Workspace not found" });
const taken = json(400, { error: "Taken", code: "NAME_TAKEN" });
await requests([missing, taken, json(200, { id: "w" })], async () => {
    assert.equal((await hotdesk.workspace("team")).id, "w");
});

// A constructor of WebSockets where there is none, or another one. An address is never part of an error.
const sockets: string[] = [];
class FailingSocket {
    binaryType = "";
    readyState = 0;
    constructor(address: string) {
        sockets.push(address);
    }
    send(): void {}
    close(): void {}
    addEventListener(type: string, listener: (event: { data: unknown; code: number; reason: string }) => void): void {
        if (type === "close") setTimeout(() => listener({ data: "", code: 4401, reason: "wrong token" }));
    }
}
const password = json(200, { password: "s3cret" });
const Socket = FailingSocket as unknown as new (url: string) => SocketLike;
const other = new Computer(new Hotdesk({ url, key: "sk_test", WebSocket: Socket }), record, false);
error = await errorOf([password], async () => {
    for await (const event of other.events(["idle"])) assert.fail(event.type);
});
assert.equal(error.message, "The socket was closed with 4401: wrong token");
assert.deepEqual(sockets, [`ws://${new URL(url).host}/desktops/${record.id}/ws/events?token=s3cret`]);
assert.ok(!JSON.stringify(error).includes("s3cret"));
Reflect.deleteProperty(globalThis, "WebSocket");
assert.match((await errorOf([], () => desk.terminal().next())).message, /no WebSocket/);
assert.throws(() => new Hotdesk({ url, key: "" }), /No API key/);

// A redirect would make a read of a change; an empty file is a stream without bytes.
const moved: Answer = (_, response) => response.writeHead(301, { Location: "/elsewhere" }).end();
error = await errorOf([moved], () => desk.click(1, 1));
assert.deepEqual([error.status, error.message], [301, "The address of the service leads to another one"]);
const nothing: Answer = (_, response) => response.writeHead(200, { "Content-Length": "0" }).end();
await requests([nothing], async () => {
    for await (const piece of await desk.files.stream("empty")) assert.fail(String(piece));
});

// The service takes a longer body than a key allows, without a key.
const image = "A".repeat(3 * 1024 * 1024);
const params = { path: { id: record.id } };
const [picture] = await requests([json(200, {})], () =>
    hotdesk.api.PUT("/computers/{id}/clipboard", { params, body: { image } }),
);
assert.deepEqual([picture?.key, (picture?.body.length ?? 0) > image.length], [undefined, true]);

// A computer can send any bytes as a picture: the type is that of the bytes, and other types than three are refused.
const head: Record<string, number[]> = {
    "image/png": [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 8, 0, 0, 0, 6],
    "image/jpeg": [0xff, 0xd8, 0xff, 0xe0, 0, 4, 0, 0, 0xff, 0xc0, 0, 11, 8, 0, 6, 0, 8],
    "image/webp": [...Buffer.from("RIFF\0\0\0\0WEBPVP8X"), 10, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 5, 0, 0],
};
const bytes = (content: Uint8Array, type: string): Answer => (_, response) => {
    response.writeHead(200, { "Content-Type": type, "X-Hotdesk-Width": "8", "X-Hotdesk-Frame": "f1" }).end(content);
};
for (const [type, content] of Object.entries(head)) {
    await requests([bytes(Uint8Array.from(content), "text/html")], async () => {
        const shown = await desk.screenshot();
        assert.deepEqual([shown.type, shown.width, shown.frame, shown.blob().type], [type, 8, "f1", type]);
        assert.ok(shown.dataUrl().startsWith(`data:${type};base64,`));
    });
    const inJson = { image: Buffer.from(content).toString("base64"), mime_type: "image/svg+xml", width: 8, height: 6 };
    const shown = Screenshot.fromRecord(inJson);
    assert.deepEqual([shown.type, [...shown.bytes], shown.width, shown.height, shown.scale], [type, content, 8, 6, 1]);
}
const png = head["image/png"] ?? [];
const huge = [...png.slice(0, 16), 0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60];
const svg = Buffer.from("<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>");
for (const content of [huge, [...svg], [...Buffer.from("GIF89a")], png.slice(0, 20), []]) {
    await errorOf([bytes(Uint8Array.from(content), "image/png")], () => desk.screenshot());
    const image = Buffer.from(content).toString("base64");
    assert.throws(() => Screenshot.fromRecord({ image, width: 8, height: 6 }), HotdeskError);
}
for (const image of ["a", "data:image/png;base64,AAAA", "A".repeat(200_000_000)]) {
    assert.throws(() => Screenshot.fromRecord({ image, width: 8, height: 6 }), HotdeskError);
}

// Secrets are in no error.
for (const options of [{ url, key: "s3cret\nkey" }, { url: "http://me:s3cret@desk.example", key: "sk_test" }]) {
    assert.throws(() => new Hotdesk(options), (thrown: unknown) => {
        return thrown instanceof HotdeskError && !thrown.message.includes("s3cret") && thrown.cause === undefined;
    });
}
assert.throws(() => new Hotdesk({ url: "ftp://desk.example", key: "sk_test" }), HotdeskError);
assert.equal(new Hotdesk({ url: "https://desk.example/desks/api/", key: " sk_test\n" }).url, "https://desk.example/desks");

server.close();
console.log("all retries passed");
