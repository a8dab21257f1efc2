// What a person can see: the page, and elements in its window.

import { batch, createSignal, onCleanup, type Accessor } from "solid-js";

const [isShown, setShown] = createSignal(document.visibilityState === "visible");
document.addEventListener("visibilitychange", () => setShown(document.visibilityState === "visible"));

/** Whether the page is shown, and not behind another tab. */
export const pageVisible: Accessor<boolean> = isShown;

/** Observers by their margin, and what each observed element calls. A page of the fleet has hundreds of elements. */
const observers = new Map<string, IntersectionObserver>();
const observed = new WeakMap<Element, (isInView: boolean) => void>();

function observerOf(margin: string): IntersectionObserver {
  const known = observers.get(margin);
  if (known) return known;
  const made = new IntersectionObserver(
    (entries) => batch(() => {
      for (const { target, isIntersecting } of entries) observed.get(target)?.(isIntersecting);
    }),
    { rootMargin: margin },
  );
  observers.set(margin, made);
  return made;
}

/**
 * Returns a `ref` for an element, and whether it is in the window or nearer to it than `margin`, a length of CSS. The owner's
 * end stops it.
 */
export function createInView(margin = "200px"): [ref: (element: Element) => void, inView: Accessor<boolean>] {
  const [inView, setInView] = createSignal(false);
  const observer = observerOf(margin);
  const ref = (element: Element) => {
    observed.set(element, setInView);
    observer.observe(element);
    onCleanup(() => observer.unobserve(element));
  };
  return [ref, inView];
}
