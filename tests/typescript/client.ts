// Use of the installed package `@hotdesk/client` on a real computer (tests/it/typescript_library.rs).
//
// usage: client.ts FILE FILE.png   (the address and the key are in HOTDESK_URL and HOTDESK_API_KEY)
//
// Types a text into a terminal window, reads the file that it wrote back to FILE, and tries every other part of the client.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import {
    Computer, ConflictError, Hotdesk, HotdeskError, NotFoundError, SocketError, TimeoutError,
} from "@hotdesk/client";

// Both client libraries make this file (tests/python/hotdesk_client.py).
const TEXT = "Grüße: 1 < 2 && 'done'\n";
const [file, picture] = process.argv.slice(2) as [string, string];
const hotdesk = new Hotdesk();
const UNKNOWN = "00000000-0000-4000-8000-000000000000";

/** Waits until a file of the computer has a text. */
async function contentOf(desk: Computer, path: string, expected: string): Promise<string> {
    for (;;) {
        const text = await desk.files.readText(path).catch((error: unknown) => {
            if (error instanceof NotFoundError) return "";
            throw error;
        });
        if (text === expected) return text;
        await desk.wait(0.2);
    }
}

async function input(desk: Computer): Promise<void> {
    // A terminal as the editor: its window closes when the file is saved.
    const command = "xterm -title editor -e sh -c 'cat > /root/Desktop/typed.txt'";
    const { window } = await desk.launch({ command, wait_seconds: 60 });
    assert.ok(window, "a terminal window");
    assert.equal((await desk.waitForWindow("editor")).id, window.id);
    assert.ok((await desk.focusWindow(window.id)).focused);
    await desk.click(window.x + window.width / 2, window.y + window.height / 2, { settle: {} });
    await desk.type(TEXT);
    await desk.key("ctrl+d");
    writeFileSync(file, await contentOf(desk, "Desktop/typed.txt", TEXT));
    await assert.rejects(desk.waitForWindow("no such title", { timeout: 0.5 }), TimeoutError);

    const shot = await desk.screenshot({ scale: 0.5 });
    assert.deepEqual([shot.type, shot.width, shot.height, shot.scale], ["image/png", 640, 360, 0.5]);
    assert.equal(Buffer.from(shot.base64(), "base64").compare(shot.bytes), 0);
    writeFileSync(picture, shot.bytes);

    await desk.move(30, 40);
    const { x, y } = await desk.cursorPosition();
    assert.deepEqual([x, y], [30, 40]);
    const list = await desk.actions([
        { action: "move", x: 50, y: 60 },
        { action: "wait_stable", timeout_ms: 2000 },
    ]);
    assert.ok(list.success && list.results.length === 2);
    assert.equal((await desk.waitStable({ timeout_ms: 20_000 })).action, "wait_stable");
    await desk.setClipboard("copied");
    assert.equal(await desk.clipboard(), "copied");
}

async function commands(desk: Computer): Promise<void> {
    const ran = await desk.bash("echo $((6 * 7)); exit 3");
    assert.deepEqual([ran.stdout, ran.exit_code], ["42\n", 3]);
    await desk.exec("value = 20", { session: "s" });
    assert.equal((await desk.exec("print(value + 1)", { session: "s" })).output, "21\n");
    // A repeat under the same key is not carried out again.
    const idempotencyKey = "client-ts-twice";
    for (let number = 0; number < 2; number++) await desk.bash("echo once >> /tmp/count", { idempotencyKey });
    assert.equal(await desk.files.readText("/tmp/count"), "once\n");
}

async function files(desk: Computer): Promise<void> {
    await desk.files.mkdir("data");
    await desk.files.write("data/small.txt", "small");
    await assert.rejects(desk.files.write("data/small.txt", "other", { overwrite: false }), (error: unknown) => {
        assert.ok(error instanceof ConflictError);
        assert.deepEqual([error.code, error.status], ["already_exists", 409]);
        return true;
    });
    // Three pieces and a name that is not ASCII.
    const large = new Uint8Array(5 * 1024 * 1024).map((_, index) => index % 251);
    const progress: number[] = [];
    await desk.files.write("data/größer.bin", large, { onProgress: (sent) => progress.push(sent) });
    assert.equal(progress.length, 3);
    const hash = Buffer.from(await crypto.subtle.digest("SHA-256", large)).toString("hex");
    assert.equal(await desk.files.sha256("data/größer.bin"), hash);
    assert.equal(Buffer.compare(await desk.files.read("data/größer.bin"), large), 0);
    let bytes = 0;
    for await (const piece of await desk.files.stream("data/größer.bin")) bytes += piece.length;
    assert.equal(bytes, large.length);
    await desk.files.move("data/small.txt", "data/moved.txt");
    assert.deepEqual((await desk.files.list("data")).map((entry) => entry.name), ["größer.bin", "moved.txt"]);
    assert.equal((await desk.files.stat("data/moved.txt")).size, 5);
    await desk.files.remove("data", { recursive: true });
}

