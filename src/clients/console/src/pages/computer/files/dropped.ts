// Files of a drop, with those of dropped folders.

/** Most files of one drop: more are not listed, and nothing of it is sent. */
const MOST = 500;

/** A dropped file and its path below the folder on which it was dropped. */
export interface Dropped {
  file: File;
  path: string;
}

/** Returns the files of a drop, those of folders included. Call it in the event's handler: the data ends with it. */
export async function droppedFiles(data: DataTransfer): Promise<Dropped[]> {
  const entries = Array.from(data.items, (item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const found: Dropped[] = [];
  for (const entry of entries) await collect(entry, found);
  return found;
}

async function collect(entry: FileSystemEntry, found: Dropped[]): Promise<void> {
  if (entry.isFile) {
    if (found.length >= MOST) throw new Error(`More than ${MOST} files: pack them into an archive, or copy them by \`hotdesk cp\``);
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    found.push({ file, path: entry.fullPath.replace(/^\//, "") });
  } else if (entry.isDirectory) {
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    // It gives the entries in several parts; the last one is empty.
    for (;;) {
      const part = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (part.length === 0) return;
      for (const inner of part) await collect(inner, found);
    }
  }
}
