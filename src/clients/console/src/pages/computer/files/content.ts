// What a file is, and how much of it a page shows.

import { claimedPixels, HEADER_BYTES } from "./picture-size";
import { contentPath, factsOf, fetchBytes } from "./requests";

/** Largest text in bytes that is shown and edited: an editor of a page stays quick with it. */
const MOST_TEXT = 1024 * 1024;
/** Largest picture in bytes that is shown: a photograph of a good camera has fewer. */
const MOST_PICTURE = 32 * 1024 * 1024;
/** Largest PDF in bytes that is shown: the page keeps all of it, and the browser's viewer keeps it once more. */
const MOST_PDF = 64 * 1024 * 1024;
/** Media type of PDF files. */
const PDF = "application/pdf";
/** First bytes of a PDF file (ISO 32000-2, section 7.5.2). */
const PDF_HEADER = "%PDF-";
/** Most pixels of a picture that is shown, as its header claims: cameras have up to 100 megapixels, which are 400 MB when decoded. */
const MOST_PIXELS = 110_000_000;
/** Media types that browsers show as pictures. */
const PICTURES = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml|x-icon|vnd\.microsoft\.icon)$/;

/** Text of a file as it was when it was opened. */
export interface Opened {
  text: string;
  lineBreak: "\n" | "\r\n";
  /** Version of the file. */
  etag: string;
  /** Why it cannot be edited; undefined when it can. */
  fixed: string | undefined;
}

/** What is shown of a file. */
export type Content =
  | { kind: "text"; opened: Opened }
  | { kind: "picture"; bytes: Blob }
  /** The type of the bytes is `application/pdf`, so that a frame shows nothing else of them. */
  | { kind: "pdf"; bytes: Blob }
  | { kind: "none"; why: string };

/** Fetches what is shown of a file. */
export async function contentOf(computer: string, path: string, signal: AbortSignal): Promise<Content> {
  const { size, type, etag } = await factsOf(computer, path, signal);
  const media = type.split(";")[0]?.trim().toLowerCase() ?? "";
  // The file may grow after its size was read.
  const get = (most: number) => fetchBytes(contentPath(computer, path), signal, () => {}, most);
  if (media === PDF) {
    if (!navigator.pdfViewerEnabled) return { kind: "none", why: "This browser does not show PDF files in pages: download it." };
    if (size > MOST_PDF) return { kind: "none", why: "The PDF file is too large to be shown here: download it." };
    const bytes = await get(MOST_PDF);
    if ((await bytes.slice(0, PDF_HEADER.length).text()) !== PDF_HEADER) {
      return { kind: "none", why: "Its name says that it is a PDF file, but its content is none: download it." };
    }
    return { kind: "pdf", bytes: bytes.slice(0, bytes.size, PDF) };
  }
  if (PICTURES.test(media)) {
    if (size > MOST_PICTURE) return { kind: "none", why: "The picture is too large to be shown here: download it." };
    const bytes = await get(MOST_PICTURE);
    const head = new Uint8Array(await bytes.slice(0, HEADER_BYTES).arrayBuffer());
    const pixels = claimedPixels(head, media);
    if (pixels === undefined) return { kind: "none", why: "Its size cannot be read, so it may be damaged: download it." };
    if (pixels > MOST_PIXELS) return { kind: "none", why: "The picture has too many pixels to be shown here: download it." };
    return { kind: "picture", bytes };
  }
  if (size > MOST_TEXT) return { kind: "none", why: "Files of more than 1 MiB are not shown here: download it." };
  const bytes = await get(MOST_TEXT);
  const text = decoded(await bytes.arrayBuffer());
  if (text === undefined) return { kind: "none", why: "This is no text: download it." };
  return { kind: "text", opened: opened(text, etag) };
}

/** Returns bytes as UTF-8; undefined for what is none. The mark at the begin (BOM) is a part of the text, which saving keeps. */
function decoded(bytes: ArrayBuffer): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

function opened(text: string, etag: string): Opened {
  // Ends of lines that are none of the editor's would be changed by saving.
  const ends = new Set(text.match(/\r\n|\n|\r/g));
  if (ends.size > 1 || ends.has("\r")) {
    return { text, lineBreak: "\n", etag, fixed: "Its lines end in different ways, which saving would change. It can be read here." };
  }
  return { text, lineBreak: ends.has("\r\n") ? "\r\n" : "\n", etag, fixed: undefined };
}
