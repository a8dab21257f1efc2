// Text that grows at its end, such as output and logs.

import X from "lucide-solid/icons/x";
import { createEffect, createMemo, createSignal, on, onCleanup, Show } from "solid-js";
import { IconButton } from "../../../ui";
import { follow, plain } from "./follow";

/** Most characters that are shown: the end of the text. */
const MOST = 128 * 1024;
/** Milliseconds between two changes of the text. */
const PAUSE = 100;
/** Pixels from the end within which the view stays at the end. */
const NEAR = 40;

/** A panel with text, whose view stays at the end unless the person has scrolled back. */
export function Growing(props: { title: string; text: string; note: string | undefined; onClose: () => void }) {
  let place!: HTMLPreElement;
  createEffect(on(() => props.text, () => {
    const isAtEnd = place.scrollHeight - place.scrollTop - place.clientHeight < NEAR;
    place.textContent = props.text;
    if (isAtEnd) place.scrollTop = place.scrollHeight;
  }));
  return (
    <section class="card processes-output" aria-label={props.title}>
      <div class="bar">
        <h3>{props.title}</h3>
        <span class="grow" />
        <IconButton look="quiet" label={`Close: ${props.title}`} onClick={() => props.onClose()}><X size={16} /></IconButton>
      </div>
      <pre ref={place} tabindex="0" role="log" aria-label={props.title} aria-live="off" />
      <Show when={props.note}>{(note) => <p role="status">{note()}</p>}</Show>
    </section>
  );
}

/** The output of a background process. */
export function Output(props: { computer: string; process: string; title: string; onClose: () => void }) {
  const [text, setText] = createSignal("");
  const [note, setNote] = createSignal<string>();
  const computer = createMemo(() => props.computer);
  const process = createMemo(() => props.process);
  createEffect(on([computer, process], ([computer, process]) => {
    setText("");
    setNote(undefined);
    const abort = new AbortController();
    let kept = "";
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = () => {
      timer = undefined;
      setText(plain(kept));
    };
    const write = (piece: string) => {
      kept = (kept + piece).slice(-MOST);
      timer ??= setTimeout(show, PAUSE);
    };
    follow(computer, process, abort.signal, write, setNote).then(
      () => { if (!abort.signal.aborted) setNote("The process has ended."); },
      (error: unknown) => setNote(error instanceof Error ? error.message : String(error)),
    );
    onCleanup(() => {
      abort.abort();
      clearTimeout(timer);
    });
  }));
  return <Growing title={`Output of ${props.title}`} text={text()} note={note()} onClose={props.onClose} />;
}
