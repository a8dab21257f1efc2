// Row of a thread in a list: its title, computer, state and cost.

import { Show } from "solid-js";
import { computers } from "../api/live";
import { Since } from "../ui";
import "./chat.css";
import type { Listed } from "./lists";
import { money, runInWords, tokens } from "./words";

/** Returns the title of a thread; its first words without one. */
function titleOf(thread: Listed): string {
  return thread.title ?? thread.messages.find((message) => message.role === "user")?.content.slice(0, 80) ?? "Untitled thread";
}

/** The row, a link. */
export function ThreadRow(props: { thread: Listed; href: string; isShown: boolean }) {
  const state = () => runInWords(props.thread.run, props.thread.waiting_for);
  return (
    <li>
      <a class="chat-row" href={props.href} aria-current={props.isShown ? "page" : undefined}>
        <strong>{titleOf(props.thread)}</strong>
        <span class="chat-facts">
          <span class="status" data-status={state().status}>{state().label}</span>
          <Show when={props.thread.status === "archived"}><span>archived</span></Show>
          <span>{computers[props.thread.computer_id]?.name}</span>
          <Since time={props.thread.updated_at} />
          {/* While a run is in progress they are those of the runs before it. */}
          <Show when={tokens(props.thread.usage) > 0}>
            <span>{tokens(props.thread.usage).toLocaleString("en")} tokens, {money(props.thread.cost_microcents)}</span>
          </Show>
        </span>
      </a>
    </li>
  );
}
