// Picture of the screen on which a thread works.

import { Show } from "solid-js";
import { computers } from "../../api/live";
import { createLivePicture } from "../../api/picture";
import { createInView } from "../../ui/visible";

/** Pixels of a picture: more than its place shows on a common display. */
const PIXELS = 960 * 600;

/** The picture, with a link to the screen itself. The caller makes a new one for another computer. */
export function Picture(props: { computer: string }) {
  const id = props.computer;
  const name = () => computers[id]?.name ?? "the computer";
  const isRunning = () => computers[id]?.status === "running";
  const [ref, inView] = createInView("0px");
  const { url, failure } = createLivePicture(id, () => PIXELS, inView);
  return (
    <figure class="threads-picture" ref={ref}>
      <a href={`/console/computers/${id}/screen`} title="Open the screen">
        <Show when={url()} fallback={
          <span class="threads-no-picture">
            {isRunning() ? (failure() ?? "Fetching the screen…") : `${name()} does not run`}
          </span>
        }>
          {(url) => <img src={url()} decoding="sync" alt={`Screen of ${name()}`} />}
        </Show>
      </a>
      <figcaption class="dim">
        {name()}{isRunning() ? ", live" : ""}
        <Show when={url() !== undefined && failure()}>{(why) => <>: {why()}</>}</Show>
      </figcaption>
    </figure>
  );
}
