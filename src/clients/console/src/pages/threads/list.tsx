// List of threads, with their computers, states and costs.

import { createMemo, For, Show } from "solid-js";
import { computers } from "../../api/live";
import { threadsAddress, type Lists, type Status } from "../../chat/lists";
import { ThreadRow } from "../../chat/row";
import { Button, Empty, Failure, Loading, Select } from "../../ui";

/** Choices of the filter of the status. */
const STATUSES = [
  { value: "", label: "All" },
  { value: "active", label: "Active" },
  { value: "archived", label: "Archived" },
];

interface Given {
  lists: Lists;
  /** Id of the thread that is shown. */
  shown: string | undefined;
  /** Id of the computer whose threads are listed. */
  computer: string | undefined;
  status: Status;
  onFilter: (computer: string | undefined, status: Status) => void;
}

/** The list, with filters of the computer and the status. */
export function List(props: Given) {
  const choices = createMemo(() => {
    const all = Object.values(computers).map((computer) => ({ value: computer.id, label: computer.name }));
    return [{ value: "", label: "All computers" }, ...all.sort((one, other) => one.label.localeCompare(other.label))];
  });
  const isFiltered = () => props.status !== undefined;
  return (
    <section class="threads-list" aria-label="Threads">
      <h1>Threads</h1>
      <div class="bar chat-bar">
        <Select label="Computer" value={props.computer ?? ""} options={choices()}
          onChange={(value) => props.onFilter(value || undefined, props.status)} />
        <Select label="Status" value={props.status ?? ""} options={STATUSES}
          onChange={(value) => props.onFilter(props.computer, statusOf(value))} />
      </div>
      <Show when={props.lists.failure() !== undefined}>
        <Failure what="The threads could not be fetched" error={props.lists.failure()} retry={props.lists.refresh} />
      </Show>
      <Show when={props.lists.isLoaded()} fallback={
        <Show when={props.lists.failure() === undefined}><Loading what="the threads" /></Show>
      }>
        <ul aria-label="Threads, the last changed first">
          <For each={props.lists.threads()} fallback={
            <li>
              <Empty title={isFiltered() ? `No ${props.status} threads` : "No threads yet"}>
                <p>
                  {isFiltered()
                    ? "Choose another status to see the others."
                    : props.computer
                      ? "Ask a model to do something on this computer."
                      : "Choose a computer, and ask a model to do something on it."}
                </p>
              </Empty>
            </li>
          }>
            {(thread) => (
              <ThreadRow thread={thread} href={threadsAddress(props.computer, props.status, thread.id)} isShown={thread.id === props.shown} />
            )}
          </For>
        </ul>
        <Show when={props.lists.hasMore()}>
          <Button onClick={props.lists.more}>Show more threads</Button>
        </Show>
        <Show when={props.lists.hasLeft()}>
          <p class="dim">Older threads are left out: choose a computer above to see its threads.</p>
        </Show>
      </Show>
    </section>
  );
}

/** Returns the status of a filter; undefined for any other text. */
export function statusOf(text: string | undefined): Status {
  return text === "active" || text === "archived" ? text : undefined;
}
