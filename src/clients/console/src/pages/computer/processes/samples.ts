// Measurements of what a computer uses, while a person looks.

import { answerOf, watching, type Schemas } from "../../../api/service";

/** Milliseconds between two measurements. */
export const PAUSE = 5000;
/** Measurements that are kept: half an hour at that pause. */
export const KEPT = 360;
/** Milliseconds between two measurements after which the line has a gap: the page was not in view. */
const GAP = 3 * PAUSE;

/** What a computer uses at a time. */
export interface Sample {
  /** Milliseconds since 1970. */
  time: number;
  /** Percent of all its processors since the sample before; undefined for the first one after a pause. */
  cpu: number | undefined;
  memory: number;
  memoryTotal: number;
  /** Bytes of the disk; undefined where the computer's agent does not tell them. */
  disk: number | undefined;
  diskTotal: number | undefined;
  /** Processor time of all programs since the boot, in milliseconds. */
  cpuTime: number | undefined;
}

/** Measures a computer (docs/api/computers.md, "Readiness"). */
export async function measure(computer: string, before: Sample | undefined): Promise<Sample> {
  const answer = await answerOf(watching.GET("/computers/{id}/readiness", { params: { path: { id: computer } } }));
  const time = Date.now();
  const cpuTime = figure(answer, "cpu_used_ms");
  const diskTotal = figure(answer, "disk_total_bytes");
  return {
    time,
    cpuTime,
    cpu: share(before, time, cpuTime, answer.cpu_count),
    memory: answer.memory_used_bytes,
    memoryTotal: answer.memory_total_bytes,
    disk: diskTotal === undefined ? undefined : figure(answer, "disk_used_bytes"),
    diskTotal,
  };
}

/** Percent of the processors that were used since the sample before. */
function share(before: Sample | undefined, time: number, cpuTime: number | undefined, cores: number): number | undefined {
  if (!before || cpuTime === undefined || before.cpuTime === undefined) return undefined;
  const passed = time - before.time;
  // Less time than before: the computer started again, or a process ended for which nobody waited.
  if (passed <= 0 || passed > GAP || cpuTime < before.cpuTime) return undefined;
  return Math.min(100, ((cpuTime - before.cpuTime) / (passed * Math.max(1, cores))) * 100);
}

/** A figure; undefined for what an earlier agent does not tell. */
function figure(
  answer: Schemas["Readiness"],
  name: "cpu_used_ms" | "disk_used_bytes" | "disk_total_bytes",
): number | undefined {
  return answer[name] || undefined;
}

/** Returns times and values for a plot, with a gap where the page was not in view. */
export function line(samples: readonly Sample[], value: (sample: Sample) => number | undefined): [number[], (number | null)[]] {
  const times: number[] = [];
  const values: (number | null)[] = [];
  let before: Sample | undefined;
  for (const sample of samples) {
    if (before && sample.time - before.time > GAP) {
      times.push((before.time + PAUSE) / 1000);
      values.push(null);
    }
    times.push(sample.time / 1000);
    values.push(value(sample) ?? null);
    before = sample;
  }
  return [times, values];
}
