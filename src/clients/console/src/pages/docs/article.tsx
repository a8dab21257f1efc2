// A page of the documentation with its table of contents.

import { useLocation } from "@solidjs/router";
import { createEffect, createResource, For, on, onCleanup, Show } from "solid-js";
import { pages, type Page } from "virtual:docs/index";
import { attempt, copyText, Empty, LinkButton, Loaded, notify } from "../../ui";
import { Fold, scrollToFragment } from "./fold";

/** Loads and shows a page by its path. */
export function Article(props: { path: string }) {
  const [page, { refetch }] = createResource(
    () => ({ path: props.path }),
    async ({ path }) => (Object.hasOwn(pages, path) ? ((await pages[path]?.())?.default ?? null) : null),
  );
  return (
    <Loaded of={page} what="the page" retry={() => void refetch()}>
      {(page) => (
        <Show when={page()} fallback={
          <Empty title="The documentation has no such page"><LinkButton href="/docs">All pages</LinkButton></Empty>
        }>
          {(page) => <Body page={page()} />}
        </Show>
      )}
    </Loaded>
  );
}

function Body(props: { page: Page }) {
  const location = useLocation();
  let article: HTMLElement | undefined;
  createEffect(on(() => [props.page, location.hash] as const, ([page, hash]) => {
    document.title = `${page.title} · hotdesk`;
    scrollToFragment(hash);
  }));

  /** What scrolls sideways must be reachable by keyboard; what does not should be no stop. */
  const markScrolling = () => {
    for (const part of article?.querySelectorAll<HTMLElement>(".scroll, pre") ?? []) {
      if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
      else part.removeAttribute("tabindex");
    }
  };
  const sizes = new ResizeObserver(markScrolling);
  createEffect(() => { if (props.page && article) { markScrolling(); sizes.observe(article); } });
  onCleanup(() => sizes.disconnect());

  const click = (event: MouseEvent) => {
    const button = event.target instanceof Element ? event.target.closest("button[data-copy]") : null;
    const code = button?.parentElement?.querySelector("pre")?.textContent;
    if (code === undefined || code === null) return;
    void attempt("Not copied", async () => {
      await copyText(code);
      notify({ text: "Copied", tone: "good" });
    });
  };
  return (
    <div class="docs-page">
      <Show when={props.page.headings.length > 1}>
        <aside class="docs-contents">
          <Fold title="On this page">
            <nav aria-label="On this page">
              <ul>
                <For each={props.page.headings.filter((it) => it.level <= 3)}>
                  {(it) => <li data-level={it.level}><a href={`${location.pathname}#${it.id}`}>{it.text}</a></li>}
                </For>
              </ul>
            </nav>
          </Fold>
        </aside>
      </Show>
      {/* The one place where innerHTML is right: the HTML was made of the repository's own documents when the console was
          built, by a renderer that passes no HTML through. Nothing of a computer, a person or a model is in it. */}
      <article ref={article} class="docs-text" onClick={click} innerHTML={props.page.html} />
    </div>
  );
}
