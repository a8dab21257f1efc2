// Uploads and downloads of this page. They go on while a person looks at another tab.
//
// waiting ──▶ running ──▶ done
//               │ ▲
//               ▼ │ by itself, where the service says the bytes end
//             broken ──▶ stopped     continued by the person
//   exists: a file of this name is there, and the person chooses; failed: it cannot be done

import { ConnectionError, HotdeskError, TimeoutError, UnavailableError } from "@hotdesk/client";
import { createSignal } from "solid-js";
import { createStore, produce } from "solid-js/store";
import { notify } from "../../../ui";
import { saveBlob } from "../../../ui/save";
import { folderOf, nameOf } from "./path";
import { archivePath, beginUpload, contentPath, fetchBytes, removeUpload, sendPieces, uploadedBytes } from "./requests";

/** Transfers at the same time: more would not be faster over one connection. */
const AT_ONCE = 3;
/** Most transfers that are kept, finished ones included: each is a row of the page. */
const MOST = 500;
/** Pauses before a broken upload is continued, in milliseconds: they double from the first to the last. */
const FIRST_PAUSE = 1000;
const LAST_PAUSE = 20_000;
/** Attempts without progress before an upload waits for the person: about four minutes. */
const MOST_ATTEMPTS = 16;
/** Codes of the API after which an upload goes on where the service says its bytes end. */
const RESUMABLE = ["offset_mismatch", "upload_busy", "upload_taken_over"];
/** Statuses that say that the service has no such upload any more. */
const GONE = [404, 410];
/** Milliseconds between two reports of a download's progress. */
const REPORTS = 100;

/** An upload or a download. */
export interface Transfer {
  key: number;
  /** Id of the computer. */
  computer: string;
  kind: "upload" | "download";
  name: string;
  /** Path in the computer. */
  path: string;
  state: "waiting" | "running" | "broken" | "stopped" | "exists" | "failed" | "done";
  /** Bytes that are transferred, and all of them if that is known. */
  done: number;
  size: number | undefined;
  /** What happened, in words; empty while all is well. */
  text: string;
}

/** What a transfer works with, which is not shown. */
interface Work {
  abort: AbortController;
  file: File | undefined;
  overwrite: boolean;
  /** Id of the upload in the service. */
  upload: string | undefined;
  /** Whether a folder is downloaded. */
  isFolder: boolean;
}

const [transfers, setTransfers] = createStore<Transfer[]>([]);
const [stored, setStored] = createSignal<{ computer: string; folder: string }>();
const works = new Map<number, Work>();
let nextKey = 1;

/** Transfers of a computer, the oldest first. Read it in an effect or in JSX. */
export function transfersOf(computer: string): Transfer[] {
  return transfers.filter((transfer) => transfer.computer === computer);
}

/** The folder in which an upload ended last. */
export { stored };

/** Uploads files. Each has its path in the computer. */
export function upload(computer: string, files: readonly { file: File; path: string }[]): void {
  const room = MOST - transfers.length;
  if (files.length > room) {
    notify({ text: `${files.length - room} of ${files.length} files were left out: at most ${MOST} transfers are kept. Clear the list first.`, tone: "bad" });
  }
  for (const { file, path } of files.slice(0, Math.max(0, room))) {
    add({ computer, kind: "upload", name: nameOf(path), path, size: file.size },
      { file, overwrite: false, upload: undefined, isFolder: false });
  }
}

/** Downloads a file, or a folder as a tar. */
export function download(computer: string, path: string, isFolder: boolean): void {
  if (transfers.length >= MOST) {
    notify({ text: `At most ${MOST} transfers are kept. Clear the list first.`, tone: "bad" });
    return;
  }
  const name = isFolder ? `${nameOf(path).replace("/", "root")}.tar` : nameOf(path);
  add({ computer, kind: "download", name, path, size: undefined },
    { file: undefined, overwrite: false, upload: undefined, isFolder });
}

/** Replaces the file that is there. */
export function replace(key: number): void {
  const work = works.get(key);
  if (work) work.overwrite = true;
  again(key);
}

/** Continues a transfer that stopped, or begins a failed one again. */
export function again(key: number): void {
  const work = works.get(key);
  if (!work) return;
  work.abort = new AbortController();
  change(key, { state: "waiting", text: "" });
  pump();
}

/** Ends a transfer, and removes it from the list. */
export function cancel(key: number): void {
  const work = works.get(key);
  const transfer = transfers.find((it) => it.key === key);
  works.delete(key);
  setTransfers((all) => all.filter((it) => it.key !== key));
  work?.abort.abort();
  // The service removes it after a day, if this fails.
  if (transfer && transfer.state !== "done" && work?.upload) removeUpload(transfer.computer, work.upload).catch(() => {});
  pump();
}

/** Removes the finished transfers of a computer from the list. */
export function clear(computer: string): void {
  const gone = transfers.filter((it) => it.computer === computer && ["done", "failed"].includes(it.state));
  for (const { key } of gone) works.delete(key);
  setTransfers((all) => all.filter((it) => !gone.some(({ key }) => key === it.key)));
}

