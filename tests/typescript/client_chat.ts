// Runs of a scripted model by the installed package `@hotdesk/client` (tests/it/typescript_library.rs).
//
// HOTDESK_URL and HOTDESK_API_KEY: a service whose default model calls `bash` once, says "Done.", "Again." and "Further.", and then
// does not answer.

import assert from "node:assert/strict";
import { Computer, HotdeskError, NotFoundError } from "@hotdesk/client";

/** A run as it happens, with its thread; returns the thread's id. */
async function firstRun({ chat, files }: Computer): Promise<string> {
    const run = chat.stream("Make a file.");
    await run.ready;
    const thread = run.threadId;
    assert.ok(thread);
    let text = "";
    for await (const event of run) text += event.text;
    assert.ok(text.endsWith("Done."), text);
    assert.deepEqual([run.answer?.text, run.answer?.run.thread_id, run.answer?.run.steps], [text, thread, 1]);
    assert.ok(run.answer?.usage);
    // Both client libraries let a model make this file (tests/python/hotdesk_chat.py).
    assert.equal(await files.readText("made.txt"), "by a model\n");
    return thread;
}

async function threads({ chat }: Computer, thread: string): Promise<void> {
    const names: string[] = [];
    for await (const step of chat.steps(thread, { follow: true, timeout: 60 })) names.push(step.call.name);
    assert.deepEqual(names, ["bash"]);
    const answer = await chat.run("Once more.", { thread_id: thread });
    assert.deepEqual([answer.text, answer.run.thread_id], ["Again.", thread]);
    await chat.rename(thread, "A file");
    assert.deepEqual((await chat.threads()).map((it) => [it.id, it.title]), [[thread, "A file"]]);
    const record = await chat.thread(thread);
    assert.ok(record.run !== "running" && record.messages.length >= 4, JSON.stringify(record));
    assert.equal(await chat.stop(thread), false);
}

async function refusals({ chat }: Computer, thread: string): Promise<void> {
    await assert.rejects(chat.run("Hello.", { model: "no-such-model" }), (error: unknown) => {
        assert.ok(error instanceof HotdeskError);
        assert.deepEqual([error.status, error.code, error.requestId?.length], [400, "invalid_model", 32]);
        return true;
    });
    await chat.delete(thread);
    await assert.rejects(chat.thread(thread), NotFoundError);
    assert.deepEqual(await chat.threads(), []);
}

async function furtherRun({ chat }: Computer): Promise<void> {
    await using run = chat.stream([{ role: "user", content: "And you?" }]);
    const texts: string[] = [];
    for await (const event of run) texts.push(event.text);
    assert.equal(texts.join(""), "Further.");
    assert.ok(run.threadId);
    for await (const step of chat.steps(run.threadId)) assert.fail(step.call.name);
}

async function untilCancelled(desk: Computer, thread: string): Promise<void> {
    while ((await desk.chat.thread(thread)).run === "running") await desk.wait(0.1);
    assert.equal((await desk.chat.thread(thread)).run, "cancelled");
}

/** A run in the background is stopped by its thread, and another one ends when its client leaves it. */
async function stops(desk: Computer): Promise<void> {
    const background = desk.chat.stream("Think.", { background: true });
    await background.ready;
    background.close();
    assert.ok(background.threadId);
    assert.equal(await desk.chat.stop(background.threadId), true);
    await untilCancelled(desk, background.threadId);
    assert.equal(await desk.chat.stop(background.threadId), false);
    const left = desk.chat.stream("Think.");
    await left.ready;
    left.close();
    assert.ok(left.threadId);
    await untilCancelled(desk, left.threadId);
}

await using desk = await Computer.create({ name: "model" });
const thread = await firstRun(desk);
await threads(desk, thread);
await refusals(desk, thread);
await furtherRun(desk);
await stops(desk);
