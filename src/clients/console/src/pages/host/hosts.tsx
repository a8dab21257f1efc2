// Hosts of a cluster: state, capacity and computers of each; drains, moves, and the confirmation that one is gone.

import { useSearchParams } from "@solidjs/router";
import { createMemo, createSignal, For, Match, Show, Switch } from "solid-js";
import { createFetched, every } from "../../api/fetched";
import { computers } from "../../api/live";
import { createRows } from "../../api/rows";
import { answerOf, api, type Computer, type Schemas } from "../../api/service";
import { attempt, Button, confirm, Failure, Menu, notify, StatusBadge, Table } from "../../ui";
import { inBytes } from "../../ui/values";
import { pageVisible } from "../../ui/visible";
import { MB, Move } from "../computer/lifecycle/move";
import { count } from "../fleet/bulk";

type Host = Schemas["Host"];

/** Milliseconds between two lists: a host that dies is seen soon. */
const PAUSE = 10_000;
/** Computers of a host that are listed: each is a row of the page. */
const MOST_LISTED = 200;
const COLUMNS = ["Host", "State", "Computers", "vCPUs", "Memory", "Disk", "Guest image", "Operations"];
/** How serious a state is, as for checks. */
const TONES: Record<string, string> = { online: "ok", draining: "warning", drained: "warning", offline: "failed", gone: "failed" };

const computersOf = (host: Host) => `${count(host.computers)}, ${host.running} run`;
/** A size of 0 is unknown. */
const free = (left: number, all: number) => (all === 0 ? "unknown" : `${inBytes(left * MB)} of ${inBytes(all * MB)} free`);

/** The section; nothing where there is one host or none, as with the embedded engines. */
export function Hosts() {
  const [query] = useSearchParams<{ host: string }>();
  const list = createFetched(() => "hosts", (_, signal) => answerOf(api.GET("/operator/hosts", { signal })));
  every(PAUSE, pageVisible, () => void list.refetch());
  const hosts = createRows(() => list.value()?.hosts, "name");
  const chosen = createMemo(() => hosts().find(({ name }) => name === query.host));

  const act = async (what: string, done: string, work: () => Promise<unknown>) => {
    const isDone = await attempt(what, async () => {
      await work();
      return true;
    });
    if (isDone) notify({ text: done, tone: "good" });
    await list.refetch();
  };
  const drain = async ({ name }: Host) => {
    const agreed = await confirm({
      title: `Drain ${name}?`,
      text: "Its computers move to other hosts: those that run continue there with their memory, or boot when their isolation keeps none. "
        + "It takes no new ones until it is restored.",
      action: "Drain it",
    });
    if (!agreed) return;
    const params = { path: { name } };
    await act(`${name} is not drained`, `${name} is being drained.`, () => answerOf(api.POST("/operator/hosts/{name}/drain", { params })));
  };
  const restore = ({ name }: Host) => {
    const params = { path: { name } };
    return act(`${name} was not restored`, `${name} takes computers again.`, () =>
      answerOf(api.POST("/operator/hosts/{name}/restore", { params })));
  };
  const declareGone = async ({ name }: Host) => {
    const agreed = await confirm({
      title: `Is ${name} gone for good?`,
      text: "Confirm it only for a machine that is switched off or destroyed. Computers with a replica can then start on another host: "
        + "on a machine that still works they would run twice. The others wait for their host.",
      action: "It is gone",
      typed: name,
    });
    if (!agreed) return;
    const params = { path: { name } };
    await act(`${name} does not count as gone`, `${name} counts as gone.`, () =>
      answerOf(api.POST("/operator/hosts/{name}/gone", { params, body: { confirm: name } })));
  };

  return (
    <>
      <Show when={list.failure()}>
        {(error) => <Failure what="Could not load the hosts" error={error()} retry={() => void list.refetch()} />}
      </Show>
      <Show when={hosts().length > 1}>
        <section aria-labelledby="host-hosts">
          <h2 id="host-hosts">Hosts</h2>
          <Table label="Hosts" columns={COLUMNS} rows={hosts()}>
            {(host) => (
              <tr>
                <td>{host.name}<Show when={host.message}>{(text) => <><br /><small>{text()}</small></>}</Show></td>
                <td><span class="host-state" data-state={TONES[host.status]}>{host.status}</span></td>
                <td>
                  <a href={`/console/host?host=${encodeURIComponent(host.name)}`} aria-current={host === chosen() ? "true" : undefined}
                    aria-label={`${host.name}: ${computersOf(host)}`}>
                    {computersOf(host)}
                  </a>
                </td>
                <td>{host.cpus || "unknown"}</td>
                <td>{free(host.memory_free_mb, host.memory_mb)}</td>
                <td>{free(host.disk_free_mb, host.disk_mb)}</td>
                <td>{host.image_present ? "ready" : "missing"}</td>
                <td>
                  <div class="bar host-operations">
                    <Switch>
                      <Match when={host.status === "online"}><Button onClick={() => void drain(host)}>Drain…</Button></Match>
                      <Match when={host.status === "draining" || host.status === "drained"}>
                        <Button onClick={() => void restore(host)}>Restore</Button>
                      </Match>
                    </Switch>
                    {/* A drain shows also while the host does not answer. */}
                    <Show when={host.status !== "online" && host.status !== "gone"}>
                      <Menu label={`More about ${host.name}`} items={[
                        { label: "Confirm that it is gone…", danger: true, onSelect: () => void declareGone(host) },
                      ]} />
                    </Show>
                  </div>
                </td>
              </tr>
            )}
          </Table>
          <Show when={chosen()}>
            {(host) => <Computers host={host()} hosts={hosts()} onMoved={() => void list.refetch()} />}
          </Show>
        </section>
      </Show>
    </>
  );
}

/** Computers of a host that the operator reaches. */
function Computers(props: { host: Host; hosts: readonly Host[]; onMoved: () => void }) {
  const [moved, setMoved] = createSignal<Computer>();
  const here = createMemo(() => Object.values(computers)
    .filter(({ host }) => host === props.host.name)
    .sort((one, other) => one.name.localeCompare(other.name)));
  const unreached = () => props.host.computers - here().length;
  return (
    <>
      <h3>Computers on {props.host.name}</h3>
      <Show when={here().length > 0}>
        <div class="scroll">
          <table aria-label={`Computers on ${props.host.name}`}>
            <thead><tr><th>Name</th><th>Status</th><th>Workspace</th><th>Operations</th></tr></thead>
            <tbody>
              <For each={here().slice(0, MOST_LISTED)}>
                {(computer) => (
                  <tr>
                    <td><a href={`/console/computers/${computer.id}`}>{computer.name}</a></td>
                    <td><StatusBadge status={computer.status} /></td>
                    <td>{computer.project_name}</td>
                    <td><Button aria-label={`Move ${computer.name}…`} onClick={() => setMoved(computer)}>Move…</Button></td>
                  </tr>
                )}
              </For>
            </tbody>
          </table>
        </div>
      </Show>
      <Show when={here().length > MOST_LISTED}><p class="dim">The first {MOST_LISTED} of {count(here().length)} are listed.</p></Show>
      <Show when={unreached() > 0} fallback={<Show when={here().length === 0}><p>It has no computers.</p></Show>}>
        <p class="dim">Not shown here: {count(unreached())} in workspaces that you do not reach. A drain moves them as well.</p>
      </Show>
      <Move computer={moved()} hosts={props.hosts} onClose={() => setMoved(undefined)} onDone={props.onMoved} />
    </>
  );
}
