// Use of the host: meters of its resources, and what computers may take of them.

import { Show } from "solid-js";
import type { Schemas } from "../../api/service";
import { inBytes } from "../../ui/values";

/** Part of a resource above which its meter warns. */
const HIGH = 0.9;

/** Returns a number of vCPUs, which may be a sum of fractions. */
const inTenths = (value: number) => String(Math.round(value * 10) / 10);

/** The section. */
export function Capacity(props: { report: Schemas["HostReport"] }) {
  const has = () => props.report.resources;
  const use = () => props.report.capacity;
  return (
    <section aria-labelledby="host-capacity">
      <h2 id="host-capacity">Capacity</h2>
      <div class="host-meters">
        <Meter label="Memory in use" used={has().memory_bytes - has().memory_available_bytes} most={has().memory_bytes} text={inBytes}
          note={`Computers that run may take ${inBytes(use().memory_promised_bytes)}.`} />
        <Meter label="Disk in use" used={has().disk_bytes - has().disk_free_bytes} most={has().disk_bytes} text={inBytes}
          note={`All computers may store ${inBytes(use().disk_promised_bytes)}.`} />
        <Meter label="vCPUs of running computers" used={use().cpu_promised} most={has().cores} text={inTenths}
          note="More vCPUs than processors share them." />
        <div class="card">
          <strong>Computers</strong>
          <div>{use().running} of {use().computers} run</div>
          <div class="dim">
            {use().pool_ready} of {use().pool} machines of the pool are ready. {use().boot_snapshots} boot snapshots are kept.
          </div>
          <Show when={use().frozen > 0}>
            <div class="bad">{use().frozen} are frozen, because the disk is nearly full. <a href="/docs/operating#full-disk">What to do</a></div>
          </Show>
        </div>
      </div>
    </section>
  );
}

function Meter(props: { label: string; used: number; most: number; text: (value: number) => string; note: string }) {
  const text = () => `${props.text(props.used)} of ${props.text(props.most)}`;
  return (
    <div class="card">
      <strong>{props.label}</strong>
      <meter min="0" max={Math.max(props.most, 1)} high={props.most * HIGH} optimum="0" value={props.used} aria-label={`${props.label}: ${text()}`} />
      <div>{text()}</div>
      <div class="dim">{props.note}</div>
    </div>
  );
}
