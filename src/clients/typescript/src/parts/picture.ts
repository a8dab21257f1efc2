// Types and sizes of pictures, read from their first bytes: a computer can send any bytes as a picture of its screen.

import { HotdeskError } from "../errors.js";

/** Media type of a picture of a screen. Others are refused: SVG and HTML can have scripts. */
export type PictureType = "image/png" | "image/jpeg" | "image/webp";

/** Width and height in pixels. */
export type Size = readonly [width: number, height: number];

/** Most bytes of a picture: the service passes no larger one on (docs/security.md). */
const MOST_BYTES = 128 * 1024 * 1024;
/** Most pixels of a picture, which are those of the largest screen. Some hundred bytes can claim billions. */
const MOST_PIXELS = 7680 * 4320;
/** Sizes by the type that the first bytes name. */
const READERS: readonly (readonly [PictureType, (view: DataView) => Size | undefined])[] = [
  ["image/png", pngSize],
  ["image/jpeg", jpegSize],
  ["image/webp", webpSize],
];

/** Returns the type of a picture. Throws for what is none in PNG, JPEG or WebP, and for one with more bytes or pixels than any screen has. */
export function pictureType(bytes: Uint8Array): PictureType {
  if (bytes.length > MOST_BYTES) throw new HotdeskError(`A picture of ${bytes.length} bytes is larger than that of any screen`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (const [type, read] of READERS) {
    const size = within(() => read(view));
    if (!size) continue;
    if (size[0] * size[1] > MOST_PIXELS) throw new HotdeskError(`A picture of ${size[0]}x${size[1]} pixels is larger than any screen`);
    return type;
  }
  throw new HotdeskError("What came as a picture is no PNG, JPEG or WebP");
}

/** Returns the bytes of a picture in base64. Throws for other text, and for more bytes than a picture may have. */
export function decoded(text: string): Uint8Array<ArrayBuffer> {
  if (text.length > Math.ceil(MOST_BYTES / 3) * 4) throw new HotdeskError("A picture in base64 is larger than that of any screen");
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch (cause) {
    throw new HotdeskError("What came as a picture is no base64", { cause });
  }
}

/** Returns what is read from bytes; undefined where they end too early. */
export function within<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Whether there is this text at a place. */
export function hasText(view: DataView, at: number, text: string): boolean {
  for (let index = 0; index < text.length; index += 1) {
    if (at + index >= view.byteLength || view.getUint8(at + index) !== text.charCodeAt(index)) return false;
  }
  return true;
}

/** Returns the size that a PNG file claims (PNG specification, section 11.2.2); undefined for other files. */
export function pngSize(view: DataView): Size | undefined {
  if (!hasText(view, 0, "\x89PNG\r\n\x1a\n")) return undefined;
  return hasText(view, 12, "IHDR") ? [view.getUint32(16), view.getUint32(20)] : undefined;
}

/** Returns the size in the first frame header of a JPEG file (ITU-T T.81, section B.2.2). Only segments with a length precede it. */
export function jpegSize(view: DataView): Size | undefined {
  if (view.getUint16(0) !== 0xffd8) return undefined;
  for (let at = 2; ;) {
    if (view.getUint8(at) !== 0xff) return undefined;
    const marker = view.getUint8(at + 1);
    if (marker === 0xff) {
      // A fill byte.
      at += 1;
    } else if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      return [view.getUint16(at + 7), view.getUint16(at + 5)];
    } else if ([0xc4, 0xcc, 0xdb, 0xdd, 0xfe].includes(marker) || (marker >= 0xe0 && marker <= 0xef)) {
      at += 2 + Math.max(2, view.getUint16(at + 2));
    } else {
      return undefined;
    }
  }
}

/** Returns the size in the first chunk of a WebP file (RFC 9649, sections 2.5 to 2.7). */
export function webpSize(view: DataView): Size | undefined {
  if (!hasText(view, 0, "RIFF") || !hasText(view, 8, "WEBP")) return undefined;
  if (hasText(view, 12, "VP8 ")) return [view.getUint16(26, true) & 0x3fff, view.getUint16(28, true) & 0x3fff];
  if (hasText(view, 12, "VP8L")) {
    const bits = view.getUint32(21, true);
    return [(bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1];
  }
  const side = (at: number) => view.getUint16(at, true) + view.getUint8(at + 2) * 0x10000 + 1;
  return hasText(view, 12, "VP8X") ? [side(24), side(27)] : undefined;
}
