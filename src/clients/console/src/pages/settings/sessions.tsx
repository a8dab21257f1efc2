// Browsers that are signed in to the account.

import { createResource, Show } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { leaveForSignIn } from "../../api/session";
import { attempt, Button, confirm, Empty, Loaded, notify, Since, Table, valueOf } from "../../ui";
import { createSteps } from "./parts";

/** The tab. */
export default function Tab() {
  const [sessions, { refetch }] = createResource(async () => (await answerOf(api.GET("/user/sessions"))).sessions);
  const { shown, More } = createSteps(() => valueOf(sessions) ?? []);

  const end = async (session: Schemas["BrowserSession"]) => {
    const isSure = await confirm({
      title: `Sign out ${session.browser ?? "this browser"}?`,
      text: "What it has open ends within a second. If it is the browser that you use now, you must sign in again.",
      action: "Sign out",
    });
    if (!isSure) return;
    await attempt("The browser was not signed out", async () => {
      await answerOf(api.DELETE("/user/sessions/{session_id}", { params: { path: { session_id: session.id } } }));
      notify({ text: `${session.browser ?? "The browser"} is signed out`, tone: "good" });
      await refetch();
    });
  };
  const endAll = async () => {
    const isSure = await confirm({
      title: "Sign all browsers out?",
      text: "This one, too: you must sign in again. API keys and what programs do go on.",
      action: "Sign all out",
    });
    if (!isSure) return;
    const done = await attempt("The browsers were not signed out", () => answerOf(api.DELETE("/user/sessions", {})));
    if (done) leaveForSignIn();
  };
  return (
    <div class="settings-tab">
      <section aria-labelledby="sessions-name">
        <div class="bar">
          <h2 id="sessions-name">Browser sessions</h2><span class="grow" />
          <Button look="danger" onClick={() => void endAll()}>Sign all out</Button>
        </div>
        <p class="dim">A session ends 14 days after its sign-in. Sign out what you do not know, and change your password.</p>
        <Loaded of={sessions} what="the sessions" retry={() => void refetch()}>
          {(sessions) => (
            <Show when={sessions().length > 0} fallback={<Empty title="No browser is signed in"><p>You use the console by other means.</p></Empty>}>
              <Table columns={["Browser", "Address", "Signed in", "Last used", "Ends", "Actions"]} rows={shown()}>
                {(session) => (
                  <tr>
                    <td title={session.user_agent ?? undefined}>{session.browser ?? "unknown"}{session.by_link ? " (by a sign-in link)" : ""}</td>
                    <td>{session.address ?? "unknown"}</td>
                    <td><Since time={session.created_at} /></td>
                    <td><Show when={session.last_used_at} fallback="not since">{(time) => <Since time={time()} />}</Show></td>
                    <td><Since time={session.expires_at} /></td>
                    <td>
                      <Button look="danger" aria-label={`Sign out ${session.browser ?? "the browser"} of ${session.address ?? "an unknown address"}`}
                        onClick={() => void end(session)}>Sign out</Button>
                    </td>
                  </tr>
                )}
              </Table>
            </Show>
          )}
        </Loaded>
        <More />
      </section>
    </div>
  );
}