function add(shown: Pick<Transfer, "computer" | "kind" | "name" | "path" | "size">, work: Omit<Work, "abort">): void {
  const key = nextKey++;
  works.set(key, { ...work, abort: new AbortController() });
  setTransfers(produce((all) => { all.push({ ...shown, key, state: "waiting", done: 0, text: "" }); }));
  pump();
}

function change(key: number, values: Partial<Transfer>): void {
  setTransfers((it) => it.key === key, values);
}

/** Begins transfers that wait, as many as may run. */
function pump(): void {
  const isActive = (it: Transfer) => it.state === "running" || it.state === "broken";
  for (const transfer of transfers) {
    if (transfers.filter(isActive).length >= AT_ONCE) break;
    const work = works.get(transfer.key);
    if (transfer.state === "waiting" && work) void run({ ...transfer }, work);
  }
  // A person who closes the page is asked while something would be lost.
  if (transfers.some((it) => it.state === "waiting" || isActive(it))) addEventListener("beforeunload", askBeforeLeaving);
  else removeEventListener("beforeunload", askBeforeLeaving);
}

function askBeforeLeaving(event: BeforeUnloadEvent): void {
  event.preventDefault();
}

async function run(transfer: Transfer, work: Work): Promise<void> {
  const { key } = transfer;
  // A transfer that was cancelled and begun again has another one.
  const { signal } = work.abort;
  change(key, { state: "running" });
  try {
    if (work.file) await send(transfer, work, work.file, signal);
    else await receive(transfer, work, signal);
    change(key, { state: "done", text: "" });
  } catch (error) {
    if (signal.aborted) return;
    const text = error instanceof Error ? error.message : String(error);
    if (error instanceof HotdeskError && error.code === "already_exists") {
      // Whether to replace is a part of the upload, so it begins anew. The service removes the old one after a day, if this fails.
      if (work.upload) removeUpload(transfer.computer, work.upload).catch(() => {});
      work.upload = undefined;
      change(key, { state: "exists", text: "A file of this name is there.", done: 0 });
    } else if (error instanceof Interrupted) {
      change(key, { state: "stopped", text: error.message });
    } else {
      if (error instanceof HotdeskError && GONE.includes(error.status)) work.upload = undefined;
      change(key, { state: "failed", text });
    }
  } finally {
    pump();
  }
}

/** An upload that made no progress for long; it can be continued. */
class Interrupted extends Error {}

async function send(transfer: Transfer, work: Work, file: File, signal: AbortSignal): Promise<void> {
  const { key, computer, path } = transfer;
  let attempts = 0;
  let pause = FIRST_PAUSE;
  for (;;) {
    try {
      work.upload ??= await beginUpload({ computer, path, overwrite: work.overwrite }, file.size, signal);
      const offset = await uploadedBytes(computer, work.upload, signal);
      change(key, { state: "running", done: offset, text: "" });
      await sendPieces(computer, work.upload, file, offset, signal, (done) => {
        attempts = 0;
        pause = FIRST_PAUSE;
        change(key, { done });
      });
      break;
    } catch (error) {
      if (signal.aborted || !isBroken(error)) throw error;
      attempts += 1;
      if (attempts >= MOST_ATTEMPTS) throw new Interrupted("The connection is lost. What was sent is kept for a day.");
      change(key, { state: "broken", text: "The connection was lost. It goes on when the service answers again." });
      await wait(pause, signal);
      pause = Math.min(pause * 2, LAST_PAUSE);
    }
  }
  work.upload = undefined;
  work.file = undefined;
  setStored({ computer, folder: folderOf(path) });
}

async function receive(transfer: Transfer, work: Work, signal: AbortSignal): Promise<void> {
  const path = (work.isFolder ? archivePath : contentPath)(transfer.computer, transfer.path);
  change(transfer.key, { done: 0, size: undefined });
  let reported = 0;
  const bytes = await fetchBytes(path, signal, (done, size) => {
    if (performance.now() - reported < REPORTS) return;
    reported = performance.now();
    change(transfer.key, { done, size });
  });
  change(transfer.key, { done: bytes.size, size: bytes.size });
  saveBlob(bytes, transfer.name);
}

/** Whether an upload can go on after this. */
function isBroken(error: unknown): boolean {
  if (error instanceof ConnectionError || error instanceof TimeoutError || error instanceof UnavailableError) {
    // A full disk or too many uploads are no loss of the connection.
    return error.code === undefined || error.status === 502;
  }
  if (error instanceof HotdeskError) return RESUMABLE.includes(error.code ?? "");
  // `fetch` has no other error for a broken connection.
  return error instanceof TypeError;
}

function wait(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", wake);
      signal.removeEventListener("abort", stop);
    };
    const wake = () => { end(); resolve(); };
    const stop = () => { end(); reject(signal.reason); };
    const timer = setTimeout(wake, milliseconds);
    // The browser knows when the network is back.
    addEventListener("online", wake);
    signal.addEventListener("abort", stop);
  });
}
