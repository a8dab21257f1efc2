// Operations on a computer's life: when each is possible, and what it tells the person.

import { answerOf, api, type Computer, type Schemas } from "../../../api/service";
import { attempt, notify } from "../../../ui";

type Status = Schemas["ComputerStatusName"];

/** An operation that leads to another state. */
export type Operation = "start" | "stop" | "suspend" | "resume" | "restart";

/** States from which an operation leads on (docs/lifecycle.md, "Transitions"). */
const FROM: Record<Operation | "clone" | "fork" | "delete", readonly Status[]> = {
  start: ["stopped", "error"],
  stop: ["running", "suspended", "error"],
  suspend: ["running"],
  resume: ["suspended"],
  restart: ["running", "suspended", "error"],
  clone: ["running", "stopped"],
  fork: ["running"],
  delete: ["starting", "running", "stopping", "stopped", "restarting", "suspending", "suspended", "error"],
};

/** What happens in states that do not last. */
export const PROGRESS: Partial<Record<Status, string>> = {
  creating: "The computer is being made…",
  starting: "It starts: its screen is here in a moment…",
  suspending: "Its memory is being saved…",
  stopping: "Its programs are being ended…",
  restarting: "It restarts: its screen is back in a moment…",
  deleting: "It is being deleted with its disk…",
};

/** What is shown while an operation is asked for. */
export const DOING: Record<Operation, string> = {
  start: "Starting…",
  stop: "Stopping…",
  suspend: "Suspending…",
  resume: "Resuming…",
  restart: "Restarting…",
};

/** Whether the state of a computer allows an operation. */
export function can(computer: Computer, operation: keyof typeof FROM): boolean {
  if (!FROM[operation].includes(computer.status)) return false;
  // The kernel of the host keeps no memory of its programs.
  return !(operation === "suspend" || operation === "fork") || keepsMemory(computer);
}

/** Whether the memory of a computer can be saved and copied. */
export function keepsMemory(computer: Computer): boolean {
  return computer.isolation !== "shared";
}

/** Asks the service for an operation. Throws when it refuses. */
export function request(id: string, operation: Operation | "delete"): Promise<unknown> {
  const params = { path: { id } };
  switch (operation) {
    case "start": return answerOf(api.POST("/computers/{id}/start", { params }));
    case "stop": return answerOf(api.POST("/computers/{id}/stop", { params }));
    case "suspend": return answerOf(api.POST("/computers/{id}/suspend", { params }));
    case "resume": return answerOf(api.POST("/computers/{id}/resume", { params }));
    case "restart": return answerOf(api.POST("/computers/{id}/restart", { params }));
    case "delete": return answerOf(api.DELETE("/computers/{id}", { params }));
  }
}

/** Operations that can be undone: what was done, and what undoes it. */
export const UNDO: Partial<Record<Operation | "delete", { words: string; label: string; by: "start" | "resume" }>> = {
  stop: { words: "stops", label: "Start again", by: "start" },
  suspend: { words: "is suspended", label: "Resume", by: "resume" },
};

const REFUSED: Record<Operation, string> = {
  start: "did not start",
  stop: "did not stop",
  suspend: "was not suspended",
  resume: "did not resume",
  restart: "did not restart",
};

/** Does an operation, and says what became of it. Resolves when the service has answered; the record shows the rest. */
export async function perform({ id, name }: Pick<Computer, "id" | "name">, operation: Operation): Promise<void> {
  const done = await attempt(`${name} ${REFUSED[operation]}`, () => request(id, operation));
  const undo = UNDO[operation];
  if (done && undo) {
    notify({ text: `${name} ${undo.words}.`, action: { label: undo.label, run: () => void perform({ id, name }, undo.by) } });
  }
}
