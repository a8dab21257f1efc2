// Size of a computer: processors, memory, disk and bandwidth.

import { HotdeskError } from "@hotdesk/client";
import { createResource, createSignal } from "solid-js";
import { answerOf, api, type Computer, type Schemas } from "../../../api/service";
import { confirm, Field, Loaded, Select } from "../../../ui";
import { Part, SaveForm } from "./part";

/** Sizes that computers have (docs/lifecycle.md, "Resize"). */
const VCPUS = [0.5, 1, 2, 4, 8, 16] as const;
const RAM_GB = [4, 8, 16, 32, 64] as const;

const DIMENSIONS: Record<string, string> = {
  vcpus: "Processors", mem_mb: "Memory", disk_gb: "Disk", bandwidth_mbps: "Bandwidth",
};

/** Returns a number of processors in words. */
function inVcpus(count: number): string {
  return `${count} ${count <= 1 ? "vCPU" : "vCPUs"}`;
}

/** Resizes the computer. */
export function Size(props: { computer: Computer }) {
  const [ceilings, { refetch }] = createResource(
    () => ({ id: props.computer.id, status: props.computer.status, ram: props.computer.ram, disk: props.computer.disk_size_gb }),
    ({ id }) => answerOf(api.GET("/computers/{id}/resize", { params: { path: { id } } })),
  );
  return (
    <Part title="Size">
      <Loaded of={ceilings} what="the possible sizes" retry={() => void refetch()}>
        {(ceilings) => <Form computer={props.computer} ceilings={ceilings()} />}
      </Loaded>
    </Part>
  );
}

function Form(props: { computer: Computer; ceilings: Schemas["ResizeCeilings"] }) {
  const [cpu, setCpu] = createSignal<string>();
  const [ram, setRam] = createSignal<string>();
  const [disk, setDisk] = createSignal<string>();
  const [bandwidth, setBandwidth] = createSignal("");
  const isFixed = () => !props.ceilings.resizable;
  const choices = (sizes: readonly number[], most: number, current: number, words: (size: number) => string) =>
    [...new Set([...sizes.filter((size) => size <= most), current])].sort((a, b) => a - b)
      .map((size) => ({ value: String(size), label: words(size) }));
  /** What differs from the present size. */
  const wanted = () => ({
    ...(cpu() !== undefined && Number(cpu()) !== props.computer.cpu && { vcpus: Number(cpu()) }),
    ...(ram() !== undefined && Number(ram()) !== props.computer.ram && { mem_gb: Number(ram()) }),
    ...(disk() !== undefined && Number(disk()) !== props.computer.disk_size_gb && { disk_size_gb: Number(disk()) }),
    ...(Number(bandwidth()) > 0 && { bandwidth_limit_mbps: Number(bandwidth()) }),
  });
  const restarts = () => "mem_gb" in wanted() && !props.ceilings.mem_gb_live;

  const save = async (): Promise<string | undefined> => {
    const body = wanted();
    const question = {
      title: "Restart the computer?",
      text: "Its memory cannot change while it runs. Programs end, and what they did not save is lost.",
      action: "Resize and restart",
    };
    if (restarts() && !(await confirm(question))) return undefined;
    const params = { path: { id: props.computer.id } };
    const done = await answerOf(api.POST("/computers/{id}/resize", { params, body })).catch((error: unknown) => {
      throw explained(error);
    });
    const failed = failures(done.results);
    if (failed !== "") throw new Error(`Only a part was changed. ${failed}`);
    for (const reset of [setCpu, setRam, setDisk]) reset(undefined);
    setBandwidth("");
    const size = `${inVcpus(done.vcpus)}, ${done.mem_gb} GB of memory, ${done.disk_size_gb} GB of disk`;
    return `The computer has ${size}${done.restarted ? ". It was restarted for that" : ""}`;
  };
  return (
    <SaveForm action="Resize" doing="Resizing…" failed="The computer was not resized" save={save}
      disabled={isFixed() || Object.keys(wanted()).length === 0}>
      <p class="dim">
        {isFixed()
          ? `It cannot be resized now: ${props.ceilings.reason ?? "it has to run"}.`
          : "Sizes up to what your plan and this host have."}
      </p>
      <div class="computer-settings-fields">
        <Select label="Processors" value={cpu() ?? String(props.computer.cpu)} onChange={setCpu} disabled={isFixed()}
          hint="Changes while it runs." options={choices(VCPUS, props.ceilings.max_cpu, props.computer.cpu, inVcpus)} />
        <Select label="Memory" value={ram() ?? String(props.computer.ram)} onChange={setRam} disabled={isFixed()}
          hint={props.ceilings.mem_gb_live ? "Changes while it runs." : "The computer restarts for it."}
          options={choices(RAM_GB, props.ceilings.max_ram_gb, props.computer.ram, (size) => `${size} GB`)} />
        <Field label="Disk, GB" type="number" min={props.computer.disk_size_gb} max={props.ceilings.max_disk_gb} step={1} required
          disabled={isFixed()} hint={`Up to ${props.ceilings.max_disk_gb} GB. It only grows, and some engines restart for it.`}
          value={disk() ?? String(props.computer.disk_size_gb)} onInput={(event) => setDisk(event.currentTarget.value)} />
        <Field label="Bandwidth limit, Mbit/s" type="number" min={1} max={props.ceilings.bandwidth_limit_mbps ?? undefined} step={1}
          disabled={isFixed()} hint="Empty leaves it as it is." value={bandwidth()}
          onInput={(event) => setBandwidth(event.currentTarget.value)} />
      </div>
    </SaveForm>
  );
}

/** What failed, in sentences; empty when nothing did. */
function failures(results: readonly Schemas["ResizeResult"][] | null | undefined): string {
  return (results ?? []).filter((it) => !it.ok)
    .map((it) => `${DIMENSIONS[it.dimension] ?? it.dimension}: ${it.error ?? "it was not changed"}`).join(". ");
}

/** A refusal of every dimension says why for each. */
function explained(error: unknown): unknown {
  if (!(error instanceof HotdeskError)) return error;
  const results = error.body["results"];
  const text = Array.isArray(results) ? failures(results as Schemas["ResizeResult"][]) : "";
  return text === "" ? error : new Error(text);
}
