// Background processes: start, signal, end, output.

import { useSearchParams } from "@solidjs/router";
import Play from "lucide-solid/icons/play";
import { createSignal, Show } from "solid-js";
import { createFetched, every } from "../../../api/fetched";
import { createRows } from "../../../api/rows";
import { answerOf, api, watching, type Schemas } from "../../../api/service";
import { attempt, Button, Bytes, confirm, Menu, notify, Since, Table } from "../../../ui";
import { FetchState } from "../../../ui/loaded";
import { pageVisible } from "../../../ui/visible";
import { Output } from "./output";
import { Start } from "./start";

/** Record of a background process. */
type Process = Schemas["Process"];

/** Milliseconds between two looks at the processes. */
const PAUSE = 3000;
/** Signals that a person may send, with what programs usually do. */
const SIGNALS = [
  ["TERM", "Ask it to end (TERM)"],
  ["INT", "Interrupt it, as Ctrl+C (INT)"],
  ["HUP", "Hang up, often: read the settings again (HUP)"],
  ["STOP", "Pause it (STOP)"],
  ["CONT", "Continue it (CONT)"],
  ["KILL", "Kill it (KILL)"],
] as const;

/** The background processes of a computer. */
export function Background(props: { computer: string }) {
  const [query, setQuery] = useSearchParams<{ process: string }>();
  const [isStarting, setStarting] = createSignal(false);
  const list = createFetched(() => props.computer, async (id, signal) =>
    (await answerOf(watching.GET("/computers/{id}/processes", { params: { path: { id } }, signal }))).processes.toReversed());
  every(PAUSE, pageVisible, () => void list.refetch());
  const rows = createRows(list.value, "id");
  const chosen = () => rows().find((process) => process.id === query.process);

  const signal = async (process: Process, name: string) => {
    const params = { path: { id: props.computer, process_id: process.id } };
    const sent = await attempt("The signal was not sent", () =>
      answerOf(api.POST("/computers/{id}/processes/{process_id}/signal", { params, body: { signal: name } })));
    if (sent) notify({ text: `${name} went to ${sent.processes === 1 ? "one process" : `${sent.processes} processes`}`, tone: "good" });
    await list.refetch();
  };
  const end = async (process: Process) => {
    if (process.tree_running) {
      const isWanted = await confirm({
        title: `End ${titleOf(process)}?`,
        text: "It is killed with everything that it started, and its output is removed.",
        action: "End it",
      });
      if (!isWanted) return;
    }
    const params = { path: { id: props.computer, process_id: process.id } };
    await attempt("The process was not ended", () =>
      answerOf(api.DELETE("/computers/{id}/processes/{process_id}", { params })));
    if (query.process === process.id) setQuery({ process: undefined });
    await list.refetch();
  };
  const started = async (process: Process) => {
    await list.refetch();
    setQuery({ process: process.id });
  };

  return (
    <section aria-labelledby="processes-background">
      <div class="bar">
        <h2 id="processes-background">Background processes</h2>
        <span class="grow" />
        <Button onClick={() => setStarting(true)}><Play size={16} aria-hidden="true" />Start a process</Button>
      </div>
      <FetchState of={list} what="the processes" />
      <Show when={list.value()}>
        <Show when={rows().length > 0} fallback={
          <p class="dim">None. What you or an agent start here goes on when its client leaves.</p>
        }>
          <Table label="Background processes" columns={["Process", "State", "Started", "Output", "Actions"]} rows={rows()}>
            {(process) => (
              <tr>
                <td class="processes-command"><Show when={process.name}><strong>{process.name}</strong> </Show><code>{process.command}</code></td>
                <td><span class="status" data-status={process.status}>{stateOf(process)}</span></td>
                <td><Since time={process.started_at} /></td>
                <td><Bytes value={process.output_bytes} /></td>
                <td class="processes-actions">
                  <Button aria-pressed={query.process === process.id} aria-label={`Output of ${titleOf(process)}`}
                    onClick={() => setQuery({ process: query.process === process.id ? undefined : process.id })}>Output</Button>
                  <Button look="danger" aria-label={`${process.tree_running ? "End" : "Remove"} ${titleOf(process)}`} onClick={() => void end(process)}>
                    {process.tree_running ? "End" : "Remove"}
                  </Button>
                  <Menu label={`Signals to ${titleOf(process)}`} items={SIGNALS.map(([name, label]) => ({
                    label,
                    disabled: !process.tree_running,
                    danger: name === "KILL",
                    onSelect: () => void signal(process, name),
                  }))} />
                </td>
              </tr>
            )}
          </Table>
        </Show>
      </Show>
      <Show when={chosen()}>
        {(process) => (
          <Output computer={props.computer} process={process().id} title={titleOf(process())} onClose={() => setQuery({ process: undefined })} />
        )}
      </Show>
      <Show when={isStarting()}>
        <Start computer={props.computer} onClose={() => setStarting(false)} onDone={(process) => void started(process)} />
      </Show>
    </section>
  );
}

/** Most characters of a title. */
const MOST_TITLE = 60;

function titleOf(process: Process): string {
  return process.name || process.command.slice(0, MOST_TITLE);
}

function stateOf(process: Process): string {
  if (process.status === "running") return "running";
  const how = process.signal ? `killed by ${process.signal}` : `exited with ${process.exit_code ?? "no code"}`;
  return process.tree_running ? `${how}, what it started runs` : how;
}
