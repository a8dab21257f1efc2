// A picture of a screen.

import { decoded, pictureType, type PictureType } from "./parts/picture.js";

/** A picture in a JSON answer, such as `screenshot` of an action's result. */
interface PictureRecord {
  /** The picture in base64. */
  image: string;
  width: number;
  height: number;
  frame?: string | null;
  scale?: number | null;
  screen?: string | null;
}

/** Bytes of a screenshot with what the service says about them. */
export class Screenshot {
  constructor(
    /** The picture as PNG, JPEG or WebP. */
    readonly bytes: Uint8Array,
    /** Media type. */
    readonly type: PictureType,
    /** Width in pixels of the picture. */
    readonly width: number,
    /** Height in pixels of the picture. */
    readonly height: number,
    /** Id of the picture. An action with this `frame` takes its coordinates in pixels of the picture. */
    readonly frame: string,
    /** Factor between screen and picture. */
    readonly scale: number,
    /** Id of the screen. */
    readonly screen: string,
  ) {}

  /** Reads an answer with bytes (docs/api/actions.md, "Screenshots"). Throws for what is no picture of a screen. */
  static of(buffer: ArrayBuffer, headers: Headers): Screenshot {
    const field = (name: string) => headers.get(name) ?? "";
    const bytes = new Uint8Array(buffer);
    return new Screenshot(
      bytes,
      pictureType(bytes),
      Number(field("X-Hotdesk-Width")),
      Number(field("X-Hotdesk-Height")),
      field("X-Hotdesk-Frame"),
      Number(field("X-Hotdesk-Scale")),
      field("X-Hotdesk-Screen"),
    );
  }

  /**
   * Reads a picture of a JSON answer, such as `screenshot` of an action's result. The computer wrote it: its type is that of its
   * bytes, whatever `mime_type` says. Throws for what is no picture of a screen.
   */
  static fromRecord(record: PictureRecord): Screenshot {
    const bytes = decoded(record.image);
    const { width, height, frame, scale, screen } = record;
    return new Screenshot(bytes, pictureType(bytes), width, height, frame ?? "", scale ?? 1, screen ?? "");
  }

  /** Returns the picture as a `Blob`, for example for `createImageBitmap`. */
  blob(): Blob {
    return new Blob([this.bytes as BlobPart], { type: this.type });
  }

  /** Returns the picture in base64, as language models take it. */
  base64(): string {
    // An argument list of all bytes would be too long.
    const pieces: string[] = [];
    for (let at = 0; at < this.bytes.length; at += 0x8000) {
      pieces.push(String.fromCharCode(...this.bytes.subarray(at, at + 0x8000)));
    }
    return btoa(pieces.join(""));
  }

  /** Returns the picture as a URL for the `src` of an image. */
  dataUrl(): string {
    return `data:${this.type};base64,${this.base64()}`;
  }
}
