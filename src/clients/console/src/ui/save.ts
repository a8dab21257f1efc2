// Files that a person keeps.

/** Milliseconds after which the browser has begun to write a file, and its address may end. */
const BEGUN = 60_000;

/** Gives a file to the browser, which puts it into the folder of downloads. */
export function saveBlob(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), BEGUN);
}
