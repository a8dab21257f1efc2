// One computer: its name and state, actions on it, and a tab for each thing that a person does there.

import { A, useParams } from "@solidjs/router";
import { For, lazy, Show, Suspense } from "solid-js";
import { Dynamic } from "solid-js/web";
import { computers, connection } from "../../api/live";
import { Empty, LinkButton, Loading, StatusBadge } from "../../ui";
import { Lifecycle } from "./lifecycle";
import "./computer.css";

/** The tabs; the first is that of the address without one. */
const TABS = [
  { id: "screen", name: "Screen", tab: lazy(() => import("./screen/tab")) },
  { id: "terminal", name: "Terminal", tab: lazy(() => import("./terminal/tab")) },
  { id: "files", name: "Files", tab: lazy(() => import("./files/tab")) },
  { id: "activity", name: "Activity", tab: lazy(() => import("./activity/tab")) },
  { id: "processes", name: "Processes", tab: lazy(() => import("./processes/tab")) },
  { id: "recordings", name: "Recordings", tab: lazy(() => import("./recordings/tab")) },
  { id: "snapshots", name: "Snapshots", tab: lazy(() => import("./snapshots/tab")) },
  { id: "settings", name: "Settings", tab: lazy(() => import("./settings/tab")) },
  { id: "connect", name: "Give this to an agent", tab: lazy(() => import("./connect/tab")) },
] as const;

/** The page. */
export default function Page() {
  const params = useParams<{ id: string; tab?: string }>();
  const computer = () => computers[params.id];
  const tab = () => TABS.find((tab) => tab.id === params.tab) ?? TABS[0];
  return (
    <Show when={computer()} fallback={
      <Show when={connection() === "live"} fallback={<Loading what="the computer" />}>
        <Empty title="No such computer"><LinkButton href="/console">Go to the computers</LinkButton></Empty>
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
            <For each={TABS}>
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
