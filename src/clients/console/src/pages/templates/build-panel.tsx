// Build of a template: its state, its phases, its log while it is written, and what can be done about it.

import { useNavigate } from "@solidjs/router";
import { createEffect, createMemo, createSignal, For, onCleanup, onMount, Show } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { attempt, Button, confirm, notify } from "../../ui";
import { createBuild, type Phase } from "./build";
import { TemplateStatus } from "./parts";
import type { Reference } from "./reference";

/** Milliseconds between two updates of the time of a phase that goes on. */
const TICK = 1000;
/** Pixels from the end of the log within which it follows new lines. */
const NEAR_END = 40;

const WORDS: Record<string, string> = {
  publish: "Wait for a turn",
  compile: "Read the definition",
  boot: "Boot",
  install: "Run the steps",
  snapshot: "Keep the layer",
  check: "Check the services",
  record: "Store the layers",
  ready: "Ready",
  cancel: "Cancelled",
  timeout: "Took too long",
};

/** Returns a duration in words, such as "1 min 5 s". */
function inWords(milliseconds: number): string {
  const seconds = Math.max(0, milliseconds / 1000);
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  return seconds < 60 ? `${Math.round(seconds)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

/** The panel. It is for one template: another reference needs another one. */
export function BuildPanel(props: {
  reference: Reference;
  /** Status that the template's record has. */
  status: string;
  /** Whether this person may build it and read its log. */
  mayBuild: boolean;
  /** Called when the status is no longer that of the record. */
  onChange: () => void;
}) {
  const navigate = useNavigate();
  const path = () => ({ ...props.reference });
  const ended = (status: string) => { if (status !== props.status) props.onChange(); };
  const build = createBuild(props.reference, () => props.mayBuild, ended);
  const [busy, setBusy] = createSignal("");
  const [now, setNow] = createSignal(Date.now());
  const status = () => build.record()?.status ?? props.status;
  const isBuilding = () => status() === "building";
  onMount(() => void build.follow());

  createEffect(() => {
    if (!isBuilding()) return;
    const timer = setInterval(() => setNow(Date.now()), TICK);
    onCleanup(() => clearInterval(timer));
  });

  const doing = async <T,>(what: string, failed: string, work: () => Promise<T>): Promise<T | undefined> => {
    setBusy(what);
    const done = await attempt(failed, work);
    setBusy("");
    return done;
  };
  const begin = async () => {
    const params = { path: path() };
    const begun = await doing("build", "The build did not begin", () =>
      answerOf(api.POST("/templates/{namespace}/{name}/{version}/build", { params })));
    if (!begun) return;
    if (begun.reused) notify({ text: "It is built already", tone: "good" });
    const following = build.follow(begun);
    props.onChange();
    await following;
  };
  const cancel = async () => {
    const question = {
      title: "Cancel the build?",
      text: "What the build has done so far is removed.",
      action: "Cancel the build",
    };
    if (!(await confirm(question))) return;
    const params = { path: path() };
    await doing("cancel", "The build was not cancelled", () =>
      answerOf(api.DELETE("/templates/{namespace}/{name}/{version}/build", { params })));
  };
  const debug = async () => {
    const params = { path: path() };
    const made: Schemas["TemplateDebug"] | undefined = await doing("debug", "The failed build was not opened", () =>
      answerOf(api.POST("/templates/{namespace}/{name}/{version}/debug", { params })));
    if (!made) return;
    const left = made.steps.map((step) => step.field).join(", ");
    notify({ text: `${made.name} has what the finished steps wrote. Left: ${left || "nothing"}. It is deleted after an hour.` });
    navigate(`/console/computers/${made.id}/terminal`);
  };

  return (
    <section class="card stack" aria-label="Build">
      <div class="bar templates-build-bar">
        <h2>Build</h2>
        <span role="status"><TemplateStatus status={status()} /></span>
        <Show when={build.record()?.build_time_ms}>{(time) => <span class="dim">took {inWords(time())}</span>}</Show>
        <span class="grow" />
        <Show when={props.mayBuild}>
          <Show when={isBuilding()} fallback={
            <>
              <Show when={status() === "failed"}>
                <Button busy={busy() === "debug"} onClick={() => void debug()}>
                  {busy() === "debug" ? "Opening…" : "Open the failed build"}
                </Button>
              </Show>
              <Show when={status() !== "ready"}>
                <Button look="primary" busy={busy() === "build"} onClick={() => void begin()}>
                  {busy() === "build" ? "Beginning…" : status() === "failed" ? "Build again" : "Build"}
                </Button>
              </Show>
            </>
          }>
            <Button busy={busy() === "cancel"} onClick={() => void cancel()}>
              {busy() === "cancel" ? "Cancelling…" : "Cancel the build"}
            </Button>
          </Show>
        </Show>
      </div>
      <Show when={!props.mayBuild && status() !== "ready"}>
        <p class="dim">Only the operator of this service builds its templates.</p>
      </Show>
      <Show when={build.failure()}>
        {(text) => (
          <p class="bad" role="alert">
            The build cannot be followed: {text()} <Button onClick={() => void build.follow()}>Follow again</Button>
          </p>
        )}
      </Show>
      <Show when={build.record()?.error}>
        {(text) => <pre class="templates-error" tabindex="0" aria-label="Why the build failed">{text()}</pre>}
      </Show>
      <Show when={build.phases().length > 0}>
        <Phases phases={build.phases()} isBuilding={isBuilding()} now={now()} />
      </Show>
      <Show when={build.lines().length > 0}>
        <Log build={build} />
      </Show>
    </section>
  );
}

function Phases(props: { phases: readonly Phase[]; isBuilding: boolean; now: number }) {
  const last = createMemo(() => props.phases.at(-1));
  const time = (phase: Phase) => {
    if (phase.ended !== undefined) return inWords(phase.ended - phase.began);
    return props.isBuilding && phase === last() ? inWords(Math.max(props.now, phase.began) - phase.began) : "";
  };
  return (
    <ol class="templates-phases" aria-label="Phases">
      <For each={props.phases}>
        {(phase) => (
          <li aria-current={props.isBuilding && phase === last() ? "step" : undefined}>
            {WORDS[phase.name] ?? phase.name} <span class="dim">{time(phase)}</span>
          </li>
        )}
      </For>
    </ol>
  );
}

function Log(props: { build: ReturnType<typeof createBuild> }) {
  let place!: HTMLDivElement;
  let isAtEnd = true;
  createEffect(() => {
    props.build.lines();
    // The lines are on the page after this effect's batch.
    queueMicrotask(() => { if (isAtEnd) place.scrollTop = place.scrollHeight; });
  });
  const note = () => { isAtEnd = place.scrollHeight - place.scrollTop - place.clientHeight < NEAR_END; };
  return (
    <div class="templates-log mono" role="log" aria-live="off" aria-label="Build log" tabindex="0" ref={place} onScroll={note}>
      <Show when={props.build.left() > 0}><div class="dim">{props.build.left()} earlier lines are not shown</div></Show>
      <For each={props.build.lines()}>
        {(line) => (
          <div data-level={line.level}>
            <Show when={line.source}>{(source) => <span class="dim">{source()} </span>}</Show>{line.line}
          </div>
        )}
      </For>
    </div>
  );
}
