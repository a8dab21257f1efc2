// Python sessions of the computer.

import { Show } from "solid-js";
import { createFetched, every } from "../../../api/fetched";
import { createRows } from "../../../api/rows";
import { answerOf, api, watching, type Schemas } from "../../../api/service";
import { attempt, Button, confirm, Since, Table } from "../../../ui";
import { FetchState } from "../../../ui/loaded";
import { pageVisible } from "../../../ui/visible";

/** Milliseconds between two looks at the sessions. */
const PAUSE = 5000;

/** The sessions, which agents make. */
export function Sessions(props: { computer: string }) {
  const list = createFetched(() => props.computer, async (id, signal) =>
    (await answerOf(watching.GET("/computers/{id}/sessions", { params: { path: { id } }, signal }))).sessions);
  every(PAUSE, pageVisible, () => void list.refetch());
  const rows = createRows(list.value, "name");
  const end = async (session: Schemas["PythonSession"]) => {
    const isWanted = await confirm({
      title: `End the session ${session.name}?`,
      text: "Its variables are lost, and everything that it started is ended.",
      action: "End it",
    });
    if (!isWanted) return;
    const params = { path: { id: props.computer, session_name: session.name } };
    await attempt("The session was not ended", () =>
      answerOf(api.DELETE("/computers/{id}/sessions/{session_name}", { params })));
    await list.refetch();
  };
  return (
    <section aria-labelledby="processes-sessions">
      <h2 id="processes-sessions">Python sessions</h2>
      <FetchState of={list} what="the sessions" />
      <Show when={list.value()}>
        <Show when={rows().length > 0} fallback={<p class="dim">None. An agent starts one by naming it in <code>exec</code>.</p>}>
          <Table label="Python sessions" columns={["Session", "State", "Calls", "Used", "Actions"]} rows={rows()}>
            {(session) => (
              <tr>
                <td><strong>{session.name}</strong></td>
                <td>{session.busy ? "works" : "waits for a call"}</td>
                <td>{session.calls}</td>
                <td><Since time={session.used_at} /></td>
                <td><Button look="danger" aria-label={`End the session ${session.name}`} onClick={() => void end(session)}>End</Button></td>
              </tr>
            )}
          </Table>
        </Show>
      </Show>
    </section>
  );
}
