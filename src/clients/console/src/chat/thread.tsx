// One thread: what was said and done, as it happens, and what a person can do about it.

import Hand from "lucide-solid/icons/hand";
import Square from "lucide-solid/icons/square";
import { createEffect, createMemo, createSignal, For, onMount, Show, type JSX } from "solid-js";
import { computers } from "../api/live";
import { answerOf, api } from "../api/service";
import { attempt, Button, Failure, LinkButton, Loading, notify, TextArea } from "../ui";
import { counted } from "../pages/computer/activity/words";
import "./chat.css";
import { Composer, type Models } from "./composer";
import { createConversation, type Conversation } from "./conversation";
import { ThreadMenu } from "./menu";
import { ItemView } from "./step";
import { holderInWords, money, runInWords, tokens } from "./words";

/** Items shown at first, the newest, and how many more each time: a thread may have thousands. */
const SHOWN = 200;
/** Pixels from the end within which the view follows what comes. */
const NEAR = 80;

interface Given {
  /** Id of the thread. The caller makes a new view for another one. */
  id: string;
  models: Models;
  /** Id of the screen on which its next run works, and its requests for help are answered; the boot screen when absent. */
  screen?: string | undefined;
  /** Whether the person may only read. */
  readOnly?: boolean | undefined;
  /** What stands in place of the link that leads to the screen. */
  takeOver?: (() => JSX.Element) | undefined;
  /** Called with the computer of the thread when it is known. */
  onComputer: (computer: string) => void;
  /** Called when something changed that lists show. */
  onChange: () => void;
  onDelete: () => void;
}

/** The thread. */
export function Thread(props: Given) {
  const thread = createConversation(props.id);
  createEffect(() => {
    const record = thread.record();
    if (record) props.onComputer(record.computer_id);
  });
  return (
    <Show when={thread.record()} fallback={
      <Show when={thread.failure() !== undefined} fallback={<Loading what="the thread" />}>
        <Failure what="The thread could not be fetched" error={thread.failure()} retry={thread.refresh} />
      </Show>
    }>
      {(record) => (
        <>
          <Head id={props.id} thread={thread} takeOver={props.takeOver} onChange={props.onChange} onDelete={props.onDelete} />
          <Items thread={thread} />
          <Show when={thread.failure() !== undefined}>
            <p class="bad" role="status">The newest changes could not be fetched: {words(thread.failure())}</p>
          </Show>
          <Waiting thread={thread} computer={record().computer_id} screen={props.screen} />
          <Show when={thread.runFailure() ?? (thread.isRunning() ? undefined : record().failure)}>
            {(why) => <RunFailure why={why()} />}
          </Show>
          <Show when={!props.readOnly}>
            <Composer models={props.models} label="Ask the model" canApprove={record().run === "confirm"}
              blocked={blocked(thread)} draft={thread.unsent()}
              onAsk={(question) => void thread.send({ ...question, screen: props.screen }).then(() => props.onChange())} />
          </Show>
        </>
      )}
    </Show>
  );
}

function blocked(thread: Conversation): string | undefined {
  if (thread.isRunning()) return "The model works. Wait until it has finished, or stop it.";
  return thread.isLoaded() ? undefined : "The thread is being fetched…";
}

function Head(props: Pick<Given, "id" | "takeOver" | "onChange" | "onDelete"> & { thread: Conversation }) {
  const [isStopping, setStopping] = createSignal(false);
  const record = () => props.thread.record();
  const state = () => {
    const run = props.thread.isRunning() ? "running" : record()?.run;
    return runInWords(run, props.thread.progress()?.waiting_for);
  };
  const stop = async () => {
    setStopping(true);
    await attempt("The run could not be stopped", async () => {
      const stopped = await answerOf(api.POST("/chat/threads/{id}/stop", { params: { path: { id: props.id } } }));
      notify({ text: stopped.stopped ? "The run was stopped" : "No run was in progress" });
    });
    props.thread.refresh();
    setStopping(false);
  };
  return (
    <header class="chat-head">
      <div class="bar chat-bar">
        <h2>{record()?.title ?? "Untitled thread"}</h2>
        <ThreadMenu id={props.id} title={record()?.title ?? ""} onChange={() => { props.thread.refresh(); props.onChange(); }}
          onDelete={props.onDelete} />
        <span class="grow" />
        <Show when={props.thread.isRunning()}>
          <Button look="danger" busy={isStopping()} onClick={stop}>
            <Square size={16} aria-hidden="true" />{isStopping() ? "Stopping…" : "Stop"}
          </Button>
        </Show>
        <Show when={props.takeOver} fallback={
          <Show when={record()?.computer_id}>
            {(computer) => (
              <LinkButton href={`/console/computers/${computer()}/screen`}>
                <Hand size={16} aria-hidden="true" />Take over the screen
              </LinkButton>
            )}
          </Show>
        }>{(takeOver) => takeOver()()}</Show>
      </div>
      <p class="chat-facts" role="status">
        <span class="status" data-status={state().status}>{state().label}</span>
        <Show when={record()}>
          {(record) => (
            <>
              <span>{computers[record().computer_id]?.name ?? "a computer"}</span>
              <span>{counted(record().step_count, "step")}</span>
              <span>{tokens(record().usage).toLocaleString("en")} tokens</span>
              <span>{money(record().cost_microcents)}</span>
            </>
          )}
        </Show>
      </p>
    </header>
  );
}

