// Services and hooks of the computer's template.

import { useSearchParams } from "@solidjs/router";
import { createSignal, For, Show } from "solid-js";
import { createFetched, every } from "../../../api/fetched";
import { createRows } from "../../../api/rows";
import { answerOf, api, watching, type Schemas } from "../../../api/service";
import { attempt, Button, Since, Table } from "../../../ui";
import { FetchState } from "../../../ui/loaded";
import { pageVisible } from "../../../ui/visible";
import { plain } from "./follow";
import { Growing } from "./output";

/** Milliseconds between two looks at the services, and at a log. */
const PAUSE = 3000;
/** Words of an action while it is done. */
const DOING = { start: "Starting…", stop: "Stopping…", restart: "Restarting…" } as const;
type Action = keyof typeof DOING;

/** The services; a sentence when the computer's template has none. */
export function Services(props: { computer: string }) {
  const [query, setQuery] = useSearchParams<{ service: string }>();
  const [busy, setBusy] = createSignal<{ service: string; action: Action }>();
  const list = createFetched(() => props.computer, (id, signal) =>
    answerOf(watching.GET("/computers/{id}/services", { params: { path: { id } }, signal })));
  every(PAUSE, () => pageVisible() && !busy(), () => void list.refetch());
  const act = async (service: string, action: Action) => {
    setBusy({ service, action });
    const params = { path: { id: props.computer, service } };
    await attempt(`${service} did not follow`, () =>
      answerOf(api.POST("/computers/{id}/services/{service}", { params, body: { action } })));
    setBusy(undefined);
    await list.refetch();
  };
  const rows = createRows(() => list.value()?.services, "name");
  const chosen = () => rows().find((service) => service.name === query.service);
  const action = (service: Schemas["ServiceStatus"], action: Action, label: string) => (
    <Button aria-label={`${label} ${service.name}`} busy={busy()?.service === service.name} onClick={() => void act(service.name, action)}>
      {busy()?.service === service.name && busy()?.action === action ? DOING[action] : label}
    </Button>
  );
  return (
    <section aria-labelledby="processes-services">
      <h2 id="processes-services">Services</h2>
      <FetchState of={list} what="the services" />
      <Show when={list.value()}>
        {(answer) => (
          <>
            <Show when={rows().length > 0} fallback={<p class="dim">The computer's template has none.</p>}>
              <Table label="Services" columns={["Service", "State", "Since", "Actions"]} rows={rows()}>
                {(service) => (
                  <tr>
                    <td><strong>{service.name}</strong></td>
                    <td><span class="status" data-status={service.status}>{stateOf(service)}</span></td>
                    <td><Since time={new Date(Date.now() - service.since_seconds * 1000).toISOString()} /></td>
                    <td class="processes-actions">
                      <Show when={service.status === "running"} fallback={action(service, "start", "Start")}>
                        {action(service, "restart", "Restart")}
                        {action(service, "stop", "Stop")}
                      </Show>
                      <Button aria-label={`Log of ${service.name}`} aria-pressed={query.service === service.name}
                        onClick={() => setQuery({ service: query.service === service.name ? undefined : service.name })}>Log</Button>
                    </td>
                  </tr>
                )}
              </Table>
            </Show>
            <Show when={answer().hooks.length > 0}>
              <p>
                Hooks since the boot:{" "}
                <For each={answer().hooks}>
                  {(hook, at) => <>{at() > 0 ? ", " : ""}<code>{hook.name}</code> {hook.status.replaceAll("_", " ")}</>}
                </For>
              </p>
            </Show>
          </>
        )}
      </Show>
      <Show when={chosen()}>
        {(service) => <Log computer={props.computer} service={service().name} onClose={() => setQuery({ service: undefined })} />}
      </Show>
    </section>
  );
}

function Log(props: { computer: string; service: string; onClose: () => void }) {
  const log = createFetched(() => ({ id: props.computer, service: props.service }), async ({ id, service }, signal) => {
    const params = { path: { id, service } };
    const answer = await answerOf(watching.GET("/computers/{id}/services/{service}/log", { params, signal }));
    // The text alone is the answer to `follow`.
    return typeof answer === "string" ? { text: answer, truncated: false } : answer;
  });
  every(PAUSE, pageVisible, () => void log.refetch());
  const note = () => {
    const failure = log.failure();
    if (failure) return `The log cannot be read now: ${failure instanceof Error ? failure.message : String(failure)}. It is tried again.`;
    if (log.value()?.text === "") return "Nothing was written yet.";
    return log.value()?.truncated ? "This is the end of the log; the whole of it is a file in the computer." : undefined;
  };
  return <Growing title={`Log of ${props.service}`} text={plain(log.value()?.text ?? "")} note={note()} onClose={props.onClose} />;
}

function stateOf(service: Schemas["ServiceStatus"]): string {
  if (service.status === "running") return "running";
  if (typeof service.signal === "number") return `stopped by signal ${service.signal}`;
  return typeof service.exit_code === "number" ? `stopped with code ${service.exit_code}` : "stopped";
}
