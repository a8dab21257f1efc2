// Settings of the workspace and the account: a tab for each subject.

import { A, useParams } from "@solidjs/router";
import { For, lazy, Suspense } from "solid-js";
import { Dynamic } from "solid-js/web";
import { createTitle } from "../../app/title";
import { Loading } from "../../ui";

/** The tabs; the first is that of the address without one. */
const TABS = [
  { id: "keys", name: "API keys", tab: lazy(() => import("./keys")) },
  { id: "secrets", name: "Secrets", tab: lazy(() => import("./secrets")) },
  { id: "members", name: "Members", tab: lazy(() => import("./members")) },
  { id: "workspaces", name: "Workspaces", tab: lazy(() => import("./workspaces")) },
  { id: "clients", name: "Clients and usage", tab: lazy(() => import("./clients")) },
  { id: "capacity", name: "Capacity and plan", tab: lazy(() => import("./capacity")) },
  { id: "streaming", name: "Streaming", tab: lazy(() => import("./streaming")) },
  { id: "sessions", name: "Browser sessions", tab: lazy(() => import("./sessions")) },
] as const;

/** The page. */
export default function Page() {
  const params = useParams<{ tab?: string }>();
  const tab = () => TABS.find((tab) => tab.id === params.tab) ?? TABS[0];
  createTitle(() => `Settings: ${tab().name}`);
  return (
    <>
      <div class="bar"><h1>Settings</h1><span class="grow" /><a href="/settings" rel="external">Account and sign-in</a></div>
      <nav role="tablist" aria-label="Settings">
        <For each={TABS}>
          {(it) => <A role="tab" href={`/console/settings/${it.id}`} aria-selected={it.id === tab().id}>{it.name}</A>}
        </For>
      </nav>
      <Suspense fallback={<Loading what={tab().name} />}>
        <div role="tabpanel" aria-label={tab().name}><Dynamic component={tab().tab} /></div>
      </Suspense>
    </>
  );
}
