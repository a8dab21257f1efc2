// Navigation of the documentation: all pages by group, and the search.

import { A } from "@solidjs/router";
import { For } from "solid-js";
import { groups } from "virtual:docs/index";
import { Fold } from "./fold";
import { Search } from "./search";

/** Navigation and search. */
export function Navigation() {
  return (
    <div class="docs-side">
      <Search />
      <Fold title="All pages">
        <nav aria-label="Pages of the documentation">
          <For each={groups}>
            {(group) => (
              <>
                <h2>{group.name}</h2>
                <ul>
                  <For each={group.pages}>
                    {(page) => (
                      <li><A end href={page.path === "" ? "/docs" : `/docs/${page.path}`}>{page.title}</A></li>
                    )}
                  </For>
                  {group.name === "API" && (
                    <li><A href="/docs/reference">All operations, to try</A></li>
                  )}
                </ul>
              </>
            )}
          </For>
        </nav>
      </Fold>
    </div>
  );
}
