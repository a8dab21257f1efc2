// Buttons.

import { A } from "@solidjs/router";
import { splitProps, type JSX } from "solid-js";

interface Look {
  /** `primary` for the main action of a page, `danger` for what destroys; plain when absent. */
  look?: "primary" | "danger" | "quiet";
}

/** A button with words. While `busy` it cannot be pressed, and its words should say what is being done. */
export function Button(props: JSX.ButtonHTMLAttributes<HTMLButtonElement> & Look & { busy?: boolean }) {
  const [own, rest] = splitProps(props, ["look", "busy", "class", "disabled", "type"]);
  return (
    <button
      type={own.type ?? "button"}
      class={`button ${own.look ?? ""} ${own.class ?? ""}`}
      disabled={own.disabled || own.busy}
      aria-busy={own.busy || undefined}
      {...rest}
    />
  );
}

/** A button that shows only an icon; `label` is its name and its hint. */
export function IconButton(props: JSX.ButtonHTMLAttributes<HTMLButtonElement> & Look & { label: string; pressed?: boolean }) {
  const [own, rest] = splitProps(props, ["look", "label", "class", "pressed"]);
  return (
    <button
      type="button"
      class={`button icon ${own.look ?? ""} ${own.class ?? ""}`}
      aria-label={own.label}
      title={own.label}
      aria-pressed={own.pressed}
      {...rest}
    />
  );
}

/** A link that looks like a button. */
export function LinkButton(props: Look & { href: string; children: JSX.Element }) {
  return <A class={`button ${props.look ?? ""}`} href={props.href}>{props.children}</A>;
}