function Items(props: { thread: Conversation }) {
  const [count, setCount] = createSignal(SHOWN);
  const shown = createMemo(() => props.thread.items.slice(-count()));
  const hidden = () => props.thread.items.length - shown().length;
  let view: HTMLDivElement | undefined;
  let follows = true;
  const toEnd = () => {
    if (view && follows) view.scrollTop = view.scrollHeight;
  };
  createEffect(() => {
    // What makes the view longer.
    void [props.thread.items.length, props.thread.writing()];
    toEnd();
  });
  onMount(toEnd);
  return (
    <div class="chat-items" ref={view} tabindex="0" role="region" aria-label="Messages and steps"
      onScroll={(event) => {
        const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
        follows = scrollHeight - scrollTop - clientHeight < NEAR;
      }}>
      <Show when={props.thread.stepsFailure() !== undefined}>
        <p class="dim">Only the messages are shown; the steps could not be fetched: {words(props.thread.stepsFailure())}</p>
      </Show>
      <Show when={hidden() > 0}>
        <Button onClick={() => { follows = false; setCount((count) => count + SHOWN); }}>
          Show {Math.min(hidden(), SHOWN)} earlier
        </Button>
      </Show>
      <Show when={props.thread.isLoaded()} fallback={<Loading what="messages and steps" />}>
        <ol aria-label="Contents">
          <For each={shown()} fallback={<li class="dim">Nothing was said yet.</li>}>{(item) => <ItemView item={item} />}</For>
        </ol>
      </Show>
      <Show when={props.thread.writing()}>
        {(text) => <div class="chat-message" data-role="assistant"><small>Model, writing</small><p>{text()}</p></div>}
      </Show>
    </div>
  );
}

/** What the run waits for, with what the person can do. */
function Waiting(props: { thread: Conversation; computer: string; screen: string | undefined }) {
  const [note, setNote] = createSignal("");
  const [isSending, setSending] = createSignal(false);
  const wait = () => props.thread.progress();
  const answer = async () => {
    setSending(true);
    await attempt("The answer could not be sent", async () => {
      const params = { path: { id: props.computer, screen_id: props.screen ?? "default" } };
      const body = note().trim() === "" ? {} : { note: note().trim() };
      await answerOf(api.POST("/computers/{id}/screens/{screen_id}/control/answer", { params, body }));
      setNote("");
      notify({ text: "The model goes on", tone: "good" });
    });
    props.thread.refresh();
    setSending(false);
  };
  return (
    <>
      <Show when={wait()?.waiting_for === "control"}>
        <p class="chat-wait" role="status">
          The screen is held by {holderInWords(wait()?.holder)}. The model goes on when it is handed back.
        </p>
      </Show>
      <Show when={wait()?.waiting_for === "help"}>
        <form class="chat-wait" onSubmit={(event) => { event.preventDefault(); void answer(); }}>
          <p role="status"><strong>The model asks for help:</strong> {wait()?.message ?? "it gave no reason"}</p>
          <TextArea label="Your answer" rows={2} maxlength={2000} value={note()}
            onInput={(event) => setNote(event.currentTarget.value)} hint="Take over the screen first if something must be done there." />
          <Button type="submit" look="primary" busy={isSending()}>{isSending() ? "Sending…" : "Answer, and let it go on"}</Button>
        </form>
      </Show>
    </>
  );
}

/** Why a run failed, in the words of the API. */
function RunFailure(props: { why: unknown }) {
  const needsKey = () => (props.why as { code?: unknown } | null)?.code === "model_key_missing";
  return (
    <div class="chat-failure" role="alert">
      <p><strong>The run failed:</strong> {words(props.why)}</p>
      <Show when={needsKey()}>
        <p>
          Add the key of the model as a <a href="/console/settings/secrets">secret</a> named <code>ANTHROPIC_API_KEY</code>
          {" "}or <code>OPENAI_API_KEY</code>, or let the operator <a href="/docs/operating#language-models">configure a model</a>.
        </p>
      </Show>
    </div>
  );
}

function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
