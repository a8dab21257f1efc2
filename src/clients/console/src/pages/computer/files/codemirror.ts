// The text editor with what it needs, loaded when the first text is opened.

import { basicSetup } from "codemirror";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";

/** What an editor is made with. */
export interface EditorOptions {
  text: string;
  /** Name of the editor for screen readers. */
  label: string;
  isReadOnly: boolean;
  onChange: () => void;
  /** Called by Ctrl+S. */
  onSave: () => void;
}

/** Makes an editor in an element. It takes its colours from theme.css. */
export function makeEditor(parent: Element, options: EditorOptions): EditorView {
  const state = EditorState.create({
    doc: options.text,
    extensions: [
      keymap.of([{ key: "Mod-s", preventDefault: true, run: () => { options.onSave(); return true; } }]),
      basicSetup,
      EditorState.readOnly.of(options.isReadOnly),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": options.label }),
      EditorView.updateListener.of((update) => { if (update.docChanged) options.onChange(); }),
      EditorView.theme({
        "&": { backgroundColor: "var(--surface)", color: "var(--text)", fontSize: "14px" },
        ".cm-content": { caretColor: "var(--text)" },
        ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--text)" },
        ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--dim)", borderRight: "1px solid var(--line)" },
        ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "transparent" },
        "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--line)" },
        ".cm-selectionMatch, .cm-searchMatch": { backgroundColor: "var(--raised)", outline: "1px solid var(--accent)" },
        ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--text)" },
        ".cm-button": { backgroundImage: "none", backgroundColor: "var(--surface)", color: "var(--text)" },
        ".cm-textfield": { backgroundColor: "var(--surface)", color: "var(--text)" },
        ".cm-scroller": { fontFamily: 'ui-monospace, "DejaVu Sans Mono", monospace' },
      }),
    ],
  });
  return new EditorView({ state, parent });
}

/** Returns the text of an editor, whose lines end so. The editor itself takes any end, also of what is pasted. */
export function textOf(view: EditorView, lineBreak: "\n" | "\r\n"): string {
  return view.state.doc.sliceString(0, view.state.doc.length, lineBreak);
}
