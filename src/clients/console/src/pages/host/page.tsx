// Host of the service, for its operator: hosts of a cluster, checks, capacity, engines and leftovers.

import { createResource, Show } from "solid-js";
import { createFetched, every } from "../../api/fetched";
import { answerOf, api } from "../../api/service";
import { person } from "../../api/session";
import { createTitle } from "../../app/title";
import { Empty, Loaded, Since } from "../../ui";
import { FetchState } from "../../ui/loaded";
import { pageVisible } from "../../ui/visible";
import { Capacity } from "./capacity";
import { Checks } from "./checks";
import { Engines } from "./engines";
import { Hosts } from "./hosts";
import { Leftovers } from "./leftovers";
import "./host.css";

/** Milliseconds between two reports. The service makes one for all pages in ten seconds. */
const PAUSE = 15_000;

/** The page. Others than the operator learn why they see nothing. */
export default function Page() {
  createTitle(() => "Host");
  const [who, { refetch }] = createResource(person);
  return (
    <>
      <div class="bar"><h1>Host</h1></div>
      <Loaded of={who} what="your account" retry={() => void refetch()}>
        {(who) => (
          <Show when={who().is_operator} fallback={
            <Empty title="Only the operator of the service sees its host">
              <p>Sign in with the account that was made at the first start.</p>
            </Empty>
          }>
            <Report />
          </Show>
        )}
      </Loaded>
    </>
  );
}

function Report() {
  const report = createFetched(() => "host", (_, signal) => answerOf(api.GET("/operator/host", { signal })));
  every(PAUSE, pageVisible, () => void report.refetch());
  return (
    <div class="host">
      <FetchState of={report} what="the report of the host" />
      <Show when={report.value()}>
        {(report) => (
          <p class="dim">
            hotdesk {report().version}, which started <Since time={startOf(report())} />. Measured <Since time={report().measured_at} />.
          </p>
        )}
      </Show>
      <Hosts />
      <Show when={report.value()}>
        {(report) => (
          <>
            <Checks report={report()} />
            <Capacity report={report()} />
            <Engines engines={report().engines} />
            <Leftovers report={report()} />
          </>
        )}
      </Show>
    </div>
  );
}

/** Returns when the service started, to the minute: reports differ by parts of a second. */
function startOf(report: { measured_at: string; uptime_seconds: number }): string {
  const start = new Date(report.measured_at).getTime() - report.uptime_seconds * 1000;
  return new Date(Math.floor(start / 60_000) * 60_000).toISOString();
}
