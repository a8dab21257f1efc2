// A picture of a screen.

/** Bytes of a screenshot with what the service says about them. */
export class Screenshot {
  constructor(
    /** The picture as PNG, JPEG or WebP. */
    readonly bytes: Uint8Array,
    /** Media type, for example `image/png`. */
    readonly type: string,
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

  /** Reads an answer with bytes (docs/api/actions.md, "Screenshots"). */
  static of(bytes: ArrayBuffer, headers: Headers): Screenshot {
    const field = (name: string) => headers.get(name) ?? "";
    return new Screenshot(
      new Uint8Array(bytes),
      field("Content-Type"),
      Number(field("X-Hotdesk-Width")),
      Number(field("X-Hotdesk-Height")),
      field("X-Hotdesk-Frame"),
      Number(field("X-Hotdesk-Scale")),
      field("X-Hotdesk-Screen"),
    );
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
