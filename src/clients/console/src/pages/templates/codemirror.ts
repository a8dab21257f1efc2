// Text editor of definition files: YAML, problems at their places, and names of fields. Loaded when an editor is opened.

import { yaml, yamlLanguage } from "@codemirror/lang-yaml";
import { linter, lintGutter, type Diagnostic } from "@codemirror/lint";
import { EditorState, type Text } from "@codemirror/state";
import {
  Decoration, MatchDecorator, ViewPlugin, type DecorationSet, type EditorView as View, type ViewUpdate,
} from "@codemirror/view";
import { basicSetup, EditorView } from "codemirror";
import type { Schemas } from "../../api/service";
import { fieldsAt, pathAt, valuesAt, type Choice } from "./schema";

/** Milliseconds without a key press after which the text is checked. */
const CHECK_DELAY = 400;

/** What an editor needs. */
export interface EditorOptions {
  parent: HTMLElement;
  /** Name of the text for screen readers. */
  label: string;
  text: string;
  /** JSON Schema of the file; without it there is no completion. */
  schema: () => object | undefined;
  /** Called after each change. */
  onChange: (text: string) => void;
  /** Returns what is wrong with a text. */
  check: (text: string) => Promise<readonly Schemas["TemplateError"][]>;
}

/** An editor on the page. */
export interface Editor {
  /** Moves the cursor to a place and the focus to the editor. Line and column count from 1. */
  goTo: (line: number, column: number) => void;
  destroy: () => void;
}

/** Puts an editor into an element. */
export function createEditor(options: EditorOptions): Editor {
  const view = new EditorView({
    parent: options.parent,
    doc: options.text,
    extensions: [
      basicSetup,
      yaml(),
      yamlLanguage.data.of({ autocomplete: completion(options.schema) }),
      linter(async (view) => diagnostics(view.state.doc, await options.check(view.state.doc.toString())), { delay: CHECK_DELAY }),
      lintGutter(),
      colours,
      EditorView.lineWrapping,
      EditorState.tabSize.of(2),
      EditorView.contentAttributes.of({ "aria-label": options.label, spellcheck: "false" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) options.onChange(update.state.doc.toString());
      }),
    ],
  });
  return {
    goTo: (line, column) => {
      const anchor = offsetOf(view.state.doc, line, column);
      view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: "center" }) });
      view.focus();
    },
    destroy: () => view.destroy(),
  };
}

/** Offset of a place. Columns of the service count characters, those of the editor units of UTF-16. */
function offsetOf(doc: Text, line: number, column: number): number {
  const at = doc.line(Math.min(Math.max(1, line), doc.lines));
  return at.from + Array.from(at.text).slice(0, Math.max(0, column - 1)).join("").length;
}

/** Marks the word that each error begins with. */
function diagnostics(doc: Text, errors: readonly Schemas["TemplateError"][]): Diagnostic[] {
  return errors.map((error) => {
    const from = offsetOf(doc, error.line, error.column);
    const line = doc.lineAt(from);
    const word = /^[^\s:,\]}]+/.exec(line.text.slice(from - line.from))?.[0].length ?? 0;
    const message = error.hint ? `${error.message} (${error.hint})` : error.message;
    return { from, to: Math.min(line.to, from + Math.max(1, word)), severity: "error", message };
  });
}

/** What completion reads of the editor's request for it. */
interface Request {
  state: EditorState;
  pos: number;
  /** Whether the person asked for it (Ctrl+Space). */
  explicit: boolean;
}

/** Offers the fields at the cursor, or the fixed values of the field before it. */
function completion(schema: () => object | undefined) {
  return ({ state, pos, explicit }: Request) => {
    const root = schema();
    if (!root) return null;
    const line = state.doc.lineAt(pos);
    const before = line.text.slice(0, pos - line.from);
    const value = /^([\s-]*)([\w.]+):\s+([\w./-]*)$/.exec(before);
    const name = /^\s*(?:-\s+)*(\w*)$/.exec(before);
    const word = (value ? value[3] : name?.[1]) ?? "";
    if ((!value && !name) || (word === "" && !explicit)) return null;
    const lines = state.doc.sliceString(0, line.from).split("\n").slice(0, -1);
    const path = pathAt([...lines, value ? `${value[1]}${value[2]}:` : before]);
    if (!path) return null;
    const options = value
      ? valuesAt(root, [...path, value[2] ?? ""]).map((choice) => option(choice, ""))
      : fieldsAt(root, path).map((choice) => option(choice, ": "));
    return options.length > 0 ? { from: pos - word.length, options, validFor: /^[\w./-]*$/ } : null;
  };
}

function option(choice: Choice, after: string) {
  const type = after === "" ? "enum" : "property";
  return { label: choice.label, apply: `${choice.label}${after}`, info: choice.description, type };
}

/** Colours names and comments by classes, whose style sheet knows dark and light. */
const marks = new MatchDecorator({
  regexp: /(^|\s)#.*$|^([\s-]*)([\w./-]+)(?=:(\s|$))/g,
  decorate: (add, from, to, match) => {
    const isName = match[3] !== undefined;
    const begin = from + (isName ? (match[2] ?? "") : (match[1] ?? "")).length;
    if (begin < to) add(begin, to, isName ? NAME : COMMENT);
  },
});
const NAME = Decoration.mark({ class: "templates-code-name" });
const COMMENT = Decoration.mark({ class: "templates-code-comment" });

const colours = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;
    constructor(view: View) {
      this.decorations = marks.createDeco(view);
    }
    update(update: ViewUpdate) {
      this.decorations = marks.updateDeco(update, this.decorations);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);
