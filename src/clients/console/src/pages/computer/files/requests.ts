// Requests for the bytes of files, with their progress.

import { answerOf, api, failureOf, PASSIVE, responseOf, sendRaw } from "../../../api/service";

/** Largest file that is downloaded by the page, in bytes: the browser keeps it until it is written. */
const MOST_DOWNLOAD = 4_000_000_000;
/** Bytes of a piece of an upload. It begins with the first, and follows the speed of the connection between both. */
const FIRST_PIECE = 256 * 1024;
const LAST_PIECE = 8 * 1024 * 1024;
/** A piece should take between these times, in milliseconds: so the progress moves, and few requests are needed. */
const SHORT = 400;
const LONG = 1600;
/** Protocol of uploads (docs/api/files.md, "Resumable uploads"). */
const TUS = { "Tus-Resumable": "1.0.0" } as const;

/** Address of a file's bytes in the API. */
export function contentPath(computer: string, path: string): string {
  return `/computers/${computer}/files/content?path=${encodeURIComponent(path)}`;
}

/** Address of a folder as a tar in the API. */
export function archivePath(computer: string, path: string): string {
  return `/computers/${computer}/files/archive?path=${encodeURIComponent(path)}`;
}

/** Throws the failure of an answer that is no success. */
async function check(answer: Response): Promise<Response> {
  if (answer.ok) return answer;
  throw failureOf(answer, await answer.json().catch(() => undefined));
}

/** What is known of a file before its bytes are fetched. */
export interface Facts {
  /** Size in bytes. */
  size: number;
  /** Media type, from its name. */
  type: string;
  /** Changes with its content. */
  etag: string;
}

/** Returns size, type and ETag of a file. Throws when it is none. */
export async function factsOf(computer: string, path: string, signal?: AbortSignal): Promise<Facts> {
  return facts(await check(await sendRaw("HEAD", contentPath(computer, path), null, {}, signal)));
}

/** Returns the same for a look that the page repeats by itself: it is no use of the computer. */
export async function watchedFacts(computer: string, path: string): Promise<Facts> {
  return facts(await check(await sendRaw("HEAD", contentPath(computer, path), null, Object.fromEntries([PASSIVE]))));
}

function facts(answer: Response): Facts {
  return {
    size: Number(answer.headers.get("Content-Length") ?? 0),
    type: answer.headers.get("Content-Type") ?? "application/octet-stream",
    etag: answer.headers.get("ETag") ?? "",
  };
}

/**
 * Fetches bytes, and reports how many came and how many there are, if that is known. Throws when there are more than `most`.
 */
export async function fetchBytes(
  path: string,
  signal: AbortSignal,
  progress: (done: number, size: number | undefined) => void,
  most = MOST_DOWNLOAD,
): Promise<Blob> {
  const answer = await check(await sendRaw("GET", path, null, {}, signal));
  const declared = answer.headers.get("Content-Length");
  const size = declared === null ? undefined : Number(declared);
  const tooLarge = () => new Error("It is larger than this page can keep. Copy it by `hotdesk cp`");
  if ((size ?? 0) > most) {
    await answer.body?.cancel();
    throw tooLarge();
  }
  let done = 0;
  const counter = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(piece, out) {
      done += piece.length;
      if (done > most) throw tooLarge();
      progress(done, size);
      out.enqueue(piece);
    },
  });
  const type = answer.headers.get("Content-Type") ?? "application/octet-stream";
  // An empty file has no body.
  const body = answer.body?.pipeThrough(counter) ?? null;
  return new Response(body, { headers: { "Content-Type": type } }).blob();
}

/** Where an upload goes. */
export interface Target {
  computer: string;
  path: string;
  /** Whether a file that is there is replaced. */
  overwrite: boolean;
}

/** Begins an upload; returns its id. Throws 409 `already_exists` when the file is there and must not be replaced. */
export async function beginUpload(target: Target, size: number, signal: AbortSignal): Promise<string> {
  const metadata = { path: target.path, overwrite: String(target.overwrite), parents: "true" };
  const pairs = Object.entries(metadata).map(([name, value]) => `${name} ${base64(value)}`);
  const header = { ...TUS, "Upload-Length": size, "Upload-Metadata": pairs.join(",") };
  const params = { path: { id: target.computer }, header };
  const made = await responseOf(api.POST("/computers/{id}/files/uploads", { params, parseAs: "text", signal }));
  const upload = made.response.headers.get("Location")?.split("/").at(-1);
  if (!upload) throw new Error("The service did not say where to send the file");
  return upload;
}

/** Returns the bytes that the service has of an upload. */
export async function uploadedBytes(computer: string, upload: string, signal: AbortSignal): Promise<number> {
  const answer = await check(await sendRaw("HEAD", `/computers/${computer}/files/uploads/${upload}`, null, TUS, signal));
  return Number(answer.headers.get("Upload-Offset") ?? 0);
}

/** Removes an upload that is not complete. */
export async function removeUpload(computer: string, upload_id: string): Promise<void> {
  const params = { path: { id: computer, upload_id }, header: TUS };
  await answerOf(api.DELETE("/computers/{id}/files/uploads/{upload_id}", { params }));
}

/** Sends the bytes of a file from `offset` on, piece by piece. Throws at the first piece that fails. */
export async function sendPieces(
  computer: string,
  upload_id: string,
  file: Blob,
  offset: number,
  signal: AbortSignal,
  progress: (done: number) => void,
): Promise<void> {
  let piece = FIRST_PIECE;
  while (offset < file.size) {
    const end = Math.min(offset + piece, file.size);
    const began = performance.now();
    await answerOf(api.PATCH("/computers/{id}/files/uploads/{upload_id}", {
      params: { path: { id: computer, upload_id }, header: { ...TUS, "Upload-Offset": offset } },
      body: file.slice(offset, end),
      bodySerializer: (body: Blob) => body,
      headers: { "Content-Type": "application/offset+octet-stream" },
      signal,
    }));
    const took = performance.now() - began;
    offset = end;
    progress(offset);
    if (took < SHORT) piece = Math.min(piece * 2, LAST_PIECE);
    else if (took > LONG) piece = Math.max(piece / 2, FIRST_PIECE);
  }
}

/** Returns text in UTF-8 as base64. A path has at most 4,096 bytes, which are few enough arguments. */
function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
