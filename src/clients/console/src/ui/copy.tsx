// Copies of text to the clipboard of the person's machine.

import Copy from "lucide-solid/icons/copy";
import { Button } from "./button";
import { attempt, notify } from "./notices";

/** Copies a text. Throws when the browser has no clipboard for this page or refuses. */
export async function copyText(text: string): Promise<void> {
  // Typed as present, but absent on pages that are not secure.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (!clipboard) throw new Error("the browser offers its clipboard only to https and localhost; select the text and copy it");
  await clipboard.writeText(text);
}

/** A button that copies a text; `label` is its name, such as "Copy the key". */
export function CopyButton(props: { text: string; label: string }) {
  const copy = () => attempt("Not copied", async () => {
    await copyText(props.text);
    notify({ text: "Copied", tone: "good" });
  });
  return <Button onClick={() => void copy()}><Copy size={16} aria-hidden="true" />{props.label}</Button>;
}
