// Capacity and plan: what the account may have, what it uses, and which computers use it.

import { createMemo, createResource, createSignal, Show } from "solid-js";
import { computers } from "../../api/live";
import { answerOf, api, type Schemas } from "../../api/service";
import { person } from "../../api/session";
import { attempt, Button, confirm, Field, Loaded, notify, Since, Table, valueOf } from "../../ui";
import { createChoice, createSteps, createWorkspaces, WorkspaceSelect } from "./parts";

/** The tab. */
export default function Tab() {
  const [capacity, { mutate, refetch }] = createResource(() => answerOf(api.GET("/account/capacity")));
  const [plan, { refetch: readPlan }] = createResource(() => answerOf(api.GET("/user/subscription")));
  return (
    <div class="settings-tab">
      <section aria-labelledby="capacity-name">
        <h2 id="capacity-name">Capacity of your account</h2>
        <Loaded of={capacity} what="the capacity" retry={() => void refetch()}>
          {(capacity) => (
            <>
              <div class="settings-meters">
                <Meter label="Computers" used={capacity().computers_used} most={capacity().max_computers} unit="" />
                <Meter label="RAM" used={capacity().account_ram_used_gb} most={capacity().account_ram_gb} unit="GB" />
                <Meter label="Disk, with snapshots" used={capacity().account_disk_used_gb} most={capacity().account_disk_gb} unit="GB" />
              </div>
              <Change capacity={capacity()} onChanged={(changed) => mutate(changed)} />
            </>
          )}
        </Loaded>
      </section>
      <Largest />
      <section aria-labelledby="plan-name">
        <h2 id="plan-name">Plan</h2>
        <Loaded of={plan} what="the plan" retry={() => void readPlan()}>{(plan) => <Plan plan={plan()} />}</Loaded>
      </section>
      <Limits />
    </div>
  );
}

function Meter(props: { label: string; used: number; most: number; unit: string }) {
  const text = () => `${props.used} of ${props.most} ${props.unit}`.trim();
  return (
    <div class="card">
      <strong>{props.label}</strong>
      <meter min="0" max={Math.max(props.most, 1)} high={props.most * 0.9} optimum="0" value={props.used} aria-label={`${props.label}: ${text()}`} />
      <div class="dim">{text()}</div>
    </div>
  );
}

function Change(props: { capacity: Schemas["AccountCapacity"]; onChanged: (capacity: Schemas["AccountCapacity"]) => void }) {
  const [count, setCount] = createSignal("1");
  const number = () => (/^[1-9]\d{0,5}$/.test(count()) ? Number(count()) : undefined);
  const change = async (isAdded: boolean) => {
    const wanted = number();
    if (wanted === undefined) return;
    const body = isAdded ? { add: wanted } : { give_back: wanted };
    await attempt("The capacity was not changed", async () => {
      const after = await answerOf(api.POST("/account/capacity", { body: { ...body, dry_run: true } }));
      const isSure = await confirm({
        title: isAdded ? `Add ${wanted} to the computers of your plan?` : `Give ${wanted} computers back?`,
        text: `Your account may then have ${after.max_computers} computers, ${after.account_ram_gb} GB of RAM and ${after.account_disk_gb} GB of disk.`,
        action: isAdded ? "Add computers" : "Give back",
      });
      if (!isSure) return;
      props.onChanged(await answerOf(api.POST("/account/capacity", { body })));
      notify({ text: "The capacity is changed", tone: "good" });
    });
  };
  return (
    <>
      <p>
        Your plan "{props.capacity.plan}" includes {props.capacity.included_computers} computers. You added {props.capacity.added_computers} of
        at most {props.capacity.max_added_computers}.
      </p>
      <Show when={props.capacity.max_added_computers > 0} fallback={<p class="dim">The plan allows no added computers. Who operates the service can give you another plan.</p>}>
        <div class="bar">
          <Field label="Computers" type="number" min="1" step="1" value={count()} onInput={(event) => setCount(event.currentTarget.value)}
            error={number() === undefined ? "A whole number, at least 1" : undefined} />
          <Button disabled={number() === undefined} onClick={() => void change(true)}>Add…</Button>
          <Button disabled={number() === undefined || props.capacity.added_computers === 0} onClick={() => void change(false)}>Give back…</Button>
        </div>
      </Show>
    </>
  );
}

