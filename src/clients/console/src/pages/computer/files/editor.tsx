// Editor of a small text file.
//
// It saves only over the version that it shows (`If-Match`, docs/api/files.md), or over what a person has agreed to replace. While
// it is in view, it looks for other versions by reads that are no use of the computer.

import { useBeforeLeave } from "@solidjs/router";
import type { EditorView } from "@codemirror/view";
import { createSignal, onCleanup, onMount, Show } from "solid-js";
import { HotdeskError } from "@hotdesk/client";
import { every } from "../../../api/fetched";
import { api, responseOf } from "../../../api/service";
import { attempt, Button, confirm, notify } from "../../../ui";
import { pageVisible } from "../../../ui/visible";
import type { Opened } from "./content";
import { nameOf } from "./path";
import { watchedFacts } from "./requests";

/** Milliseconds between two looks at the version of the file. */
const CHECK = 10_000;

/** Edits a file. `reload` opens what is on the computer now. */
export function Editor(props: { computer: string; path: string; opened: Opened; reload: () => void }) {
  const [isReady, setReady] = createSignal(false);
  const [isDirty, setDirty] = createSignal(false);
  const [isBusy, setBusy] = createSignal(false);
  const [hasChanged, setChanged] = createSignal(false);
  let place!: HTMLDivElement;
  let view: EditorView | undefined;
  let library: typeof import("./codemirror") | undefined;
  let etag = props.opened.etag;
  let isGone = false;

  /** Returns the version on the computer; undefined when the file is not there. */
  const versionNow = async () => {
    try {
      return (await watchedFacts(props.computer, props.path)).etag;
    } catch (error) {
      if (error instanceof HotdeskError && error.status === 404) return undefined;
      throw error;
    }
  };
  /** Writes the text over a version; over any without one. Returns the new version; undefined when another one is there. */
  const write = async (text: string, version: string | undefined): Promise<string | undefined> => {
    const query = { path: props.path, overwrite: true };
    const header = version === undefined ? {} : { "If-Match": version };
    try {
      const { response } = await responseOf(api.PUT("/computers/{id}/files/content", {
        params: { path: { id: props.computer }, query, header },
        body: new Blob([text]),
        bodySerializer: (body: Blob) => body,
        headers: { "Content-Type": "application/octet-stream" },
      }));
      return response.headers.get("ETag") ?? (await versionNow()) ?? "";
    } catch (error) {
      if (error instanceof HotdeskError && error.status === 412) return undefined;
      throw error;
    }
  };
  const save = async () => {
    if (!view || isBusy() || !isDirty()) return;
    setBusy(true);
    await attempt("The file was not saved", async () => {
      if (!view || !library) return;
      let saved = view.state.doc;
      let version = await write(library.textOf(view, props.opened.lineBreak), etag);
      if (version === undefined) {
        setChanged(true);
        const isWanted = await confirm({
          title: "The file changed meanwhile",
          text: `${nameOf(props.path)} was changed or removed on the computer since you opened it. Saving replaces what is there now.`,
          action: "Replace it",
        });
        if (!isWanted || !view) return;
        saved = view.state.doc;
        version = await write(library.textOf(view, props.opened.lineBreak), undefined);
      }
      etag = version ?? etag;
      setChanged(false);
      // Who typed on while it was saved has more to save.
      setDirty(view !== undefined && !view.state.doc.eq(saved));
      notify({ text: `${nameOf(props.path)} is saved`, tone: "good" });
    });
    setBusy(false);
  };
  const reload = async () => {
    if (isDirty() && !(await mayDiscard())) return;
    setDirty(false);
    props.reload();
  };

  onMount(async () => {
    library = await attempt("The editor could not be loaded", () => import("./codemirror"));
    if (!library || isGone) return;
    view = library.makeEditor(place, {
      text: props.opened.text,
      label: `Text of ${nameOf(props.path)}`,
      isReadOnly: props.opened.fixed !== undefined,
      onChange: () => setDirty(true),
      onSave: () => void save(),
    });
    setReady(true);
  });
  onCleanup(() => {
    isGone = true;
    view?.destroy();
  });

  // A look that fails says nothing; the next one or the save does.
  every(CHECK, () => pageVisible() && !isBusy(), () => {
    const before = etag;
    versionNow().then((now) => { if (before === etag && !isGone) setChanged(now !== etag); }, () => {});
  });

  const mayDiscard = () => confirm({
    title: "Discard your changes?",
    text: `Your changes to ${nameOf(props.path)} are not saved.`,
    action: "Discard them",
  });
  useBeforeLeave((event) => {
    if (!isDirty() || event.defaultPrevented) return;
    event.preventDefault();
    void mayDiscard().then((isWanted) => { if (isWanted) event.retry(true); });
  });
  const ask = (event: BeforeUnloadEvent) => { if (isDirty()) event.preventDefault(); };
  addEventListener("beforeunload", ask);
  onCleanup(() => removeEventListener("beforeunload", ask));

  return (
    <div class="files-editor">
      <Show when={props.opened.fixed}>{(why) => <p role="status">{why()}</p>}</Show>
      <Show when={hasChanged()}>
        <p class="files-changed" role="alert">
          The file changed on the computer since you opened it.{" "}
          <Button onClick={() => void reload()}>Load what is there now</Button>
        </p>
      </Show>
      <Show when={!isReady()}><p role="status">Loading the editor…</p></Show>
      <div ref={place} class="files-text" />
      <div class="bar files-save">
        <Button look="primary" busy={isBusy()} disabled={!isDirty() || props.opened.fixed !== undefined} onClick={() => void save()}>
          {isBusy() ? "Saving…" : "Save"}
        </Button>
        <span class="dim" role="status">{isDirty() ? "Changes are not saved. Ctrl+S saves." : ""}</span>
      </div>
    </div>
  );
}
