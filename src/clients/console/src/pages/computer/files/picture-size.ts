// Size that the header of a picture claims. Some hundred bytes can claim billions of pixels, which a browser would decode.

/** Bytes in which the header of a picture is looked for: photographs have a small picture and a colour profile before it. */
export const HEADER_BYTES = 1024 * 1024;

/** Width and height in pixels. */
type Size = readonly [width: number, height: number];

/**
 * Returns the pixels that a picture claims to have; undefined where its header has no size. `media` is the type by which a browser
 * shows it. Drawings (SVG) have none: browsers draw them at the size of their place.
 */
export function claimedPixels(head: Uint8Array<ArrayBuffer>, media: string): number | undefined {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  try {
    const size = media === "image/svg+xml" ? ([0, 0] as const) : sizeOf(view);
    return size && size[0] * size[1];
  } catch (error) {
    // The header is cut.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Browsers go by the first bytes of all other pictures, whatever the name of the file says. */
function sizeOf(view: DataView): Size | undefined {
  return png(view) ?? jpeg(view) ?? webp(view) ?? gif(view) ?? bmp(view) ?? icon(view) ?? avif(view);
}

/** Whether there is this text at a place. */
function has(view: DataView, at: number, text: string): boolean {
  for (let index = 0; index < text.length; index += 1) {
    if (at + index >= view.byteLength || view.getUint8(at + index) !== text.charCodeAt(index)) return false;
  }
  return true;
}

function png(view: DataView): Size | undefined {
  if (!has(view, 0, "\x89PNG\r\n\x1a\n")) return undefined;
  return has(view, 12, "IHDR") ? [view.getUint32(16), view.getUint32(20)] : undefined;
}

/** The first frame header (ITU-T T.81, section B.2.2). Only segments with a length precede it. */
function jpeg(view: DataView): Size | undefined {
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

/** The first chunk (RFC 9649, sections 2.5 to 2.7). */
function webp(view: DataView): Size | undefined {
  if (!has(view, 0, "RIFF") || !has(view, 8, "WEBP")) return undefined;
  if (has(view, 12, "VP8 ")) return [view.getUint16(26, true) & 0x3fff, view.getUint16(28, true) & 0x3fff];
  if (has(view, 12, "VP8L")) {
    const bits = view.getUint32(21, true);
    return [(bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1];
  }
  const side = (at: number) => view.getUint16(at, true) + view.getUint8(at + 2) * 0x10000 + 1;
  return has(view, 12, "VP8X") ? [side(24), side(27)] : undefined;
}

function gif(view: DataView): Size | undefined {
  return has(view, 0, "GIF8") ? [view.getUint16(6, true), view.getUint16(8, true)] : undefined;
}

function bmp(view: DataView): Size | undefined {
  if (!has(view, 0, "BM")) return undefined;
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
  if (!has(view, 4, "ftyp")) return undefined;
  let largest: Size | undefined;
  for (let at = 8; at + 16 <= view.byteLength; at += 1) {
    if (!has(view, at, "ispe")) continue;
    const size: Size = [view.getUint32(at + 8), view.getUint32(at + 12)];
    if (!largest || size[0] * size[1] > largest[0] * largest[1]) largest = size;
  }
  return largest;
}