async function channels(desk: Computer): Promise<void> {
    const events = desk.events(["file_change"]);
    await events.ready;
    await desk.files.write("Desktop/heard.txt", "");
    for await (const event of events) {
        assert.equal(event.type, "file_change");
        if (event.data["path"] === "/home/user/Desktop/heard.txt") break;
    }
    assert.ok((await desk.eventTypes()).includes("file_change"));
    await using windows = desk.events(["window_open"]);
    await windows.ready;
    await assert.rejects(windows.waitFor(() => true, { timeout: 0.2 }), TimeoutError);
    const { window } = await desk.launch({ argv: ["xterm"], wait_seconds: 60 });
    const opened = await windows.waitFor((event) => event.data["window_id"] === window?.id);
    assert.equal(opened.type, "window_open");
    assert.ok(window && (await desk.closeWindow(window.id)));
    const unknown = desk.events(["none_such"]);
    await assert.rejects(unknown.next(), HotdeskError);
    assert.equal((await unknown.next()).done, true);

    await using terminal = desk.terminal({ cols: 100, rows: 30 });
    await terminal.resize(90, 20);
    await terminal.send("stty size\r");
    assert.match(await terminal.readUntil("20 90"), /stty size/);
    await terminal.send("echo \"Grüße $((40 + 2))\"; exit 7\r");
    let output = "";
    for await (const text of terminal) output += text;
    assert.match(output, /Grüße 42\r\n/);
    assert.equal(terminal.exitCode, 7);
    await assert.rejects(desk.terminal({ cols: 5000 }).next(), /cols must be a whole number/);
}

/** One program has the screen, and others wait for it; a request for help is answered, or nobody answers. */
async function control(desk: Computer): Promise<void> {
    const { data } = await hotdesk.api.POST("/keys", { body: { name: "other" } });
    assert.ok(data?.key);
    const other = await new Hotdesk({ key: data.key }).computer(desk.id);
    const isHeld = (error: unknown) => error instanceof ConflictError && error.code === "control_held";
    assert.ok(!(await desk.control.state()).holder);
    {
        await using lease = await desk.control.take({ note: "I sign in", seconds: 15 });
        assert.equal((await desk.control.state()).note, "I sign in");
        const taken = lease.state.expires_at ?? "";
        await assert.rejects(other.click(1, 1), isHeld);
        // It is renewed before its time is over.
        while ((lease.state.expires_at ?? "") <= taken) await desk.wait(0.1);
        await assert.rejects(other.control.waitUntilFree({ timeout: 1 }), TimeoutError);
        assert.ok(((await desk.control.state()).expires_at ?? "") > taken);
        await lease.handBack("Signed in.");
    }
    assert.equal((await other.control.waitUntilFree({ timeout: 60 })).last_hand_back?.note, "Signed in.");
    assert.ok((await other.click(1, 1)).success);
    // The owner of the workspace takes it from whoever has it.
    const lost = await desk.control.take();
    {
        await using _ = await other.control.take({ note: "Now.", force: true });
        await assert.rejects(lost.handBack(), isHeld);
    }
    assert.ok(!(await desk.control.state()).holder);
    const answer = async () => {
        while (!(await other.control.state()).help) await other.wait(0.1);
        await other.control.answerHelp("The first.");
    };
    const [helped] = await Promise.all([desk.control.askForHelp("Which one?", { timeout: 60 }), answer()]);
    assert.equal(helped.note, "The first.");
    await assert.rejects(desk.control.askForHelp("Nobody?", { timeout: 1 }), /Nobody answered/);
}

async function secrets(desk: Computer): Promise<void> {
    await hotdesk.secrets.set("TYPESCRIPT_TOKEN", "first");
    assert.equal((await hotdesk.secrets.set("TYPESCRIPT_TOKEN", "hidden value")).name, "TYPESCRIPT_TOKEN");
    const listed = await hotdesk.secrets.list();
    assert.deepEqual(listed.map((it) => it.name), ["TYPESCRIPT_TOKEN"]);
    assert.ok(!JSON.stringify(listed).includes("hidden value"));
    await desk.syncSecrets(["TYPESCRIPT_TOKEN"]);
    assert.match((await desk.bash("cat /root/.env")).output, /hidden value/);
    await hotdesk.secrets.delete("TYPESCRIPT_TOKEN");
    assert.deepEqual(await hotdesk.secrets.list(), []);
    const workspace = "typescript";
    assert.equal((await hotdesk.secrets.set("OTHER", "x", { workspace })).workspace_id, desk.record.workspace_id);
    await hotdesk.secrets.delete("OTHER", { workspace });
    assert.deepEqual(await hotdesk.secrets.list({ workspace }), []);
}

