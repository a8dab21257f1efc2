// Threads: conversations of models with computers, beside the screens on which they work.

import { useNavigate, useParams, useSearchParams } from "@solidjs/router";
import ArrowLeft from "lucide-solid/icons/arrow-left";
import { createMemo, createSignal, Show } from "solid-js";
import { computers } from "../../api/live";
import { createTitle } from "../../app/title";
import { beginThread } from "../../chat/begin";
import { Composer, createModels, NoModel } from "../../chat/composer";
import type { Question } from "../../chat/conversation";
import { createLists, threadsAddress } from "../../chat/lists";
import { Thread } from "../../chat/thread";
import { Empty, LinkButton } from "../../ui";
import { List, statusOf } from "./list";
import { Picture } from "./picture";
import "./threads.css";

/**
 * The page. The query `computer` chooses the computer whose threads are listed, and that of a new thread; `status` chooses
 * active or archived ones.
 */
export default function Page() {
  createTitle(() => "Threads");
  const params = useParams<{ id?: string }>();
  const [search] = useSearchParams<{ computer: string; status: string }>();
  const navigate = useNavigate();
  const models = createModels();
  const chosen = () => search.computer || undefined;
  const status = () => statusOf(search.status);
  const lists = createLists(chosen, status);
  const hasNoModel = () => models.value()?.length === 0;

  /** Computer of the thread that is shown. */
  const [worked, setWorked] = createSignal<{ thread: string; computer: string }>();
  const pictured = createMemo(() => {
    if (params.id === undefined) return chosen();
    const known = worked();
    return known?.thread === params.id ? known.computer : undefined;
  });
  const toList = () => navigate(threadsAddress(chosen(), status()));

  const begin = async (computer: string, question: Question) => {
    const id = await beginThread(computer, question);
    if (id === undefined) return;
    lists.refresh();
    navigate(threadsAddress(chosen(), status(), id));
  };

  return (
    <div class="threads" data-shown={params.id !== undefined || search.computer ? "" : undefined}>
      <List lists={lists} shown={params.id} computer={chosen()} status={status()}
        onFilter={(computer, status) => navigate(threadsAddress(computer, status))} />
      <section class="threads-main" aria-label="Thread">
        <Show when={params.id !== undefined}>
          <div class="bar chat-bar">
            <LinkButton look="quiet" href={threadsAddress(chosen(), status())}>
              <ArrowLeft size={16} aria-hidden="true" />All threads
            </LinkButton>
            <span class="grow" />
            <Show when={pictured()}>
              {(computer) => <LinkButton href={threadsAddress(computer(), undefined)}>New thread</LinkButton>}
            </Show>
          </div>
        </Show>
        <Show when={params.id} keyed fallback={
          <Show when={search.computer} keyed fallback={
            <Show when={hasNoModel()} fallback={
              <Empty title="Choose a thread">
                <p>Or choose a computer in the list, and ask a model to do something on it.</p>
              </Empty>
            }>
              <NoModel />
            </Show>
          }>
            {(computer) => (
              <>
                <h2>New thread on {computers[computer]?.name ?? "this computer"}</h2>
                <Composer models={models} label="What should the model do?"
                  onAsk={(question) => void begin(computer, question)} />
              </>
            )}
          </Show>
        }>
          {(id) => (
            <Thread id={id} models={models} onComputer={(computer) => setWorked({ thread: id, computer })}
              onChange={lists.refresh} onDelete={() => { lists.refresh(); toList(); }} />
          )}
        </Show>
      </section>
      <Show when={pictured()} keyed>
        {(computer) => <aside class="threads-side" aria-label="Screen"><Picture computer={computer} /></aside>}
      </Show>
    </div>
  );
}
