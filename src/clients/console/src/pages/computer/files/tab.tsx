// Files of the computer: a folder, or one file.

import { useNavigate, useSearchParams } from "@solidjs/router";
import { HotdeskError } from "@hotdesk/client";
import FolderPlus from "lucide-solid/icons/folder-plus";
import House from "lucide-solid/icons/house";
import RefreshCw from "lucide-solid/icons/refresh-cw";
import Upload from "lucide-solid/icons/upload";
import { createEffect, createMemo, createSignal, For, on, Show } from "solid-js";
import { createFetched } from "../../../api/fetched";
import { createRows } from "../../../api/rows";
import { answerOf, api, type Computer, type Schemas } from "../../../api/service";
import { attempt, Button, confirm, Empty, Failure, IconButton, Loading, notify, Switch } from "../../../ui";
import { inBytes } from "../../../ui/values";
import { Running } from "../running";
import { NewFolder, Rename } from "./dialogs";
import { droppedFiles } from "./dropped";
import { crumbs, HOME, join, type Entry } from "./path";
import { Table } from "./table";
import { download, stored, upload } from "./transfers";
import { Transfers } from "./transfers-panel";
import { Viewer } from "./viewer";
import "./files.css";

/** Entries that are fetched at once: the default of the service. */
const PAGE = 1000;
/** Most entries that are shown of a folder: each is a row of the page. */
const MOST_ENTRIES = 5000;

/** The tab. */
export default function Tab(props: { computer: Computer }) {
  return <Running computer={props.computer} what="Its files"><Files computer={props.computer.id} /></Running>;
}