async function templates(): Promise<void> {
    const { templates } = hotdesk;
    const definition = { api_version: "hotdesk/v1", template: { name: "typescript-made", version: "1.0.0" } };
    assert.equal((await templates.validate(definition)).ref, "default/typescript-made@1.0.0");
    await assert.rejects(templates.validate("api_version: hotdesk/v1\ntemplate: {name: 3}\n"), (error: unknown) => {
        return error instanceof HotdeskError && error.status === 422 && Array.isArray(error.body["errors"]);
    });
    await templates.publish(definition);
    assert.deepEqual((await templates.list()).map((it) => it.ref), ["default/typescript-made@1.0.0"]);
    assert.equal((await templates.get("typescript-made@1.0.0")).ref, "default/typescript-made@1.0.0");
    assert.ok((await templates.listGlobal()).some((it) => it.ref === "system/desktop@1.0.0"));
    assert.equal((await templates.buildStatus("typescript-made@1.0.0")).status, "not_built");
    await templates.delete("typescript-made@1.0.0");
    const built = "typescript-built@1.0.0";
    const steps = { run: ["echo 'by a step' > /opt/made"] };
    await templates.publish({ api_version: "hotdesk/v1", name: built, build: steps }, { build: true });
    const log: string[] = [];
    for await (const entry of templates.buildLog(built)) log.push(`${entry.phase} ${entry.level}`);
    assert.equal(log.pop(), "ready success");
    assert.equal((await templates.waitForBuild(built)).status, "ready");
    {
        await using launched = await templates.launch(built);
        assert.equal((await launched.bash("cat /opt/made")).stdout, "by a step\n");
    }
    await templates.delete(built);
    assert.deepEqual(await templates.list(), []);
}

/** The computers of this test have no encoder, and this service sends no stream to private addresses. Both is said. */
async function recordings(desk: Computer): Promise<void> {
    const codeOf = (error: unknown) => (error instanceof HotdeskError ? [error.code, error.status] : [error]);
    assert.deepEqual(await desk.recordings.start().catch(codeOf), ["no_encoder", 409]);
    const server = { url: "rtmp://127.0.0.1/live", key: "k" };
    assert.deepEqual(await desk.streaming.start("studio", server).catch(codeOf), ["private_address", 400]);
    assert.deepEqual(await desk.recordings.list(), []);
    assert.equal((await desk.streaming.status()).status, "idle");
    assert.deepEqual(await hotdesk.connections.list(), []);
    await assert.rejects(desk.recordings.get(UNKNOWN), NotFoundError);
}

/** Hears a second of silence: 24,000 samples of 16 bits. */
async function sound(desk: Computer): Promise<void> {
    let bytes = 0;
    for await (const frame of desk.audio()) {
        bytes += frame.length;
        if (bytes >= 48_000) return;
    }
    assert.fail("the sound ended");
}

await assert.rejects(hotdesk.computer(UNKNOWN), (error: unknown) => {
    assert.ok(error instanceof NotFoundError);
    assert.deepEqual([error.status, error.message], [404, "Desktop not found"]);
    assert.match(error.requestId ?? "", /^[0-9a-f]{32}$/);
    return true;
});
await assert.rejects(hotdesk.computer("no such name"), NotFoundError);

let id: string;
{
    await using desk = await Computer.create({ name: "letters", workspace: "typescript" });
    id = desk.id;
    assert.equal(desk.status, "running");
    assert.equal((await hotdesk.computer("Letters")).id, id);
    assert.deepEqual((await hotdesk.computers({ name: "letters" })).map((it) => it.id), [id]);
    await input(desk);
    await commands(desk);
    await files(desk);
    await channels(desk);
    await sound(desk);
    await control(desk);
    await secrets(desk);
    await templates();
    await recordings(desk);
    const { id: before } = await desk.snapshot({ name: "before" });
    await desk.files.remove("Desktop/heard.txt");
    await desk.rollBack(before);
    await desk.waitForStatus("running");
    assert.equal(await desk.files.readText("Desktop/heard.txt"), "");
    assert.deepEqual((await desk.snapshots()).map((it) => it.name), ["before"]);
    await desk.deleteSnapshot(before);
    await desk.restart();
    assert.equal(desk.status, "running");
    assert.equal((await desk.bash("echo up")).stdout, "up\n");
    await using copy = await desk.clone({ name: "copy" });
    assert.equal(await copy.files.readText("Desktop/typed.txt"), TEXT);
    await desk.stop();
    assert.equal(desk.status, "stopped");
    await assert.rejects(desk.terminal().next(), (error: unknown) => {
        return error instanceof SocketError && error.closeCode === 4404;
    });
}
await assert.rejects(hotdesk.computer(id), NotFoundError);
