// Title of the browser's tab: windows, history and screen readers tell the pages apart by it.

import { createEffect } from "solid-js";

/** Names the page in the title while it is shown. The next page has its own. */
export function createTitle(name: () => string): void {
  createEffect(() => {
    document.title = `${name()} · hotdesk`;
  });
}
