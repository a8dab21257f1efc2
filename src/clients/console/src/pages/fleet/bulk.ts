// One operation on many computers: a few requests at a time, progress in words, failures by name.

import { limited } from "../../api/fetched";
import type { Computer } from "../../api/service";
import { can, request, UNDO } from "../computer/lifecycle/operations";
import { notify } from "../../ui";

/** Requests at the same time, of all operations of the page: more would keep other pages waiting. */
const MOST = 4;
/** Names in a notice: a longer list could not be read. */
const MOST_NAMES = 5;

const inTurn = limited(MOST);

/** Operations on several computers. */
export type Bulk = "start" | "stop" | "suspend" | "resume" | "delete";

/** What is being done, and what was done. */
export const BULK: Record<Bulk, { doing: string; done: string; label: string }> = {
  start: { doing: "Starting", done: "started", label: "Start" },
  stop: { doing: "Stopping", done: "stopped", label: "Stop" },
  suspend: { doing: "Suspending", done: "suspended", label: "Suspend" },
  resume: { doing: "Resuming", done: "resumed", label: "Resume" },
  delete: { doing: "Deleting", done: "deleted", label: "Delete" },
};

/** Returns those computers whose state allows an operation. */
export function fit(computers: readonly Computer[], operation: Bulk): Computer[] {
  return computers.filter((computer) => can(computer, operation));
}

/**
 * Does an operation on computers, and tells `progress` how many are done. At the end a notice says what was done, offers to undo
 * a stop or a suspension, and another one names what failed and why.
 */
export async function perform(computers: readonly Computer[], operation: Bulk, progress: (words: string | undefined) => void): Promise<void> {
  // The records may be others when the answers come.
  const all = computers.map(({ id, name }) => ({ id, name }));
  const failures: string[] = [];
  const done: typeof all = [];
  const tell = () => progress(`${BULK[operation].doing} ${done.length + failures.length} of ${all.length}…`);
  tell();
  await Promise.all(all.map((computer) => inTurn(async () => {
    try {
      await request(computer.id, operation);
      done.push(computer);
    } catch (error) {
      failures.push(`${computer.name}: ${error instanceof Error ? error.message : String(error)}`);
    }
    tell();
  })));
  progress(undefined);
  if (done.length > 0) {
    const undo = UNDO[operation];
    const ids = new Set(done.map(({ id }) => id));
    notify({
      text: `${count(done.length)} ${BULK[operation].done}.`,
      tone: "good",
      ...(undo && {
        action: { label: undo.label, run: () => void perform(computers.filter(({ id }) => ids.has(id)), undo.by, progress) },
      }),
    });
  }
  if (failures.length > 0) {
    const named = failures.slice(0, MOST_NAMES).join("; ");
    const more = failures.length > MOST_NAMES ? `; and ${failures.length - MOST_NAMES} more` : "";
    notify({ text: `${count(failures.length)} not ${BULK[operation].done}: ${named}${more}`, tone: "bad" });
  }
}

/** Returns a number of computers in words. */
export function count(computers: number): string {
  return computers === 1 ? "1 computer" : `${computers} computers`;
}
