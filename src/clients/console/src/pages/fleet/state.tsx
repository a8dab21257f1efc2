// State of a computer in words, with its time.

import { Show } from "solid-js";
import type { Computer } from "../../api/service";
import { Since } from "../../ui";
import { insteadOfPicture } from "./words";

/** The words; `otherwise` is shown for a computer that runs and answers. */
export function State(props: { computer: Computer; otherwise: string }) {
  return (
    <Show when={insteadOfPicture(props.computer)} fallback={props.otherwise}>
      {(words) => (
        <>
          {words().text}
          <Show when={words().since}>{(time) => <>{" "}<Since time={time()} />.</>}</Show>
          <Show when={words().more}>{(more) => <>{" "}{more()}</>}</Show>
        </>
      )}
    </Show>
  );
}
