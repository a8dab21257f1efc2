// Engines of the host, and what computers of each isolation can do.

import { For } from "solid-js";
import type { Schemas } from "../../api/service";
import { Table } from "../../ui";

type Engine = Schemas["HostEngine"];

const ABILITIES: readonly [keyof Engine["abilities"], string][] = [
  ["suspend", "Suspend"],
  ["live_cpu", "vCPUs while it runs"],
  ["live_ram", "RAM while it runs"],
  ["live_disk", "Disk while it runs"],
  ["copy_while_running", "Clone while it runs"],
  ["memory_snapshot", "Fork, memory in snapshots"],
  ["evict", "Memory to storage"],
  ["encrypt", "Encryption"],
  ["replicate", "Replicas"],
];
const COLUMNS = ["Isolation", "Engine", ...ABILITIES.map(([, name]) => name)];

/** The section; the first engine is the default. */
export function Engines(props: { engines: readonly Engine[] }) {
  return (
    <section aria-labelledby="host-engines">
      <h2 id="host-engines">Engines</h2>
      <Table label="Engines" columns={COLUMNS} rows={props.engines}>
        {(engine) => (
          <tr>
            <td>{engine.isolation}{engine === props.engines[0] ? " (default)" : ""}</td>
            <td>{engine.engine}</td>
            <For each={ABILITIES}>{([name]) => <td classList={{ dim: !engine.abilities[name] }}>{engine.abilities[name] ? "yes" : "no"}</td>}</For>
          </tr>
        )}
      </Table>
    </section>
  );
}
