// Secrets that computers use and nobody reads back (docs/api/secrets.md).

import { answerOf, init, type Api, type Schemas } from "../calls.js";
import { workspaceId, type InWorkspace } from "./workspaces.js";

/**
 * Secrets of a workspace or of the account. `{{secret:NAME}}` in the text of `Computer.type` types a value, and
 * `Computer.syncSecrets` gives values to programs.
 */
export class Secrets {
  readonly #api: Api;

  constructor(api: Api) {
    this.#api = api;
  }

  /** Stores a secret; one that has the name gets the new value. The name has capital letters, digits and `_`. */
  async set(name: string, value: string, options: InWorkspace = {}): Promise<Schemas["Secret"]> {
    const body = { value, workspace_id: await workspaceId(this.#api, options) };
    return answerOf(this.#api.PUT("/secrets/{name}", { params: { path: { name } }, body, ...init(options) }));
  }

  /** Returns the records of the secrets, by name. They have no values. */
  async list(options: InWorkspace = {}): Promise<Schemas["Secret"][]> {
    const params = { query: { workspace_id: await workspaceId(this.#api, options) } };
    return (await answerOf(this.#api.GET("/secrets", { params, ...init(options) }))).secrets;
  }

  /** Deletes a secret. */
  async delete(name: string, options: InWorkspace = {}): Promise<void> {
    const params = { path: { name }, query: { workspace_id: await workspaceId(this.#api, options) } };
    await answerOf(this.#api.DELETE("/secrets/{name}", { params, ...init(options) }));
  }
}
