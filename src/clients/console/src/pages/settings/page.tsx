// Settings of the workspace and the account: a tab for each subject.

import { A, useParams } from "@solidjs/router";
import { For, Suspense } from "solid-js";
import { Dynamic } from "solid-js/web";
import { SETTINGS_TABS } from "../../app/tabs";
import { createTitle } from "../../app/title";
import { Loading } from "../../ui";

/** The page. */
export default function Page() {
  const params = useParams<{ tab?: string }>();
  const tab = () => SETTINGS_TABS.find((tab) => tab.id === params.tab) ?? SETTINGS_TABS[0];
  createTitle(() => `Settings: ${tab().name}`);
  return (
    <>
      <div class="bar"><h1>Settings</h1><span class="grow" /><a href="/settings" rel="external">Account and sign-in</a></div>
      <nav role="tablist" aria-label="Settings">
        <For each={SETTINGS_TABS}>
          {(it) => <A role="tab" href={`/console/settings/${it.id}`} aria-selected={it.id === tab().id}>{it.name}</A>}
        </For>
      </nav>
      <Suspense fallback={<Loading what={tab().name} />}>
        <div role="tabpanel" aria-label={tab().name}><Dynamic component={tab().tab} /></div>
      </Suspense>
    </>
  );
}