function Files(props: { computer: string }) {
  const navigate = useNavigate();
  const [query, setQuery] = useSearchParams<{ path: string; file: string; sort: string; hidden: string }>();
  const [wanted, setWanted] = createSignal(PAGE);
  const [isDropping, setDropping] = createSignal(false);
  const [dialog, setDialog] = createSignal<{ rename: string } | "folder">();
  let chooser!: HTMLInputElement;

  const listing = createFetched(
    () => ({ computer: props.computer, path: query.path || HOME }),
    ({ computer, path }, signal) => list(computer, path, wanted(), signal),
  );
  /** The folder's absolute path; undefined before it is known. */
  const at = () => listing.value()?.path;
  const isHiddenShown = () => query.hidden === "yes";
  const entries = createRows(() => listing.value()?.entries, "name");
  const shown = createMemo(() => entries().filter((it) => isHiddenShown() || !it.name.startsWith(".")));
  const hiddenCount = () => entries().length - shown().length;
  const address = (path: string, file?: string) => {
    const params = new URLSearchParams({ path });
    if (file !== undefined) params.set("file", file);
    if (query.sort) params.set("sort", query.sort);
    if (query.hidden) params.set("hidden", query.hidden);
    return `/console/computers/${props.computer}/files?${params}`;
  };
  createEffect(on(() => query.path, () => setWanted(PAGE), { defer: true }));
  createEffect(on(stored, (last) => {
    if (last?.computer === props.computer && last.folder === at()) void listing.refetch();
  }, { defer: true }));

  const send = (files: readonly { file: File; path: string }[]) => {
    const folder = at();
    if (folder !== undefined) upload(props.computer, files.map(({ file, path }) => ({ file, path: join(folder, path) })));
  };
  const choose = () => {
    send(Array.from(chooser.files ?? [], (file) => ({ file, path: file.name })));
    chooser.value = "";
  };
  const drop = async (event: DragEvent) => {
    event.preventDefault();
    setDropping(false);
    const { dataTransfer } = event;
    if (!dataTransfer) return;
    const files = await attempt("The files could not be read", () => droppedFiles(dataTransfer));
    if (files) send(files);
  };
  const drag = (event: DragEvent) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    setDropping(true);
  };
  const remove = async (entry: Entry, path: string) => {
    const isFolder = entry.type === "folder";
    const isWanted = await confirm({
      title: `Delete ${entry.name}?`,
      text: isFolder ? "The folder is deleted with all that is in it. This cannot be undone." : "This cannot be undone.",
      action: "Delete",
    });
    if (!isWanted) return;
    const params = { path: { id: props.computer }, query: { path, recursive: isFolder } };
    const gone = await attempt(`${entry.name} was not deleted`, () => answerOf(api.DELETE("/computers/{id}/files", { params })));
    if (gone) notify({ text: `${entry.name} is deleted (${inBytes(gone.bytes)})`, tone: "good" });
    await listing.refetch();
  };
  /** Opens what a link leads to. */
  const follow = async (name: string, folder: string) => {
    const path = join(folder, name);
    const params = { path: { id: props.computer }, query: { path, limit: 1 } };
    await attempt(`${name} could not be opened`, async () => {
      try {
        await answerOf(api.GET("/computers/{id}/files/list", { params }));
        navigate(address(path));
      } catch (error) {
        if (!(error instanceof HotdeskError && error.code === "not_a_folder")) throw error;
        navigate(address(folder, name));
      }
    });
  };
  const more = () => {
    setWanted((count) => Math.min(count + PAGE, MOST_ENTRIES));
    void listing.refetch();
  };

  return (
    <section class="files" classList={{ "files-dropping": isDropping() }} aria-label="Files"
      onDragEnter={drag} onDragOver={drag} onDrop={(event) => void drop(event)}
      onDragLeave={(event) => {
        if (!(event.relatedTarget instanceof Node && event.currentTarget.contains(event.relatedTarget))) setDropping(false);
      }}>
      <div class="bar">
        <nav class="files-crumbs" aria-label="Folder">
          <a href={address(HOME)} aria-label="Home folder" title="Home folder"><House size={18} aria-hidden="true" /></a>
          <ol>
            <For each={crumbs(at() ?? "/")}>
              {(crumb) => (
                <li><a href={address(crumb.path)} aria-current={crumb.path === at() ? "page" : undefined}>{crumb.name}</a></li>
              )}
            </For>
          </ol>
        </nav>
        <span class="grow" />
        <Show when={!query.file}>
          <Switch label="Hidden files" checked={isHiddenShown()} onChange={(on) => setQuery({ hidden: on ? "yes" : undefined })} />
          <IconButton look="quiet" label="Refresh" onClick={() => void listing.refetch()}><RefreshCw size={16} /></IconButton>
          <Button disabled={at() === undefined} onClick={() => setDialog("folder")}>
            <FolderPlus size={16} aria-hidden="true" />New folder
          </Button>
        </Show>
        <Button look="primary" disabled={at() === undefined} onClick={() => chooser.click()}>
          <Upload size={16} aria-hidden="true" />Upload
        </Button>
        <input ref={chooser} type="file" multiple hidden aria-label="Files to upload" onChange={choose} />
      </div>
      <Transfers computer={props.computer} />
      <Show when={isDropping()}><p class="files-drop" role="status">Drop the files to upload them to {at()}</p></Show>

      <Show when={listing.value()} fallback={
        <Show when={listing.failure()} fallback={<Loading what="the folder" />}>
          {(error) => <Failure what="The folder cannot be shown" error={error()} retry={() => void listing.refetch()} />}
        </Show>
      }>
        {(folder) => (
          <Show when={query.file} fallback={
            <>
              <Show when={listing.failure()}>
                {(error) => (
                  <Failure what="This may be old: the folder cannot be read now" error={error()} retry={() => void listing.refetch()} />
                )}
              </Show>
              <Show when={shown().length > 0} fallback={
                <Empty title="Nothing is here">
                  <p>Drop files here, or press Upload.{hiddenCount() > 0 ? ` ${hiddenCount()} hidden files are not shown.` : ""}</p>
                </Empty>
              }>
                <div class="scroll">
                  <Table folder={folder().path} entries={shown()} by={query.sort || "name"}
                    onSort={(by) => setQuery({ sort: by }, { replace: true })}
                    actions={{
                      address: (entry) => (entry.type === "folder"
                        ? address(join(folder().path, entry.name))
                        : address(folder().path, entry.name)),
                      follow: (entry) => void follow(entry.name, folder().path),
                      download: (entry) => download(props.computer, join(folder().path, entry.name), entry.type === "folder"),
                      rename: (entry) => setDialog({ rename: join(folder().path, entry.name) }),
                      remove: (entry) => void remove(entry, join(folder().path, entry.name)),
                    }} />
                </div>
              </Show>
              <Show when={folder().next}>
                <p class="dim">
                  The first {folder().entries.length} names are shown and sorted.{" "}
                  <Show when={wanted() < MOST_ENTRIES} fallback="For more, use a terminal.">
                    <Button onClick={more}>Show more</Button>
                  </Show>
                </p>
              </Show>
            </>
          }>
            {(name) => (
              <Viewer computer={props.computer} folder={folder().path} name={name()} back={address(folder().path)} />
            )}
          </Show>
        )}
      </Show>

      <Show when={dialog() === "folder" && at()}>
        {(folder) => (
          <NewFolder computer={props.computer} folder={folder()} onClose={() => setDialog(undefined)} onDone={() => void listing.refetch()} />
        )}
      </Show>
      <Show when={renamed(dialog())}>
        {(path) => (
          <Rename computer={props.computer} path={path()} onClose={() => setDialog(undefined)} onDone={() => void listing.refetch()} />
        )}
      </Show>
    </section>
  );
}

/** The path that a dialog renames; undefined for another dialog. */
function renamed(dialog: { rename: string } | "folder" | undefined): string | undefined {
  return typeof dialog === "object" ? dialog.rename : undefined;
}

/** Returns the first entries of a folder, about `wanted`, page by page. */
async function list(computer: string, path: string, wanted: number, signal: AbortSignal): Promise<Schemas["Listing"]> {
  const entries: Entry[] = [];
  for (let after: string | undefined; ; ) {
    const params = { path: { id: computer }, query: { path, limit: PAGE, after } };
    const page: Schemas["Listing"] = await answerOf(api.GET("/computers/{id}/files/list", { params, signal }));
    entries.push(...page.entries);
    if (!page.next || entries.length >= wanted) return { ...page, entries };
    after = page.next;
  }
}
