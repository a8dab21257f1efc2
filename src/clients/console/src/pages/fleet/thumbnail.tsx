// Picture of a computer's screen in the fleet.

import { Show } from "solid-js";
import { createLivePicture } from "../../api/picture";
import type { Computer } from "../../api/service";
import { State } from "./state";

/** Pixels of a picture: as many as its place has on this display. More than two for each side of a CSS pixel are not seen. */
const PIXELS = 320 * 180 * Math.min(devicePixelRatio, 2) ** 2;

/** The picture of a computer in view, or words. It is made anew for each computer, and ends when the card leaves the view. */
export function Thumbnail(props: { computer: Computer }) {
  const { url, failure } = createLivePicture(props.computer.id, Math.round(PIXELS));
  return (
    <Show when={url()} fallback={
      <span class="fleet-words">
        <State computer={props.computer} otherwise={failure() === undefined ? "Fetching the screen…" : `No picture: ${failure()}`} />
      </span>
    }>
      {(url) => <img src={url()} decoding="sync" alt={`Screen of ${props.computer.name}`} />}
    </Show>
  );
}
