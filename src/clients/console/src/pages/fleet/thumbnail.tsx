// Picture of a computer's screen in the fleet.

import { Show } from "solid-js";
import { createLivePicture } from "../../api/picture";
import type { Computer } from "../../api/service";
import { State } from "./state";

/** The picture of a computer in view, or words. It is made anew for each computer, and ends when the card leaves the view. */
export function Thumbnail(props: { computer: Computer; pixels: number }) {
  const { url, failure } = createLivePicture(props.computer.id, () => props.pixels);
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
