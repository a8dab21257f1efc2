// Small picture that is stored, fetched when it comes into view.

import { createEffect, createSignal, onCleanup, Show, untrack } from "solid-js";
import { fetchPicture } from "../../../api/service";
import { createInView } from "../../../ui/visible";

/** A picture of the API by its path, which never changes its content; without a path, a place that says that there is none. */
export function Thumb(props: { path: string | undefined; alt: string }) {
  const [ref, inView] = createInView();
  const [url, setUrl] = createSignal<string>();
  const [failure, setFailure] = createSignal<string>();
  createEffect(() => {
    const path = props.path;
    if (path === undefined || !inView() || untrack(url) !== undefined) return;
    const leaving = new AbortController();
    onCleanup(() => leaving.abort());
    fetchPicture(path, leaving.signal).then(
      (blob) => {
        if (!leaving.signal.aborted) setUrl(URL.createObjectURL(blob));
      },
      (error: unknown) => {
        if (!leaving.signal.aborted) setFailure(error instanceof Error ? error.message : String(error));
      },
    );
  });
  onCleanup(() => {
    const made = url();
    if (made !== undefined) URL.revokeObjectURL(made);
  });
  return (
    <span class="computer-thumb" ref={ref} title={failure() ?? props.alt}>
      <Show when={url()} fallback={<span>{props.path === undefined || failure() !== undefined ? "No picture" : ""}</span>}>
        {(url) => <img src={url()} alt={props.alt} />}
      </Show>
    </span>
  );
}
