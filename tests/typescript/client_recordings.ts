// Recording and live stream of a computer by the installed package `@hotdesk/client` (tests/it/typescript_library.rs).
//
// usage: client_recordings.ts VIDEO.mp4 RTMP_URL   (HOTDESK_URL and HOTDESK_API_KEY: a service whose computers have ffmpeg)

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { Computer } from "@hotdesk/client";

const [video, url] = process.argv.slice(2) as [string, string];

await using desk = await Computer.create({ name: "recorded" });
const { recordings, streaming } = desk;
assert.equal((await streaming.start("studio", { url, key: "studio" })).status, "streaming");
assert.equal((await streaming.status()).status, "streaming");
const recording = await recordings.start({ fps: 5, max_seconds: 120 });
await desk.click(200, 150);
while ((await recordings.get(recording)).seconds < 2) await new Promise((resolve) => setTimeout(resolve, 200));
assert.equal((await recordings.stop(recording)).status, "stopped");
await writeFile(video, await recordings.video(recording));
const actions: string[] = [];
for await (const entry of recordings.timeline(recording)) actions.push(entry.action);
assert.deepEqual(actions, ["click"]);
assert.deepEqual((await recordings.list()).map((it) => it.id), [recording.id]);
await recordings.delete(recording.id);
assert.deepEqual(await recordings.list(), []);
await streaming.stop();
assert.equal((await streaming.status()).status, "idle");
const { connections } = desk.hotdesk;
assert.deepEqual((await connections.list()).map((it) => it.name), ["studio"]);
await connections.delete("studio");
