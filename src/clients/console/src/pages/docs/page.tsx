// Documentation: the repository's `docs` with navigation and search, and the API reference.

import { useParams } from "@solidjs/router";
import { createMemo, lazy, Match, Suspense, Switch } from "solid-js";
import { Loading } from "../../ui";
import { Article } from "./article";
import { Navigation } from "./navigation";
import "./docs.css";

const Reference = lazy(() => import("./reference/page"));

/** The page. */
export default function Page() {
  const params = useParams<{ page: string }>();
  const path = createMemo(() => (params.page ?? "").replace(/\/+$/, ""));
  /** Subject of the reference; empty for its contents, undefined for other pages. */
  const subject = createMemo(() => /^reference(?:\/(.*))?$/.exec(path()));
  return (
    <div class="docs">
      <Navigation />
      <Switch>
        <Match when={subject()}>
          {(subject) => (
            <Suspense fallback={<Loading what="the API reference" />}><Reference subject={subject()[1] ?? ""} /></Suspense>
          )}
        </Match>
        <Match when={!subject()}><Article path={path()} /></Match>
      </Switch>
    </div>
  );
}
