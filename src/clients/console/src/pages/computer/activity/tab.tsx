// Tab of what happens on a computer: its action timeline, and its events as they happen.

import { useSearchParams } from "@solidjs/router";
import { Show } from "solid-js";
import type { Computer } from "../../../api/service";
import { Events } from "./events";
import { Timeline } from "./timeline";
import "./activity.css";

/** The tab. The query `show` is `timeline` (default) or `events`. */
export default function Tab(props: { computer: Computer }) {
  const [search] = useSearchParams<{ show: string }>();
  const showsEvents = () => search.show === "events";
  const path = (part: string) => `/console/computers/${props.computer.id}/activity?show=${part}`;
  return (
    <div class="activity">
      <nav class="activity-parts" aria-label="Kinds of activity">
        <a href={path("timeline")} aria-current={showsEvents() ? undefined : "page"}>Actions</a>
        <a href={path("events")} aria-current={showsEvents() ? "page" : undefined}>Events</a>
      </nav>
      <Show when={showsEvents()} fallback={<Timeline computer={props.computer} />}>
        <Events computer={props.computer} />
      </Show>
    </div>
  );
}
