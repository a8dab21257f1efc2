// Keys on the page, for phones and for what browsers keep for themselves.

import type { HotdeskScreen, KeyName } from "@hotdesk/client/screen";
import { createSignal, For } from "solid-js";
import { Button, Field } from "../../../ui";

interface Shown {
  key: KeyName;
  words: string;
  /** Its name, if that is not what it shows. */
  name?: string;
}

/** Most characters that are typed at once: the element takes 10,000, which pairs of surrogates may double. */
const MOST = 5000;

const HELD: readonly Shown[] = [
  { key: "Control", words: "Ctrl" },
  { key: "Alt", words: "Alt" },
  { key: "Shift", words: "Shift" },
  { key: "Meta", words: "Super" },
];
const PRESSED: readonly Shown[] = [
  { key: "Escape", words: "Esc" },
  { key: "Tab", words: "Tab" },
  { key: "Enter", words: "Enter" },
  { key: "Backspace", words: "Backspace" },
  { key: "Delete", words: "Delete" },
  { key: "ArrowLeft", words: "←", name: "Left" },
  { key: "ArrowUp", words: "↑", name: "Up" },
  { key: "ArrowDown", words: "↓", name: "Down" },
  { key: "ArrowRight", words: "→", name: "Right" },
  { key: "Home", words: "Home" },
  { key: "End", words: "End" },
  { key: "PageUp", words: "Page up" },
  { key: "PageDown", words: "Page down" },
];

/** The keys. Ctrl, Alt, Shift and Super stay down for the next key. */
export function Keys(props: { element: HotdeskScreen; disabled: boolean }) {
  const [held, setHeld] = createSignal<readonly KeyName[]>([]);
  const press = (...keys: KeyName[]) => {
    props.element.sendKeys([...held(), ...keys]);
    setHeld([]);
  };
  const toggle = (key: KeyName) =>
    setHeld((all) => (all.includes(key) ? all.filter((it) => it !== key) : [...all, key]));
  /** Types what came into the field, and empties it. */
  const type = async (input: HTMLInputElement) => {
    const text = input.value;
    input.value = "";
    const [first, ...rest] = text;
    if (first === undefined) return;
    if (held().length > 0) {
      // Loaded already: the element is of this module.
      const { keyOf } = await import("@hotdesk/client/screen");
      // With keys held down a letter is a shortcut, which knows no capitals: they come from the keyboards of phones.
      props.element.sendKeys([...held(), keyOf(held().includes("Shift") ? first : first.toLowerCase())]);
      setHeld([]);
    } else {
      rest.unshift(first);
    }
    props.element.type(rest.slice(0, MOST).join(""));
  };
  return (
    <section class="screen-keys" aria-label="Keys">
      <div class="screen-row">
        <For each={HELD}>
          {(it) => (
            <Button aria-pressed={held().includes(it.key)} disabled={props.disabled} onClick={() => toggle(it.key)}>{it.words}</Button>
          )}
        </For>
        <For each={PRESSED}>
          {(it) => (
            <Button aria-label={it.name ?? it.words} disabled={props.disabled} onClick={() => press(it.key)}>{it.words}</Button>
          )}
        </For>
        <Button disabled={props.disabled} onClick={() => press("Control", "Alt", "Delete")}>Ctrl+Alt+Del</Button>
      </div>
      <Field label="Type here" hint="Each character goes to the computer at once." disabled={props.disabled} autocapitalize="off" spellcheck={false}
        onInput={(event) => { if (!event.isComposing) void type(event.currentTarget); }}
        onCompositionEnd={(event) => void type(event.currentTarget)}
        onKeyDown={(event) => {
          const key = event.key === "Enter" ? "Enter" : event.key === "Backspace" ? "Backspace" : undefined;
          if (!key || event.isComposing) return;
          event.preventDefault();
          press(key);
        }} />
    </section>
  );
}
