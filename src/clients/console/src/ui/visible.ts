// What a person can see: the page, and elements in its window.

import { createSignal, onCleanup, type Accessor } from "solid-js";

const [isShown, setShown] = createSignal(document.visibilityState === "visible");
document.addEventListener("visibilitychange", () => setShown(document.visibilityState === "visible"));

/** Whether the page is shown, and not behind another tab. */
export const pageVisible: Accessor<boolean> = isShown;

/**
 * Returns a `ref` for an element, and whether it is in the window or nearer to it than `margin`, a length of CSS. The owner's
 * end stops it.
 */
export function createInView(margin = "200px"): [ref: (element: Element) => void, inView: Accessor<boolean>] {
  const [inView, setInView] = createSignal(false);
  const observer = new IntersectionObserver(
    (entries) => setInView(entries.at(-1)?.isIntersecting ?? false),
    { rootMargin: margin },
  );
  onCleanup(() => observer.disconnect());
  return [(element) => observer.observe(element), inView];
}
