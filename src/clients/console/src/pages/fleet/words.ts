// Words for the state of a computer, where it has no picture.

import type { Computer } from "../../api/service";
import { PROGRESS } from "../computer/lifecycle/operations";

/** Why the service changed the state of a computer by itself. */
const REASONS: Record<string, string> = {
  auto_stop: "Nobody used it, so it went to sleep by itself.",
  trial_ended: "The trial of its account has ended.",
  host_unreachable: "Its host does not answer.",
  host_gone: "The operator has confirmed that its host is gone.",
  host_disk_full: "It wrote much while the disk of the host was nearly full. Free space there.",
};

/** Returns why the service stopped, suspended or froze a computer, in a sentence; undefined when it did not. */
export function reasonOf(computer: Pick<Computer, "status_reason">): string | undefined {
  const reason = computer.status_reason;
  return reason ? (REASONS[reason] ?? reason) : undefined;
}

/** Words for a state, and the time to show after them. */
export interface StateWords {
  /** A sentence; with `since` its beginning, such as "Suspended". */
  text: string;
  /** When the record changed last, ISO 8601, for states that last. */
  since?: string;
  /** Why, or what to do. */
  more?: string | undefined;
}

/** Returns what is shown instead of a picture; undefined for a computer that runs and answers. */
export function insteadOfPicture(computer: Computer): StateWords | undefined {
  const since = computer.updated_at;
  switch (computer.status) {
    case "running":
      if (computer.status_reason === "host_unreachable") {
        return { text: "Its host does not answer.", more: computer.status_message ?? undefined };
      }
      if (computer.agent_unresponsive_since) {
        return { text: "It stopped answering", since: computer.agent_unresponsive_since, more: "Restart it." };
      }
      if (computer.status_reason === "host_unreachable") return { text: "Its host does not answer.", more: "It may still run." };
      return computer.status_reason === "host_disk_full" ? { text: "It is frozen.", more: reasonOf(computer) } : undefined;
    case "suspended":
      return { text: "Suspended", since, more: reasonOf(computer) ?? "It continues where it was." };
    case "stopped":
      return { text: "Stopped", since, more: computer.status_message ?? reasonOf(computer) ?? "It boots from its disk." };
    case "error":
      return { text: "It failed", since, more: `${reasonOf(computer) ?? "Its disk is kept."} Start it again, or read its events.` };
    default:
      return { text: PROGRESS[computer.status] ?? computer.status };
  }
}
