// Dialogs.

import { Dialog as Base } from "@kobalte/core/dialog";
import X from "lucide-solid/icons/x";
import type { JSX } from "solid-js";

/** A dialog over the page. `onClose` is called by Escape, by the close button and by a click outside. */
export function Dialog(props: { open: boolean; title: string; onClose: () => void; children: JSX.Element; wide?: boolean }) {
  let content!: HTMLDivElement;
  // The first field, not the button that closes the dialog.
  const focusField = (event: Event) => {
    const field = content.querySelector<HTMLElement>("[autofocus], input:not(:disabled), textarea, select");
    if (!field) return;
    event.preventDefault();
    field.focus();
  };
  return (
    <Base open={props.open} onOpenChange={(open) => { if (!open) props.onClose(); }}>
      <Base.Portal>
        <Base.Overlay class="overlay" />
        <div class="dialog-place">
          <Base.Content ref={content} onOpenAutoFocus={focusField} class="dialog" classList={{ wide: props.wide ?? false }}>
            <header>
              <Base.Title>{props.title}</Base.Title>
              <Base.CloseButton class="button icon quiet" aria-label="Close"><X size={18} /></Base.CloseButton>
            </header>
            {props.children}
          </Base.Content>
        </div>
      </Base.Portal>
    </Base>
  );
}
