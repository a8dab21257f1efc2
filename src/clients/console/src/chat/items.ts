// Contents of a thread in their order: messages, and each step with what the model thought before it.

import type { Schemas } from "../api/service";
import type { Step } from "./words";

/** One thing that a person reads. */
export type Item =
  | { kind: "message"; key: string; at: string; role: "user" | "assistant"; text: string; thinking: string }
  | { kind: "step"; key: string; at: string; step: Step; thinking: string }
  /** A call that was not executed: it waits for approval, or its run ended before. */
  | { kind: "call"; key: string; at: string; call: Schemas["ThreadToolCall"]; thinking: string };

/** A line of an export (docs/api/threads.md, "Export"), as far as it is read here. The OpenAPI document has no type for it. */
type Line =
  | { type: "thread" }
  | { type: "message"; number: number; created_at: string; role: "user" | "assistant"; content: Part[] }
  | ({ type: "step" } & Step);

type Part =
  | { type: "text" | "thinking"; text: string }
  | ({ type: "tool_call" } & Schemas["ThreadToolCall"])
  | { type: "redacted_thinking" | "tool_result" | "image" };

/** Reads an export. Throws for what is none. */
export function parseExport(text: string): { items: Item[]; lastStep: number } {
  const lines = text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as Line);
  const steps = new Map<string, Step>();
  let lastStep = 0;
  for (const line of lines) {
    if (line.type !== "step") continue;
    steps.set(line.call.id, line);
    lastStep = Math.max(lastStep, line.number);
  }
  const items: Item[] = [];
  for (const line of lines) {
    if (line.type === "message") items.push(...itemsOf(line, steps));
  }
  // What is left has no message any more, because a client replaced the messages.
  for (const step of steps.values()) {
    const place = items.findIndex((item) => item.at > step.created_at);
    items.splice(place < 0 ? items.length : place, 0, ...stepItems(step));
  }
  return { items, lastStep };
}

/** Returns the items of a message, and takes its steps out of `steps`. */
function itemsOf(message: Extract<Line, { type: "message" }>, steps: Map<string, Step>): Item[] {
  const { role, created_at: at } = message;
  const key = `message ${message.number}`;
  let thinking = joined(message.content, "thinking");
  const text = joined(message.content, "text");
  const items: Item[] = [];
  if (text !== "") {
    items.push({ kind: "message", key, at, role, text, thinking });
    thinking = "";
  }
  for (const part of message.content) {
    if (part.type !== "tool_call") continue;
    const step = steps.get(part.id);
    steps.delete(part.id);
    if (step) items.push({ kind: "step", key: `step ${step.number}`, at: step.created_at, step, thinking });
    else items.push({ kind: "call", key: `${key} ${part.id}`, at, call: part, thinking });
    thinking = "";
  }
  if (thinking !== "") items.push({ kind: "message", key, at, role, text: "", thinking });
  return items;
}

/** Returns the items of a step that came alone: what the model said before it, and the step. */
export function stepItems(step: Step): Item[] {
  const at = step.created_at;
  const item: Item = { kind: "step", key: `step ${step.number}`, at, step, thinking: "" };
  if (!step.text) return [item];
  return [{ kind: "message", key: `text ${step.number}`, at, role: "assistant", text: step.text, thinking: "" }, item];
}

/** Returns what of a streamed text no step has said yet. The texts of the steps come in their order. */
export function unsaid(streamed: string, said: readonly string[]): string {
  let rest = streamed;
  for (const text of said) {
    const begin = rest.indexOf(text);
    if (begin >= 0) rest = rest.slice(begin + text.length);
  }
  return rest.trimStart();
}

function joined(content: readonly Part[], type: "text" | "thinking"): string {
  const texts: string[] = [];
  for (const part of content) {
    if ((part.type === "text" || part.type === "thinking") && part.type === type && part.text !== "") texts.push(part.text);
  }
  return texts.join("\n");
}
