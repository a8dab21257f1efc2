// Form that asks a model.

import Send from "lucide-solid/icons/send";
import { createEffect, createSignal, Show, untrack } from "solid-js";
import { createFetched, type Fetched } from "../api/fetched";
import { answerOf, api } from "../api/service";
import { Button, Empty, Failure, Loading, Select, TextArea } from "../ui";
import "./chat.css";
import type { Question } from "./conversation";

/** Ids of the models that the operator configured, in his order. */
export type Models = Fetched<readonly string[]>;

/** Fetches the models. */
export function createModels(): Models {
  return createFetched(() => true, async (_, signal) =>
    (await answerOf(api.GET("/v1/models", { signal }))).data.map((model) => model.id));
}

/** The model that the person chose last on this page; the operator's default when empty. */
const [model, setModel] = createSignal("");

interface Given {
  models: Models;
  /** Words above the text. */
  label: string;
  /** Why nothing can be asked at the moment. */
  blocked?: string | undefined;
  /** A question that was not asked, which the person may change and send again. */
  draft?: string | undefined;
  /** Whether a call waits for approval. */
  canApprove?: boolean;
  onAsk: (question: Question) => void;
}

/** The form; what to do instead when there is no model. */
export function Composer(props: Given) {
  const [text, setText] = createSignal("");
  createEffect(() => {
    const draft = props.draft;
    if (draft && untrack(text) === "") setText(draft);
  });
  const ask = () => {
    const wanted = text().trim();
    if (wanted === "" || props.blocked !== undefined) return;
    setText("");
    props.onAsk({ text: wanted, model: model() });
  };
  const options = () => [
    { value: "", label: "Default" },
    ...(props.models.value() ?? []).map((id) => ({ value: id, label: id })),
  ];
  return (
    <Show when={props.models.value()} fallback={
      <Show when={props.models.failure() !== undefined} fallback={<Loading what="the models" />}>
        <Failure what="The models could not be fetched" error={props.models.failure()} retry={props.models.refetch} />
      </Show>
    }>
      {(models) => (
        <Show when={models().length > 0} fallback={<NoModel />}>
          <form class="chat-composer" onSubmit={(event) => { event.preventDefault(); ask(); }}>
            <TextArea label={props.label} value={text()} rows={3}
              hint={props.blocked ?? "Ctrl+Enter sends. The model goes on when you leave this page."}
              onInput={(event) => setText(event.currentTarget.value)}
              onKeyDown={(event) => {
                if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
                  event.preventDefault();
                  ask();
                }
              }} />
            <div class="bar chat-bar">
              <Select label="Model" value={model()} options={options()} onChange={setModel} />
              <span class="grow" />
              <Show when={props.canApprove}>
                <Button disabled={props.blocked !== undefined}
                  onClick={() => props.onAsk({ text: "", model: model(), approve: true })}>
                  Approve the call
                </Button>
              </Show>
              <Button type="submit" look="primary" disabled={props.blocked !== undefined || text().trim() === ""}>
                <Send size={16} aria-hidden="true" />Ask
              </Button>
            </div>
          </form>
        </Show>
      )}
    </Show>
  );
}

/** What to do when no model is configured. */
export function NoModel() {
  return (
    <Empty title="No model is configured">
      <p>
        The operator adds one to <code>[models]</code> of the configuration: a server with the API of Anthropic or OpenAI,
        also one of your own network. Then a model can work here.
      </p>
      <p><a href="/docs/operating#language-models">How to configure a model</a>, <a href="/docs/api/chat">how chat works</a></p>
    </Empty>
  );
}
