// Timeline of a recording: what was done, at which second of the video.

import type { Action } from "../activity/words";
import { actionInWords } from "../activity/words";

/** An action of a recording (docs/api/screens.md, "Recordings"). */
export type Mark = Action & {
  /** Number of the action in the recording, from 1. */
  number: number;
  /** Start in seconds from the start of the video. */
  at: number;
};

/** Several marks that are too near to each other for buttons of their own. */
export interface Group {
  /** Start of the first one in seconds. */
  at: number;
  /** What a person reads. */
  label: string;
}

/** Groups on the track at most: more could not be hit by a finger. */
const GROUPS = 40;
/** Seconds for which the caption of an action is shown. */
const CAPTION = 3;

/** Reads the lines of a timeline. Lines that are no actions are counted, not shown: the computer wrote them. */
export function parseMarks(text: string): { marks: Mark[]; unreadable: number } {
  const marks: Mark[] = [];
  let unreadable = 0;
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const mark = parse(line);
    if (mark) marks.push(mark);
    else unreadable += 1;
  }
  return { marks: marks.sort((one, other) => one.at - other.at), unreadable };
}

function parse(line: string): Mark | undefined {
  try {
    const value = JSON.parse(line) as (Partial<Mark> & { before?: string; after?: string }) | null;
    // Its pictures are not shown, and a recording has many.
    delete value?.before;
    delete value?.after;
    const isMark = typeof value?.at === "number" && typeof value.number === "number" && typeof value.action === "string";
    return isMark ? (value as Mark) : undefined;
  } catch (error) {
    // The last line of a recording that was interrupted may be half of one.
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Returns the marks as buttons of a track of `length` seconds. */
export function groups(marks: readonly Mark[], length: number): Group[] {
  const width = length / GROUPS;
  const found: { at: number; last: Mark; count: number; place: number }[] = [];
  for (const mark of marks) {
    const place = Math.min(GROUPS - 1, Math.floor(mark.at / width));
    const open = found.at(-1);
    if (open?.place === place) open.count += 1;
    else found.push({ at: mark.at, last: mark, count: 1, place });
  }
  return found.map(({ at, last, count }) => ({
    at,
    label: `${clock(at)} ${count === 1 ? actionInWords(last) : `${count} actions`}`,
  }));
}

/** Returns the captions as a WebVTT file (W3C WebVTT section 4). */
export function captions(marks: readonly Mark[]): string {
  const cues = marks.map((mark, at) => {
    const next = marks[at + 1]?.at ?? Infinity;
    const end = Math.max(mark.at + 0.1, Math.min(mark.at + CAPTION, next));
    const text = actionInWords(mark).replace(/[&<>]/g, (letter) => ESCAPES[letter] ?? "").replace(/\s+/g, " ");
    return `${stamp(mark.at)} --> ${stamp(end)}\n${text}\n`;
  });
  return ["WEBVTT\n", ...cues].join("\n");
}

const ESCAPES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };

/** Returns seconds as a time of WebVTT, `hh:mm:ss.ttt`. */
function stamp(seconds: number): string {
  const all = Math.max(0, Math.round(seconds * 1000));
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  return `${two(all / 3_600_000)}:${two((all / 60_000) % 60)}:${two((all / 1000) % 60)}.${String(all % 1000).padStart(3, "0")}`;
}

/** Returns seconds as a person reads them, such as "1:05". */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const rest = String(whole % 60).padStart(2, "0");
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}