/** Which computers of the account use its capacity, the largest first. */
function Largest() {
  const [me] = createResource(person);
  const own = createMemo(() => {
    const id = valueOf(me)?.id;
    return Object.values(computers).filter((it) => it.user_id === id).sort((a, b) => b.ram - a.ram || b.disk_size_gb - a.disk_size_gb);
  });
  const { shown, More } = createSteps(own);
  const most = (field: "ram" | "disk_size_gb") => Math.max(1, ...own().map((it) => it[field]));
  return (
    <section aria-labelledby="largest-name">
      <h2 id="largest-name">Use by computer</h2>
      <Show when={own().length > 0} fallback={<p class="dim">You have no computers.</p>}>
        <Table columns={["Computer", "Status", "RAM", "Disk"]} rows={shown()}>
          {(it) => (
            <tr>
              <td><a href={`/console/computers/${it.id}/settings`}>{it.name}</a></td>
              <td>{it.status}</td>
              <td><meter min="0" max={most("ram")} value={it.ram} aria-label={`RAM of ${it.name}: ${it.ram} GB`} /> {it.ram} GB</td>
              <td><meter min="0" max={most("disk_size_gb")} value={it.disk_size_gb} aria-label={`Disk of ${it.name}: ${it.disk_size_gb} GB`} /> {it.disk_size_gb} GB</td>
            </tr>
          )}
        </Table>
        <More />
      </Show>
    </section>
  );
}

function Plan(props: { plan: Schemas["Subscription"] }) {
  return (
    <dl class="settings-figures">
      <dt>Name</dt><dd>{props.plan.tier}</dd>
      <dt>Payment</dt><dd classList={{ bad: props.plan.payment === "lapsed" }}>{props.plan.payment}</dd>
      <Show when={props.plan.trialEndsAt}>{(time) => <><dt>Trial ends</dt><dd><Since time={time()} /></dd></>}</Show>
      <Show when={props.plan.planLimits}>
        {(limits) => (
          <>
            <dt>Computers</dt><dd>{limits().maxDesktops}</dd>
            <dt>RAM of all computers</dt><dd>{limits().maxRamPerUser} GB</dd>
            <dt>One computer</dt><dd>{limits().maxCpu} vCPUs, {limits().maxRam} GB of RAM, {limits().maxDiskSizeGb} GB of disk</dd>
            <dt>Bandwidth of one computer</dt><dd>{limits().maxBandwidthMbps === 0 ? "no limit" : `${limits().maxBandwidthMbps} Mbit/s`}</dd>
            <dt>Snapshots of one computer</dt><dd>{limits().maxSnapshots}</dd>
          </>
        )}
      </Show>
    </dl>
  );
}

/** What may still be created in a workspace, which may be somebody else's. */
function Limits() {
  const [workspaces, { refetch }] = createWorkspaces();
  return (
    <section aria-labelledby="limits-name">
      <h2 id="limits-name">Limits of a workspace</h2>
      <Loaded of={workspaces} what="the workspaces" retry={() => void refetch()}>
        {(workspaces) => {
          const choice = createChoice(workspaces, false);
          return (
            <Show when={workspaces().length > 0} fallback={<p class="dim">You have no workspace.</p>}>
              <WorkspaceSelect label="Workspace" workspaces={workspaces()} value={choice.id()} onChange={choice.choose} />
              <Show when={choice.id()} keyed>{(id) => <LimitsOf workspace={id} />}</Show>
            </Show>
          );
        }}
      </Loaded>
    </section>
  );
}

function LimitsOf(props: { workspace: string }) {
  const [limits, { refetch }] = createResource(() =>
    answerOf(api.GET("/billing/compute-limits", { params: { query: { workspace_id: props.workspace } } })));
  return (
    <Loaded of={limits} what="the limits" retry={() => void refetch()}>
      {(limits) => (
        <div class="settings-meters">
          <Meter label="Computers of its owner" used={limits().computers_used} most={limits().max_computers} unit="" />
          <Meter label="RAM of its owner" used={limits().account_ram_used_gb} most={limits().account_ram_budget_gb} unit="GB" />
          <div class="card"><strong>Most RAM of one computer</strong><div>{limits().max_ram_gb} GB</div></div>
        </div>
      )}
    </Loaded>
  );
}
