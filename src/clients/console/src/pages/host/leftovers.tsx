// Leftovers: resources of the host that no computer owns.

import { Show } from "solid-js";
import type { Schemas } from "../../api/service";
import { Table } from "../../ui";

/** The section. */
export function Leftovers(props: { report: Schemas["HostReport"] }) {
  const more = () => props.report.leftovers_total - props.report.leftovers.length;
  return (
    <section aria-labelledby="host-leftovers">
      <h2 id="host-leftovers">Leftovers</h2>
      <Show when={props.report.leftovers_error}>
        {(error) => <p class="bad" role="alert">Leftovers could not be looked for: {error()}. The next report looks again.</p>}
      </Show>
      <Show when={props.report.leftovers.length > 0} fallback={
        <Show when={!props.report.leftovers_error}>
          <p>Every machine, mount, loop device, control group and network interface of hotdesk on this host has an owner.</p>
        </Show>
      }>
        <p>
          Nobody owns these. To remove them, stop the service and run <code>hotdesk doctor --repair --yes</code>.{" "}
          <a href="/docs/operating#repair">How a repair works</a>
        </p>
        <Table label="Leftovers" columns={["What", "Where", "Why", "A repair will"]} rows={props.report.leftovers}>
          {(it) => <tr><td>{it.kind}</td><td class="mono">{it.location}</td><td>{it.reason}</td><td>{it.remedy}</td></tr>}
        </Table>
        <Show when={more() > 0}><p class="dim">{more()} more are not shown.</p></Show>
      </Show>
    </section>
  );
}
