// Threads in words: states, calls, tokens and costs.

import type { Schemas } from "../api/service";

/** A step of a thread. */
export type Step = Schemas["ThreadStepRecord"];

/** Characters of a text of a call in its line. */
const SHOWN = 200;
/** Millionths of a cent in a dollar. */
const MICROCENTS = 100_000_000;

/** States of the last run. `status` is a colour of `.status`. */
const RUNS: Record<string, { label: string; status: string }> = {
  running: { label: "working", status: "running" },
  done: { label: "done", status: "stopped" },
  confirm: { label: "waits for your approval", status: "waiting" },
  max_steps: { label: "ended: most steps", status: "stopped" },
  max_tokens: { label: "ended: longest reply", status: "stopped" },
  max_cost: { label: "ended: highest cost", status: "stopped" },
  refused: { label: "the model refused", status: "error" },
  control_held: { label: "ended: the screen was held", status: "stopped" },
  cancelled: { label: "stopped", status: "stopped" },
  failed: { label: "failed", status: "error" },
  interrupted: { label: "interrupted", status: "error" },
};

/** Returns the state of a thread's run in words. */
export function runInWords(
  run: string | null | undefined,
  waitingFor: string | null | undefined,
): { label: string; status: string } {
  if (run === "running" && waitingFor === "help") return { label: "waits for your help", status: "waiting" };
  if (run === "running" && waitingFor === "control") return { label: "waits for the screen", status: "waiting" };
  if (!run) return { label: "not begun", status: "stopped" };
  return RUNS[run] ?? { label: run, status: "stopped" };
}

/** Returns who acts on a screen, such as "a person". */
export function holderInWords(holder: Schemas["ScreenActor"] | null | undefined): string {
  switch (holder?.kind) {
    case "key":
      return "a program with an API key";
    case "person":
      return "a person";
    case "connection":
      return "an MCP client";
    case "thread":
      return "another thread";
    case "template":
      return "the template";
    default:
      return "somebody";
  }
}

/** Returns the number of all tokens of a usage. */
export function tokens(usage: Schemas["ThreadUsage"]): number {
  return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
}

/** Returns a cost in dollars, such as "$0.0123". */
export function money(microcents: number): string {
  const dollars = microcents / MICROCENTS;
  if (dollars === 0) return "$0";
  if (dollars < 0.0001) return "under $0.0001";
  return `$${dollars.toFixed(dollars < 1 ? 4 : 2)}`;
}

/** Returns what a call does, such as "Clicks at 10, 20". */
export function callInWords(call: Schemas["ThreadToolCall"]): string {
  const { input } = call;
  if (call.name === "bash") return input["restart"] === true ? "Restarts the shell" : "Runs a command";
  if (call.name === "ask_for_help") return `Asks for help: ${shortened(input["message"])}`;
  if (call.name !== "computer") return `Calls ${call.name}`;
  const at = place(input["coordinate"]);
  switch (input["action"]) {
    case "screenshot":
      return "Looks at the screen";
    case "zoom":
      return "Looks at a part of the screen";
    case "left_click":
      return `Clicks${at}`;
    case "right_click":
    case "middle_click":
      return `Clicks with the ${String(input["action"]).replace("_click", "")} button${at}`;
    case "double_click":
      return `Double-clicks${at}`;
    case "triple_click":
      return `Triple-clicks${at}`;
    case "left_click_drag":
      return `Drags${place(input["start_coordinate"]).replace(" at ", " from ")}${at.replace(" at ", " to ")}`;
    case "left_mouse_down":
      return "Presses the mouse button";
    case "left_mouse_up":
      return "Releases the mouse button";
    case "mouse_move":
      return `Moves the pointer${at.replace(" at ", " to ")}`;
    case "cursor_position":
      return "Asks where the pointer is";
    case "scroll":
      return `Scrolls ${shortened(input["scroll_direction"])}${at}`;
    case "type":
      return `Types “${shortened(input["text"])}”`;
    case "key":
      return `Presses ${shortened(input["text"])}`;
    case "hold_key":
      return `Holds ${shortened(input["text"])}`;
    case "wait":
      return "Waits";
    default:
      return shortened(input["action"]) || "Uses the computer";
  }
}

/** Returns the effect of a step on the screen; empty when none was observed. */
export function stepEffect(effect: Step["effect"]): string {
  if (!effect) return "";
  if (effect["no_visible_change"] === true) return "nothing changed on the screen";
  const title = (effect["window_after"] as { title?: unknown } | null | undefined)?.title;
  return typeof title === "string" && title !== "" ? `in “${shortened(title)}”` : "";
}

function place(value: unknown): string {
  return Array.isArray(value) && value.length === 2 ? ` at ${Number(value[0])}, ${Number(value[1])}` : "";
}

function shortened(value: unknown): string {
  const text = typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}
