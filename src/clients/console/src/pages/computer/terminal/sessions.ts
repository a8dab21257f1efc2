// Terminals of this page. They stay while a person looks at another tab or computer, because a shell ends with its socket.

import { createSignal } from "solid-js";
import { Session } from "./session";

/** Most terminals of one computer: the service has 16 for all its clients together. */
const MOST = 8;
/** Most terminals of all computers in this page: each keeps its scrollback of up to 12 MB. */
const MOST_IN_ALL = 24;

const [sessions, setSessions] = createSignal<readonly Session[]>([]);

/** Terminals of a computer, in the order in which they were opened. Read it in an effect or in JSX. */
export function sessionsOf(computer: string): readonly Session[] {
  return sessions().filter((session) => session.computer === computer);
}

/**
 * Opens a terminal. `first` is typed into its shell. Throws when too many are open, or the emulator cannot be loaded. It
 * connects when it is shown.
 */
export async function openSession(computer: string, first = ""): Promise<Session> {
  const { FitAddon, Xterm } = await import("./xterm");
  const mine = sessionsOf(computer);
  if (mine.length >= MOST) throw new Error(`${MOST} terminals of this computer are open. Close one first`);
  if (sessions().length >= MOST_IN_ALL) {
    throw new Error(`${MOST_IN_ALL} terminals are open in this page. Close some at other computers first`);
  }
  const key = Math.max(0, ...mine.map((session) => session.key)) + 1;
  const session = new Session(new Xterm(), new FitAddon(), computer, key, first);
  setSessions((all) => [...all, session]);
  return session;
}

/** Closes a terminal with what runs in it. */
export function closeSession(session: Session): void {
  session.close();
  setSessions((all) => all.filter((other) => other !== session));
}
