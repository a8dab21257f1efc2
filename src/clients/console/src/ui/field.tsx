// Fields of forms, each with its label, hint and error.

import { createUniqueId, For, Show, splitProps, type JSX } from "solid-js";

interface Named {
  label: string;
  /** Help below the field. */
  hint?: string | undefined;
  /** What is wrong with the value; it replaces the hint. */
  error?: string | undefined;
}

function Frame(props: Named & { id: string; children: JSX.Element }) {
  return (
    <div class="field">
      <label for={props.id}>{props.label}</label>
      {props.children}
      <Show when={props.error ?? props.hint}>
        {(text) => <small id={`${props.id}-hint`} classList={{ bad: props.error !== undefined }}>{text()}</small>}
      </Show>
    </div>
  );
}

const NAMED = ["label", "hint", "error"] as const;

/** A line of text, a number, a password, … by `type`. */
export function Field(props: JSX.InputHTMLAttributes<HTMLInputElement> & Named) {
  const [own, rest] = splitProps(props, NAMED);
  const id = createUniqueId();
  return (
    <Frame id={id} {...own}>
      <input id={id} aria-invalid={own.error !== undefined || undefined} aria-describedby={`${id}-hint`} autocomplete="off" {...rest} />
    </Frame>
  );
}

/** Text of several lines. */
export function TextArea(props: JSX.TextareaHTMLAttributes<HTMLTextAreaElement> & Named) {
  const [own, rest] = splitProps(props, NAMED);
  const id = createUniqueId();
  return (
    <Frame id={id} {...own}>
      <textarea id={id} aria-invalid={own.error !== undefined || undefined} aria-describedby={`${id}-hint`} {...rest} />
    </Frame>
  );
}

/** A choice of one of several values. */
export function Select(props: Named & {
  value: string;
  options: readonly { value: string; label: string }[];
  onChange: (value: string) => void;
  disabled?: boolean;
}) {
  const id = createUniqueId();
  return (
    <Frame id={id} label={props.label} hint={props.hint} error={props.error}>
      <select id={id} disabled={props.disabled} aria-describedby={`${id}-hint`} onChange={(event) => props.onChange(event.currentTarget.value)}>
        <For each={props.options}>
          {(option) => <option value={option.value} selected={option.value === props.value}>{option.label}</option>}
        </For>
      </select>
    </Frame>
  );
}

/** Something that is on or off. */
export function Switch(props: { label: string; checked: boolean; onChange: (checked: boolean) => void; disabled?: boolean }) {
  return (
    <label class="switch">
      <input type="checkbox" role="switch" checked={props.checked} disabled={props.disabled}
        onChange={(event) => props.onChange(event.currentTarget.checked)} />
      <span>{props.label}</span>
    </label>
  );
}
