// Files that go to the computer's desktop.

import { Files, HotdeskError } from "@hotdesk/client";
import X from "lucide-solid/icons/x";
import { createStore, produce } from "solid-js/store";
import { For, onCleanup, Show } from "solid-js";
import { api } from "../../../api/service";
import { IconButton, notify } from "../../../ui";

/** Folder of the desktop, below the home folder (docs/api/files.md, "Files of a workspace"). */
const DESKTOP = "Desktop";
/** Most files of one drop: more belong into an archive, or are a mistake. */
const MOST = 50;

interface Upload {
  key: number;
  name: string;
  /** Bytes that are there. */
  sent: number;
  total: number;
  abort: AbortController;
}

/** Uploads to a computer. They go on while the owner lives, one after another. */
export function createUploads(id: string) {
  const files = new Files(api, id);
  const [uploads, setUploads] = createStore<Upload[]>([]);
  let queue: Promise<unknown> = Promise.resolve();
  let next = 0;

  async function send(file: File, overwrite: boolean, upload: Upload): Promise<void> {
    const { key, name, abort } = upload;
    try {
      abort.signal.throwIfAborted();
      await files.write(`${DESKTOP}/${name}`, file, {
        overwrite,
        parents: true,
        signal: abort.signal,
        onProgress: (sent) => setUploads((it) => it.key === key, "sent", sent),
      });
      notify({ text: `${name} is on the desktop.`, tone: "good" });
    } catch (error) {
      if (abort.signal.aborted) return;
      if (error instanceof HotdeskError && error.code === "already_exists") {
        notify({
          text: `${name} is on the desktop already, and was not replaced.`,
          tone: "bad",
          action: { label: "Replace it", run: () => add([file], true) },
        });
        return;
      }
      notify({ text: `${name} did not arrive: ${error instanceof Error ? error.message : String(error)}`, tone: "bad" });
    } finally {
      setUploads(produce((all) => {
        const at = all.findIndex((it) => it.key === key);
        if (at >= 0) all.splice(at, 1);
      }));
    }
  }

  function add(given: readonly File[], overwrite = false): void {
    if (given.length + uploads.length > MOST) {
      notify({ text: `At most ${MOST} files go at a time: put more into an archive, or use the Files tab.`, tone: "bad" });
      return;
    }
    for (const file of given) {
      const upload: Upload = { key: next++, name: file.name, sent: 0, total: file.size, abort: new AbortController() };
      setUploads(uploads.length, { ...upload });
      queue = queue.then(() => send(file, overwrite, upload));
    }
  }

  onCleanup(() => {
    for (const upload of uploads) upload.abort.abort();
  });
  return { uploads, add };
}

/** Returns the files of a drop; folders are left out, with a notice. */
export function filesOf(data: DataTransfer): File[] {
  const items = Array.from(data.items).filter((item) => item.kind === "file");
  const isFolder = (item: DataTransferItem) => item.webkitGetAsEntry()?.isDirectory === true;
  if (items.some(isFolder)) notify({ text: "Folders are not dropped here: use the Files tab.", tone: "bad" });
  return items.filter((item) => !isFolder(item)).flatMap((item) => item.getAsFile() ?? []);
}

/** The uploads with their progress. */
export function Uploads(props: { uploads: readonly Upload[] }) {
  const percent = (upload: Upload) => (upload.total === 0 ? 0 : Math.floor((100 * upload.sent) / upload.total));
  return (
    <Show when={props.uploads.length > 0}>
      <ul class="screen-uploads" aria-label="Files on their way to the desktop">
        <For each={props.uploads}>
          {(upload) => (
            <li>
              <span>Sending {upload.name}: {percent(upload)} %</span>
              <progress aria-label={upload.name} max={100} value={percent(upload)} />
              <IconButton look="quiet" label={`Stop sending ${upload.name}`} onClick={() => upload.abort.abort()}><X size={16} /></IconButton>
            </li>
          )}
        </For>
      </ul>
    </Show>
  );
}
