// Search in the documentation: an index made at build time, which is loaded with the first word.

import { A, useSearchParams } from "@solidjs/router";
import type MiniSearch from "minisearch";
import type { SearchResult } from "minisearch";
import { createMemo, createResource, For, Show } from "solid-js";
import { Loaded } from "../../ui";

/** Most results shown: whoever needs more has more words. */
const MOST = 12;
/** Characters shown around the first word that was found. */
const AROUND = 140;

interface Entry {
  id: number;
  heading: string;
  page: string;
  address: string;
  text: string;
}

let loaded: Promise<MiniSearch<Entry>> | undefined;

function load(): Promise<MiniSearch<Entry>> {
  loaded ??= (async () => {
    const [{ default: Index }, { default: text, options }] = await Promise.all([import("minisearch"), import("virtual:docs/search")]);
    return Index.loadJSON<Entry>(text, options);
  })().catch((error: unknown) => {
    // The next attempt loads again.
    loaded = undefined;
    throw error;
  });
  return loaded;
}

/** Returns the part of a section's text around the first of the words. */
function excerpt(text: string, words: readonly string[]): string {
  const lower = text.toLowerCase();
  const found = words.map((word) => lower.indexOf(word)).filter((at) => at >= 0);
  const start = Math.max(0, Math.min(...found, text.length) - AROUND / 2);
  const first = found.length === 0 ? 0 : start;
  const part = text.slice(first, first + AROUND);
  return `${first > 0 ? "…" : ""}${part}${first + AROUND < text.length ? "…" : ""}`;
}

/** The field and its results. The words are in the address. */
export function Search() {
  const [query, setQuery] = useSearchParams<{ q: string }>();
  const words = () => (typeof query.q === "string" ? query.q.trim() : "");
  const isWanted = createMemo(() => words() !== "");
  const [index, { refetch }] = createResource(isWanted, load);
  return (
    <search class="docs-search">
      <input type="search" aria-label="Search the documentation" placeholder="Search" value={words()}
        onInput={(event) => setQuery({ q: event.currentTarget.value || null }, { replace: true })} />
      <Show when={isWanted()}>
        <Loaded of={index} what="the search index" retry={() => void refetch()}>
          {(index) => <Results index={index()} words={words()} />}
        </Loaded>
      </Show>
    </search>
  );
}

function Results(props: { index: MiniSearch<Entry>; words: string }) {
  const all = createMemo((): SearchResult[] =>
    props.index.search(props.words, { prefix: true, fuzzy: 0.2, combineWith: "AND", boost: { heading: 4, page: 2 } }).slice(0, MOST));
  return (
    <div class="docs-results" role="region" aria-label="Results" aria-live="polite">
      <Show when={all().length > 0} fallback={<p class="dim">Nothing has all these words. Try fewer, or other ones.</p>}>
        <ul>
          <For each={all()}>
            {(it) => (
              <li>
                <A href={String(it["address"])}>{String(it["heading"])}</A> <small>{String(it["page"])}</small>
                <p class="dim">{excerpt(String(it["text"]), it.terms)}</p>
              </li>
            )}
          </For>
        </ul>
      </Show>
    </div>
  );
}
