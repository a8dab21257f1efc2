// Lists beside a page, which fold where there is no room beside it.

import { createSignal, onCleanup, type JSX } from "solid-js";

/** Least width of a window that has room beside the text; docs.css has the same. */
const WIDE = matchMedia("(min-width: 1000px)");

/** A list with a title: open beside the text, folded above it. */
export function Fold(props: { title: string; children: JSX.Element }) {
  const [isWide, setWide] = createSignal(WIDE.matches);
  const change = () => setWide(WIDE.matches);
  WIDE.addEventListener("change", change);
  onCleanup(() => WIDE.removeEventListener("change", change));
  /** Above the text, an open list would hide that a link in it led to another place. */
  const fold = (event: MouseEvent & { currentTarget: HTMLDetailsElement }) => {
    if (!isWide() && event.target instanceof Element && event.target.closest("a")) event.currentTarget.open = false;
  };
  return <details class="docs-fold" open={isWide()} onClick={fold}><summary>{props.title}</summary>{props.children}</details>;
}

/** Scrolls to the element of the address's fragment, if the page has it. */
export function scrollToFragment(hash: string): void {
  if (hash.length < 2) return;
  let id = hash.slice(1);
  try {
    id = decodeURIComponent(id);
  } catch {
    // A fragment that no link of ours has; it may still be an id as it is.
  }
  document.getElementById(id)?.scrollIntoView();
}
