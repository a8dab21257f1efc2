// Names of those who act on a screen.

import { api, answerOf, type Schemas } from "../../../api/service";

/** Somebody who acts, with a name where the service tells it. */
export type Actor = Schemas["ScreenActor"] & { name?: string | null };

/** What an actor without a name is called, by its kind. */
const UNNAMED: Record<string, string> = {
  key: "A program with an API key",
  person: "Another person",
  connection: "An MCP client",
  thread: "A run of a model",
  password: "Somebody with the computer's password",
  template: "A trigger of the template",
};

/** Kinds that are programs: a person calls them agents. */
const AGENTS = ["key", "connection", "thread"];

/** Returns what an actor is called, such as "claude" or "An MCP client". */
export function called(actor: Actor | null | undefined): string {
  if (!actor) return "Somebody";
  return actor.name || (UNNAMED[actor.kind] ?? "Somebody");
}

/** Returns a sentence about the holder of a screen, such as "Agent claude is working". */
export function holds(actor: Actor): string {
  const isAgent = AGENTS.includes(actor.kind);
  if (isAgent) return actor.name ? `Agent ${actor.name} is working` : `${called(actor)} is working`;
  return `${called(actor)} is in control`;
}

/** Finds the name of an actor; undefined when nobody tells it, for example because it belongs to another account. */
export async function nameOf(computer: string, actor: Actor): Promise<string | undefined> {
  if (!actor.id) return undefined;
  if (actor.kind === "key") {
    const { keys } = await answerOf(api.GET("/keys", { params: { query: {} } }));
    const found = keys.find((key) => key.id === actor.id);
    if (found) return found.name;
  }
  const query = { by: `${actor.kind}:${actor.id}`, limit: 1 };
  const { entries } = await answerOf(api.GET("/computers/{id}/timeline", { params: { path: { id: computer }, query } }));
  return entries[0]?.by?.name ?? undefined;
}
