// Chat beside a screen: a model is asked, watched, stopped, and the screen is taken from it and given back.

import { useLocation } from "@solidjs/router";
import Hand from "lucide-solid/icons/hand";
import X from "lucide-solid/icons/x";
import { createEffect, For, on, Show } from "solid-js";
import { beginThread } from "../../../chat/begin";
import { Composer, createModels, type Models } from "../../../chat/composer";
import type { Question } from "../../../chat/conversation";
import { createLists, type Lists } from "../../../chat/lists";
import { ThreadRow } from "../../../chat/row";
import { Thread } from "../../../chat/thread";
import { Button, Failure, IconButton, LinkButton, Loading } from "../../../ui";
import type { Control } from "./control";

/** What the address names while a new request is written. */
const NEW = "new";
/** Threads that are listed: the others are on the page of threads. */
const RECENT = 8;

interface Given {
  /** Ids of the computer and of its screen, which stay the same. */
  computer: string;
  screen: string;
  control: Control;
  readOnly: boolean;
  /** Id of the thread, or `new`. */
  chosen: string;
  onChoose: (chosen: string) => void;
  onClose: () => void;
  onTake: () => void;
  onHandBack: () => void;
}

/** The panel. In a narrow window it covers the screen. */
export default function Chat(props: Given) {
  let panel!: HTMLElement;
  let heading!: HTMLHeadingElement;
  const location = useLocation();
  const models = createModels();
  const lists = createLists(() => props.computer, () => undefined);
  const thread = () => (props.chosen === NEW ? undefined : props.chosen);
  const address = (chosen: string) => {
    const query = new URLSearchParams(location.search);
    query.set("chat", chosen);
    return `${location.pathname}?${query}`;
  };
  const begin = async (question: Question) => {
    const id = await beginThread(props.computer, { ...question, screen: props.screen });
    if (id === undefined) return;
    lists.refresh();
    props.onChoose(id);
  };
  // What had the focus is gone, or was outside.
  createEffect(on(() => props.chosen, () => heading.focus()));
  const keys = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !(event.target instanceof Element)) return;
    // In a dialog of the chat, which is elsewhere on the page, it closes that dialog alone; in a field it would lose the text.
    if (panel.contains(event.target) && !event.target.matches("input, textarea, select")) props.onClose();
  };
  return (
    <aside class="screen-chat" aria-label="Chat" ref={panel} onKeyDown={keys}>
      <header class="bar chat-bar">
        <h2 tabindex="-1" ref={heading}>Chat</h2>
        <span class="grow" />
        <Show when={thread() !== undefined}><LinkButton look="quiet" href={address(NEW)}>New request</LinkButton></Show>
        <IconButton look="quiet" label="Close the chat" onClick={() => props.onClose()}><X size={18} /></IconButton>
      </header>
      <Show when={thread()} keyed fallback={
        <Begin computer={props.computer} models={models} lists={lists} readOnly={props.readOnly} address={address}
          onAsk={(question) => void begin(question)} />
      }>
        {(id) => (
          <Thread id={id} models={models} screen={props.screen} readOnly={props.readOnly}
            takeOver={() => <TakeOver control={props.control} readOnly={props.readOnly} onTake={props.onTake} onHandBack={props.onHandBack} />}
            onComputer={(computer) => { if (computer !== props.computer) props.onChoose(NEW); }}
            onChange={() => lists.refresh()}
            onDelete={() => { lists.refresh(); props.onChoose(NEW); }} />
        )}
      </Show>
    </aside>
  );
}

function TakeOver(props: Pick<Given, "control" | "readOnly" | "onTake" | "onHandBack">) {
  return (
    <Show when={!props.readOnly}>
      <Show when={props.control.mine()} fallback={
        <Button busy={props.control.busy() === "taking"} onClick={() => props.onTake()}>
          <Hand size={16} aria-hidden="true" />{props.control.busy() === "taking" ? "Taking over…" : "Take over"}
        </Button>
      }>
        <Button look="primary" onClick={() => props.onHandBack()}>Hand back to the model</Button>
      </Show>
    </Show>
  );
}

/** A new request, and the threads that can be continued. */
function Begin(props: {
  computer: string;
  models: Models;
  lists: Lists;
  readOnly: boolean;
  address: (chosen: string) => string;
  onAsk: (question: Question) => void;
}) {
  return (
    <>
      <Show when={!props.readOnly} fallback={<p class="dim">You may watch what models do on this computer.</p>}>
        <Composer models={props.models} label="What should the model do?" onAsk={props.onAsk} />
      </Show>
      <h3>Recent threads</h3>
      <Show when={props.lists.failure() !== undefined}>
        <Failure what="The threads could not be fetched" error={props.lists.failure()} retry={props.lists.refresh} />
      </Show>
      <Show when={props.lists.isLoaded()} fallback={
        <Show when={props.lists.failure() === undefined}><Loading what="the threads" /></Show>
      }>
        <ul aria-label="Recent threads">
          <For each={props.lists.threads().slice(0, RECENT)} fallback={<li class="dim">No model has worked on this computer yet.</li>}>
            {(thread) => <ThreadRow thread={thread} href={props.address(thread.id)} isShown={false} />}
          </For>
        </ul>
        <Show when={props.lists.threads().length > RECENT}>
          <p><a href={`/console/threads?computer=${props.computer}`}>All threads of this computer</a></p>
        </Show>
      </Show>
    </>
  );
}
