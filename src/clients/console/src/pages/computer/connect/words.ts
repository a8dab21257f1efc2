// Entries of the timeline in words.

import type { Schemas } from "../../../api/service";

type Entry = Schemas["ScreenTimelineEntry"];

/** Most keys of an action that are named; people press some hundred in a row. */
const NAMED_KEYS = 8;

/** Returns what was done, such as "click at 640, 360". */
export function done(entry: Entry): string {
  const words = [entry.action.replace(/_/g, " ")];
  if (typeof entry.characters === "number") words.push(`${entry.characters} characters`);
  if (typeof entry.inputs === "number") words.push(`${entry.inputs} keys or buttons`);
  if (entry.keys && entry.keys.length > 0) {
    words.push(entry.keys.slice(0, NAMED_KEYS).join(", ") + (entry.keys.length > NAMED_KEYS ? ", …" : ""));
  }
  if (entry.direction) words.push(entry.direction);
  if (typeof entry.x === "number" && typeof entry.y === "number") words.push(`at ${Math.round(entry.x)}, ${Math.round(entry.y)}`);
  if (typeof entry.end_x === "number" && typeof entry.end_y === "number") {
    words.push(`to ${Math.round(entry.end_x)}, ${Math.round(entry.end_y)}`);
  }
  return words.join(" ");
}

/** Codes of refusals that people meet here, in words. */
const CODES: Record<string, string> = {
  control_held: "refused: somebody else held the screen",
  unanswered: "the client left before the answer",
};

/** Returns how it failed; undefined when it did not. */
export function failed(entry: Entry): string | undefined {
  if (entry.success) return undefined;
  return (entry.code && CODES[entry.code]) || `failed${entry.code ? `: ${entry.code}` : entry.status ? ` with ${entry.status}` : ""}`;
}
