// One computer: its name and state, actions on it, and a tab for each thing that a person does there.

import { A, useParams } from "@solidjs/router";
import { For, Show, Suspense } from "solid-js";
import { Dynamic } from "solid-js/web";
import { computers, connection } from "../../api/live";
import { COMPUTER_TABS } from "../../app/tabs";
import { createTitle } from "../../app/title";
import { Empty, LinkButton, Loading, StatusBadge } from "../../ui";
import { Lifecycle } from "./lifecycle";
import "./computer.css";

/** The page. */
export default function Page() {
  const params = useParams<{ id: string; tab?: string }>();
  const computer = () => computers[params.id];
  const tab = () => COMPUTER_TABS.find((tab) => tab.id === params.tab) ?? COMPUTER_TABS[0];
  createTitle(() => `${computer()?.name ?? "Computer"}: ${tab().name}`);
  return (
    <Show when={computer()} fallback={
      <Show when={connection() === "live"} fallback={<Loading what="the computer" />}>
        <Empty title="No such computer">
          <p>It was deleted, or it is in a workspace that you do not reach.</p>
          <LinkButton href="/console">Go to the computers</LinkButton>
        </Empty>
      </Show>
    }>
      {(computer) => (
        <>
          <div class="bar">
            <h1>{computer().name}</h1>
            <StatusBadge status={computer().status} />
            <span class="grow" />
            <Lifecycle computer={computer()} />
          </div>
          <nav role="tablist" aria-label="Parts of the computer">
            <For each={COMPUTER_TABS}>
              {(it) => (
                <A role="tab" href={`/console/computers/${params.id}/${it.id}`} aria-selected={it.id === tab().id}>{it.name}</A>
              )}
            </For>
          </nav>
          <Suspense fallback={<Loading what={tab().name.toLowerCase()} />}>
            <div role="tabpanel" aria-label={tab().name}>
              {/* What a tab holds, such as a password, is of one computer. */}
              <Show when={params.id} keyed><Dynamic component={tab().tab} computer={computer()} /></Show>
            </div>
          </Suspense>
        </>
      )}
    </Show>
  );
}
