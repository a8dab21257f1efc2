// Parts of a thread as a person reads them: messages, steps and calls that wait.

import { createSignal, Match, Show, Switch, type JSX } from "solid-js";
import { Since } from "../ui";
import type { Item } from "./items";
import { callInWords, money, stepEffect, tokens, type Step } from "./words";

/** One item of a thread. */
export function ItemView(props: { item: Item }) {
  return (
    <Switch>
      <Match when={props.item.kind === "message" && props.item}>{(item) => <Message item={item()} />}</Match>
      <Match when={props.item.kind === "step" && props.item}>
        {(item) => <StepView step={item().step} thinking={item().thinking} />}
      </Match>
      <Match when={props.item.kind === "call" && props.item}>
        {(item) => (
          <li class="chat-step">
            <Thinking text={item().thinking} />
            <p><strong>{callInWords(item().call)}</strong> <span class="dim">not executed</span></p>
            <Details summary="Call"><pre>{JSON.stringify(item().call.input, null, 2)}</pre></Details>
          </li>
        )}
      </Match>
    </Switch>
  );
}

function Message(props: { item: Extract<Item, { kind: "message" }> }) {
  return (
    <li class="chat-message" data-role={props.item.role}>
      <small>{props.item.role === "user" ? "You" : "Model"}</small>
      <Thinking text={props.item.thinking} />
      <Show when={props.item.text}>{(text) => <p>{text()}</p>}</Show>
    </li>
  );
}

function StepView(props: { step: Step; thinking: string }) {
  const command = () => {
    const text = props.step.call.name === "bash" ? props.step.call.input["command"] : undefined;
    return typeof text === "string" ? text : undefined;
  };
  return (
    <li class="chat-step" data-failed={props.step.is_error || undefined}>
      <Thinking text={props.thinking} />
      <p>
        <span class="dim">{props.step.number}</span> <strong>{callInWords(props.step.call)}</strong>
        <Show when={props.step.is_error}> <span class="bad">failed</span></Show>
      </p>
      <Show when={command()}>{(text) => <pre tabindex="0">{text()}</pre>}</Show>
      <Show when={props.step.screenshot}>{(link) => <Screenshot link={link()} step={props.step.number} />}</Show>
      <p class="dim">
        <Show when={stepEffect(props.step.effect)}>{(effect) => <>{effect()}, </>}</Show>
        took {(props.step.took_ms / 1000).toFixed(1)} s
        <Show when={tokens(props.step.usage) > 0}>
          , {tokens(props.step.usage).toLocaleString("en")} tokens, {money(props.step.cost_microcents)}
        </Show>
        , <Since time={props.step.created_at} />
      </p>
      <Details summary="Call and result">
        <pre tabindex="0">{JSON.stringify(props.step.action ?? props.step.call.input, null, 2)}</pre>
        <pre tabindex="0">{props.step.result}</pre>
      </Details>
    </li>
  );
}

/** The screen after a step. Its link names the address of the service, and this page takes it from its own. */
function Screenshot(props: { link: string; step: number }) {
  const [isGone, setGone] = createSignal(false);
  const path = () => {
    const { pathname, search } = new URL(props.link, location.href);
    return pathname + search;
  };
  return (
    <Show when={!isGone()} fallback={
      <p class="dim">The picture was removed, or its link is older than an hour: load the page again.</p>
    }>
      <a class="chat-shot" href={path()} target="_blank" rel="noreferrer" title="Open the picture">
        <img src={path()} alt={`Screen after step ${props.step}`} loading="lazy" onError={() => setGone(true)} />
      </a>
    </Show>
  );
}

function Thinking(props: { text: string }) {
  return (
    <Show when={props.text}>
      {(text) => <Details summary="Reasoning"><p class="chat-thinking">{text()}</p></Details>}
    </Show>
  );
}

/** Something that is made when it is opened: results may be long. */
function Details(props: { summary: string; children: JSX.Element }) {
  const [isOpen, setOpen] = createSignal(false);
  return (
    <details class="chat-details" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{props.summary}</summary>
      <Show when={isOpen()}>{props.children}</Show>
    </details>
  );
}
