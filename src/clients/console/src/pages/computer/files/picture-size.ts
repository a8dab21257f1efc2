// Size that the header of a picture claims. Some hundred bytes can claim billions of pixels, which a browser would decode.

import { hasText, jpegSize, pngSize, webpSize, within, type Size } from "../../../../../typescript/src/parts/picture";

/** Bytes in which the header of a picture is looked for: photographs have a small picture and a colour profile before it. */
export const HEADER_BYTES = 1024 * 1024;

/**
 * Returns the pixels that a picture claims to have; undefined where its header has no size. `media` is the type by which a browser
 * shows it. Drawings (SVG) have none: browsers draw them at the size of their place.
 */
export function claimedPixels(head: Uint8Array<ArrayBuffer>, media: string): number | undefined {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  // A header that is cut has no size.
  const size = media === "image/svg+xml" ? ([0, 0] as const) : within(() => sizeOf(view));
  return size && size[0] * size[1];
}

/** Browsers go by the first bytes of all other pictures, whatever the name of the file says. */
function sizeOf(view: DataView): Size | undefined {
  return pngSize(view) ?? jpegSize(view) ?? webpSize(view) ?? gif(view) ?? bmp(view) ?? icon(view) ?? avif(view);
}

function gif(view: DataView): Size | undefined {
  return hasText(view, 0, "GIF8") ? [view.getUint16(6, true), view.getUint16(8, true)] : undefined;
}

function bmp(view: DataView): Size | undefined {
  if (!hasText(view, 0, "BM")) return undefined;
  // The first version of the header has short sides.
  if (view.getUint32(14, true) === 12) return [view.getUint16(18, true), view.getUint16(20, true)];
  return [Math.abs(view.getInt32(18, true)), Math.abs(view.getInt32(22, true))];
}

/** An icon file: browsers refuse a picture in it that is larger than its entry says, at most 256 × 256. */
function icon(view: DataView): Size | undefined {
  return view.getUint32(0) === 0x00000100 ? [256, 256] : undefined;
}

/** The largest size among the properties of the images in the file (ISO/IEC 23008-12, `ispe`). */
function avif(view: DataView): Size | undefined {
  if (!hasText(view, 4, "ftyp")) return undefined;
  let largest: Size | undefined;
  for (let at = 8; at + 16 <= view.byteLength; at += 1) {
    if (!hasText(view, at, "ispe")) continue;
    const size: Size = [view.getUint32(at + 8), view.getUint32(at + 12)];
    if (!largest || size[0] * size[1] > largest[0] * largest[1]) largest = size;
  }
  return largest;
}
