// Secrets of a computer: those that are written to its file of variables.

import { A } from "@solidjs/router";
import { createResource, createSignal, For, Show } from "solid-js";
import { answerOf, api, type Computer } from "../../../api/service";
import { Loaded, valueOf } from "../../../ui";
import { Part, SaveForm } from "./part";

/** Names of the secrets that the computer may get: those of its workspace, and the account's. */
async function load(workspace_id: string): Promise<string[]> {
  const [account, workspace] = await Promise.all([
    answerOf(api.GET("/secrets")),
    answerOf(api.GET("/secrets", { params: { query: { workspace_id } } })),
  ]);
  return [...new Set([...account.secrets, ...workspace.secrets].map((secret) => secret.name))].sort();
}

/** Writes secrets into the computer. */
export function Secrets(props: { computer: Computer }) {
  const [names, { refetch }] = createResource(() => props.computer.workspace_id, load);
  const [left, setLeft] = createSignal<ReadonlySet<string>>(new Set());
  const chosen = () => (valueOf(names) ?? []).filter((name) => !left().has(name));
  const turn = (name: string) => setLeft((all) => new Set(all.has(name) ? [...all].filter((it) => it !== name) : [...all, name]));
  const save = async () => {
    const params = { path: { id: props.computer.id } };
    const done = await answerOf(api.POST("/computers/{id}/secrets/sync", { params, body: { names: chosen() } }));
    return `${done.path} has ${done.names.length === 0 ? "no secrets" : done.names.join(", ")}`;
  };
  return (
    <Part title="Environment and secrets">
      <p class="dim">
        Secrets become shell variables in <code>/root/.env</code>, which is in memory and takes the place of an earlier one. Programs read
        it by <code>. /root/.env</code>; a boot removes it.
      </p>
      <Loaded of={names} what="the names of the secrets" retry={() => void refetch()}>
        {(names) => (
          <Show when={names().length > 0} fallback={<p>There is no secret yet. <A href="/console/settings/secrets">Add one</A></p>}>
            <SaveForm action="Write to the computer" doing="Writing…" failed="The secrets were not written" save={save}>
              <fieldset class="computer-settings-choices">
                <legend>Secrets</legend>
                <For each={names()}>
                  {(name) => (
                    <label>
                      <input type="checkbox" checked={!left().has(name)} onChange={() => turn(name)} /> <code>{name}</code>
                    </label>
                  )}
                </For>
              </fieldset>
            </SaveForm>
          </Show>
        )}
      </Loaded>
    </Part>
  );
}
