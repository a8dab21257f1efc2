// Workspaces by name or id.

import { answerOf, init, type Api, type Call } from "../calls.js";

/** Id of a workspace. */
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Options of methods that concern a workspace. */
export interface InWorkspace extends Call {
  /** Name or id of the workspace; the account when absent. */
  workspace?: string | undefined;
}

/** Returns the id of a workspace by its name or id; undefined without one. Throws a `NotFoundError` for an unknown name. */
export async function workspaceId(api: Api, options: InWorkspace): Promise<string | undefined> {
  const { workspace, signal } = options;
  if (workspace === undefined || UUID.test(workspace)) return workspace;
  const params = { path: { name: workspace } };
  return (await answerOf(api.GET("/workspaces/by-name/{name}", { params, ...init({ signal }) }))).id;
}
