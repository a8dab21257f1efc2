// Actions on screens in words: who did what, and with what effect.

import type { Schemas } from "../../../api/service";

/** An entry of a timeline. */
export type Entry = Schemas["ScreenTimelineEntry"];
/** What an entry says of its action; recordings have it, too. */
export type Action = Omit<Entry, "id" | "at" | "by" | "before" | "after" | "lost_before" | "snapshot_id">;

/** Kinds of actors, for the filter. */
export const ACTOR_KINDS = [
  { value: "key", label: "API keys" },
  { value: "person", label: "People" },
  { value: "thread", label: "Models" },
  { value: "connection", label: "MCP clients" },
  { value: "password", label: "Holders of the password" },
  { value: "template", label: "The template" },
] as const;

/** Returns who acted. */
export function actorInWords(by: Entry["by"]): string {
  switch (by?.kind) {
    case "key":
      return by.name ? `API key ${by.name}` : "An API key";
    case "person":
      return by.name ?? "A person";
    case "connection":
      return by.name ? `MCP client ${by.name}` : "An MCP client";
    case "thread":
      return by.name ? `The model of “${by.name}”` : "A model";
    case "password":
      return "A holder of the computer's password";
    case "template":
      return "The template";
    default:
      return "Somebody";
  }
}

/** Returns the filter that finds an actor, as in the query of the timeline; undefined when nobody was named. */
export function actorFilter(by: Entry["by"]): string | undefined {
  if (!by) return undefined;
  return by.id ? `${by.kind}:${by.id}` : by.kind;
}

/** Returns what was done, such as "clicked at 10, 20". */
export function actionInWords(action: Action): string {
  const at = place(action.x, action.y);
  const button = action.button && action.button !== "left" ? ` with the ${action.button} button` : "";
  switch (action.action) {
    case "click":
      return `${clicks(action.count)}${button}${at}`;
    case "double_click":
      return `double-clicked${button}${at}`;
    case "triple_click":
      return `triple-clicked${button}${at}`;
    case "move":
      return `moved the pointer${at.replace(" at ", " to ")}`;
    case "mouse_down":
      return `pressed the ${action.button ?? "left"} button${at}`;
    case "mouse_up":
      return `released the ${action.button ?? "left"} button${at}`;
    case "drag":
      return `dragged${button}${at.replace(" at ", " from ")}${place(action.end_x, action.end_y).replace(" at ", " to ")}`;
    case "scroll":
      return `scrolled ${action.direction ?? ""}${steps(action.amount)}${at}`;
    case "type": {
      if (typeof action.characters !== "number") return "typed a text that is confidential";
      const others = action.keys?.length ? ` and pressed ${keys(action.keys)}` : "";
      return `typed ${counted(action.characters, "character")}${others}`;
    }
    case "key":
    case "key_press":
      return `pressed ${keys(action.keys)}`;
    case "key_down":
      return `held down ${keys(action.keys)}`;
    case "key_up":
      return `released ${keys(action.keys)}`;
    case "element_click":
      return "clicked an element";
    case "element_set_value":
      return "set the value of an element";
    case "element_focus":
      return "moved the focus to an element";
    case "set_clipboard":
      return typeof action.characters === "number"
        ? `put ${counted(action.characters, "character")} on the clipboard`
        : "put something on the clipboard";
    case "not_recorded":
      return typeof action.inputs === "number"
        ? `pressed keys or buttons ${counted(action.inputs, "time")}, which came too fast to be recorded`
        : "uses a viewer whose further actions cannot be recorded";
    default:
      return action.action.replaceAll("_", " ");
  }
}

/** Returns what came of it, such as "in “Editor”"; empty when nothing is known. */
export function effectInWords(action: Action): string {
  const said: string[] = [];
  if (!action.success) said.push(failureInWords(action));
  if (action.window_after?.title) said.push(`in “${action.window_after.title}”`);
  if (action.no_visible_change) said.push("nothing changed on the screen");
  else if (action.changed?.length) said.push(`the screen changed in ${counted(action.changed.length, "place")}`);
  return said.join(", ");
}

function failureInWords(action: Action): string {
  switch (action.code) {
    case "control_held":
      return "refused, because somebody else controls the screen";
    case "stale_frame":
      return "refused, because the screen had changed there";
    case "unanswered":
      return "the client left before the answer";
    default: {
      const why = [action.status, action.code].filter((it) => it !== undefined && it !== null).join(" ");
      return why ? `failed (${why})` : "failed";
    }
  }
}

function place(x: number | null | undefined, y: number | null | undefined): string {
  return typeof x === "number" && typeof y === "number" ? ` at ${Math.floor(x)}, ${Math.floor(y)}` : "";
}

function clicks(count: number | null | undefined): string {
  return count === 2 ? "double-clicked" : count === 3 ? "triple-clicked" : "clicked";
}

function steps(amount: number | null | undefined): string {
  return typeof amount === "number" ? ` by ${counted(amount, "step")}` : "";
}

function keys(all: readonly string[] | null | undefined): string {
  if (!all?.length) return "a key";
  const runs: { key: string; count: number }[] = [];
  for (const key of all) {
    const last = runs.at(-1);
    if (last?.key === key) last.count += 1;
    else runs.push({ key, count: 1 });
  }
  return runs.map(({ key, count }) => {
    const name = key === "*" ? "a key that types" : key;
    return count === 1 ? name : `${name} ×${count}`;
  }).join(", ");
}

/** Returns a number with its noun, such as "3 steps". */
export function counted(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
