// Editor of a definition file, with the list of what is wrong in it.

import { HotdeskError } from "@hotdesk/client";
import { createSignal, For, onCleanup, onMount, Show } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { attempt, Loading } from "../../ui";
import type { Editor as CodeMirror } from "./codemirror";

type Problem = Schemas["TemplateError"];

/** Returns what is wrong with a definition file; nothing for a valid one. */
async function problemsOf(text: string): Promise<Problem[]> {
  try {
    await answerOf(api.POST("/templates/validate", definition(text)));
    return [];
  } catch (error) {
    if (!(error instanceof HotdeskError) || error.code !== "template_invalid") throw error;
    const listed = error.body["errors"];
    return Array.isArray(listed) ? (listed as Problem[]) : [];
  }
}

/** Options of a request whose body is a definition file. */
export function definition(text: string) {
  return { body: new Blob([text]), bodySerializer: (body: unknown) => body, headers: { "Content-Type": "application/yaml" } };
}

/** The editor. `text` is its first content. */
export function Editor(props: {
  text: string;
  onChange: (text: string) => void;
  /** Hears what is wrong after each check; undefined while the text was not checked yet. */
  onProblems: (problems: readonly Problem[] | undefined) => void;
}) {
  const [problems, setProblems] = createSignal<readonly Problem[]>([]);
  const [isChecked, setChecked] = createSignal(false);
  const [failure, setFailure] = createSignal("");
  const [isReady, setReady] = createSignal(false);
  let place!: HTMLDivElement;
  let editor: CodeMirror | undefined;
  let schema: object | undefined;
  let isGone = false;
  let current = props.text;

  const check = async (text: string): Promise<readonly Problem[]> => {
    try {
      const found = await problemsOf(text);
      if (text === current && !isGone) {
        setFailure("");
        setProblems(found);
        setChecked(true);
        props.onProblems(found);
      }
      return found;
    } catch (error) {
      if (text === current) setFailure(error instanceof Error ? error.message : String(error));
      return [];
    }
  };
  onMount(() => {
    void attempt("The names of fields cannot be loaded", async () => {
      schema = await answerOf(api.GET("/template-schema"));
    });
    void attempt("The editor cannot be loaded", async () => {
      const { createEditor } = await import("./codemirror");
      if (isGone) return;
      editor = createEditor({
        parent: place,
        label: "Definition file",
        text: props.text,
        schema: () => schema,
        onChange: (text) => {
          current = text;
          setFailure("");
          setChecked(false);
          props.onProblems(undefined);
          props.onChange(text);
        },
        check,
      });
      setReady(true);
    });
  });
  onCleanup(() => {
    isGone = true;
    editor?.destroy();
  });

  const verdict = () => {
    if (failure()) return `The file could not be checked: ${failure()}. The next change checks it again.`;
    if (!isChecked()) return "Checking the file…";
    const count = problems().length;
    if (count === 0) return "The file is valid.";
    return count === 1 ? "1 problem" : `${count} problems`;
  };

  return (
    <div class="templates-edit">
      <Show when={!isReady()}><Loading what="the editor" /></Show>
      <div class="templates-code" ref={place} />
      <section class="card" aria-label="Problems">
        <p role="status">{verdict()}</p>
        <ul class="templates-problems">
          <For each={problems()}>
            {(problem) => (
              <li>
                <button type="button" class="button quiet" onClick={() => editor?.goTo(problem.line, problem.column)}>
                  <span class="mono dim">Line {problem.line}, column {problem.column}</span>
                  <span class="bad"><Show when={problem.field}>{(field) => <code>{field()} </code>}</Show>{problem.message}</span>
                  <Show when={problem.hint}>{(hint) => <span class="dim">{hint()}</span>}</Show>
                </button>
              </li>
            )}
          </For>
        </ul>
        <p class="dim">Ctrl+Space lists the fields at the cursor. <a href="/docs/templates">All fields and rules</a></p>
      </section>
    </div>
  );
}
