// Parts of several tabs: workspaces to choose from, texts that are shown once, lists in steps.

import { useSearchParams } from "@solidjs/router";
import { createMemo, createResource, createSignal, Show, type Accessor, type JSX } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { Button, CopyButton, Dialog, Select } from "../../ui";
import "./settings.css";

/** Entries of a list that are shown at first, and that "Show more" adds: a few screens. */
const STEP = 50;

/** Fetches the workspaces of the person, oldest first. */
export function createWorkspaces() {
  return createResource(async () => (await answerOf(api.GET("/workspaces"))).workspaces);
}

/** Returns the name of a workspace, its id when it is unknown. */
export function workspaceName(workspaces: readonly Schemas["Workspace"][] | undefined, id: string): string {
  return workspaces?.find((it) => it.id === id)?.name ?? id;
}

/** The workspace in the address; the first one without it, or the whole account when `withAccount`. */
export function createChoice(workspaces: Accessor<readonly Schemas["Workspace"][]>, withAccount: boolean) {
  const [query, setQuery] = useSearchParams<{ workspace: string }>();
  const id = createMemo(() => {
    const known = workspaces().find((it) => it.id === query.workspace);
    return known?.id ?? (withAccount ? "" : workspaces()[0]?.id ?? "");
  });
  return { id, choose: (id: string) => setQuery({ workspace: id || null }) };
}

/** Choice of a workspace; the empty value is the account, where `account` names it. */
export function WorkspaceSelect(props: {
  label: string;
  workspaces: readonly Schemas["Workspace"][];
  value: string;
  onChange: (id: string) => void;
  account?: string;
  hint?: string;
}) {
  const options = () => [
    ...(props.account === undefined ? [] : [{ value: "", label: props.account }]),
    ...props.workspaces.map((it) => ({ value: it.id, label: it.name })),
  ];
  return <Select label={props.label} hint={props.hint} value={props.value} options={options()} onChange={props.onChange} />;
}

/** A text that the service shows once, such as a key. Only the button closes it, so that no stray click loses the text. */
export function ShownOnce(props: { title: string; text: string | undefined; label: string; onClose: () => void; children?: JSX.Element }) {
  return (
    <Show when={props.text}>
      {(text) => (
        <section class="card stack" role="region" aria-label={props.title}>
          <h2>{props.title}</h2>
          <p>Copy it now: it is not shown again.</p>
          <code class="settings-key">{text()}</code>
          {props.children}
          <div class="actions">
            <CopyButton text={text()} label={props.label} />
            <Button look="primary" onClick={props.onClose}>I have it</Button>
          </div>
        </section>
      )}
    </Show>
  );
}

/** Returns the part of a list that is shown, and a button that shows more. */
export function createSteps<T>(all: Accessor<readonly T[]>) {
  const [count, setCount] = createSignal(STEP);
  const More = () => (
    <Show when={all().length > count()}>
      <Button onClick={() => setCount(count() + STEP)}>Show more ({all().length - count()} left)</Button>
    </Show>
  );
  return { shown: createMemo(() => all().slice(0, count())), More };
}

/** A dialog with a form: `onSubmit` resolves to whether it is done, which closes it. */
export function FormDialog(props: {
  open: boolean;
  title: string;
  action: string;
  disabled?: boolean;
  onClose: () => void;
  onSubmit: () => Promise<boolean>;
  children: JSX.Element;
}) {
  const [busy, setBusy] = createSignal(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy()) return;
    setBusy(true);
    try {
      if (await props.onSubmit()) props.onClose();
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog open={props.open} title={props.title} onClose={props.onClose}>
      <form onSubmit={(event) => void submit(event)}>
        {props.children}
        <div class="actions">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={busy()} disabled={props.disabled}>{busy() ? "Working…" : props.action}</Button>
        </div>
      </form>
    </Dialog>
  );
}
