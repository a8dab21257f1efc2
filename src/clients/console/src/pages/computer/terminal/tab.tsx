// Terminals of the computer, as tabs.

import { useSearchParams } from "@solidjs/router";
import ClipboardPaste from "lucide-solid/icons/clipboard-paste";
import Copy from "lucide-solid/icons/copy";
import Plus from "lucide-solid/icons/plus";
import X from "lucide-solid/icons/x";
import { createEffect, createMemo, createSignal, For, Show } from "solid-js";
import type { Computer } from "../../../api/service";
import { attempt, Button, Empty, IconButton, Menu, notify, Switch } from "../../../ui";
import { Running } from "../running";
import { Pane } from "./pane";
import type { Session } from "./session";
import { closeSession, openSession, sessionsOf } from "./sessions";
import "./terminal.css";

/** Where this browser keeps whether terminals are for screen readers. */
const READERS = "hotdesk.terminal.readers";

/** The tab. */
export default function Tab(props: { computer: Computer }) {
  const [query, setQuery] = useSearchParams<{ terminal: string }>();
  const [forReaders, setForReaders] = createSignal(localStorage.getItem(READERS) === "yes");
  const mine = createMemo(() => sessionsOf(props.computer.id));
  const current = createMemo(() => mine().find((session) => String(session.key) === query.terminal) ?? mine()[0]);
  const declared = () => props.computer.instance_details?.templateTerminals ?? [];

  const tabOf = (session: Session) => document.getElementById(`terminal-tab-${session.key}`);
  const choose = (session: Session) => setQuery({ terminal: session.key });
  const open = async (first = "") => {
    const opened = await attempt("The terminal could not be opened", () => openSession(props.computer.id, first));
    if (!opened) return;
    opened.leave = () => tabOf(opened)?.focus();
    choose(opened);
  };
  const close = (session: Session) => {
    const at = mine().indexOf(session);
    closeSession(session);
    const next = mine()[Math.min(at, mine().length - 1)];
    setQuery({ terminal: next?.key }, { replace: true });
    if (next) queueMicrotask(() => tabOf(next)?.focus());
  };

  // Who comes here wants a shell; who has closed the last one does not.
  let begunFor: string | undefined;
  createEffect(() => {
    if (props.computer.status !== "running" || begunFor === props.computer.id) return;
    begunFor = props.computer.id;
    if (mine().length === 0) void open();
  });

  const keys = (event: KeyboardEvent, session: Session) => {
    const all = mine();
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const next = all[(all.indexOf(session) + step + all.length) % all.length];
    if (step !== 0 && next) {
      choose(next);
      queueMicrotask(() => tabOf(next)?.focus());
    } else if (event.key === "Delete") close(session);
    else if (event.key === "Enter" || event.key === " ") session.focus();
    else return;
    event.preventDefault();
  };
  const copy = async () => {
    const text = current()?.selection() ?? "";
    if (!text) notify({ text: "Nothing is selected in the terminal." });
    else if (!navigator.clipboard) notify({ text: "This browser copies only by Ctrl+Shift+C in the terminal.", tone: "bad" });
    else await attempt("The text could not be copied", () => navigator.clipboard.writeText(text));
  };
  const paste = async () => {
    const session = current();
    if (!navigator.clipboard) {
      notify({ text: "This browser pastes only by Ctrl+Shift+V in the terminal.", tone: "bad" });
      return;
    }
    const text = await attempt("The clipboard could not be read", () => navigator.clipboard.readText());
    if (text) session?.paste(text);
    session?.focus();
  };
  const read = (on: boolean) => {
    setForReaders(on);
    localStorage.setItem(READERS, on ? "yes" : "no");
  };

  const add = () => (
    <Show when={declared().length > 0} fallback={
      <Button onClick={() => void open()}><Plus size={16} aria-hidden="true" />New terminal</Button>
    }>
      <Menu label="New terminal" items={[
        { label: "Shell", onSelect: () => void open() },
        ...declared().map((it) => ({
          label: it.title || it.name,
          onSelect: () => void open(`tmux attach -t ${quoted(it.name)}\r`),
        })),
      ]}><Plus size={16} aria-hidden="true" />New terminal</Menu>
    </Show>
  );

  return (
    // Terminals that are there stay when the computer stops: they say why they are silent, and have what was written.
    <Show when={current()} fallback={
      <Running computer={props.computer} what="Its terminals">
        <Empty title="No terminal is open"><p>A terminal is a shell in the computer.</p>{add()}</Empty>
      </Running>
    }>
      {(session) => (
        <div class="terminal">
          <div class="bar terminal-bar">
            <div role="tablist" aria-label="Terminals">
              <For each={mine()}>
                {(it) => (
                  <button type="button" role="tab" id={`terminal-tab-${it.key}`} aria-controls="terminal-panel"
                    aria-selected={it === session()} tabindex={it === session() ? 0 : -1}
                    onClick={() => { choose(it); it.focus(); }} onKeyDown={(event) => keys(event, it)}>
                    {it.title()}
                  </button>
                )}
              </For>
            </div>
            {add()}
            <span class="grow" />
            <Switch label="For screen readers" checked={forReaders()} onChange={read} />
            <IconButton look="quiet" label="Copy the selection" onClick={() => void copy()}><Copy size={16} /></IconButton>
            <IconButton look="quiet" label="Paste" onClick={() => void paste()}><ClipboardPaste size={16} /></IconButton>
            <IconButton look="quiet" label={`Close ${session().title()}`} onClick={() => close(session())}><X size={16} /></IconButton>
          </div>
          <div id="terminal-panel" role="tabpanel" aria-labelledby={`terminal-tab-${session().key}`}>
            <Pane session={session()} forReaders={forReaders()} />
          </div>
        </div>
      )}
    </Show>
  );
}

/** A word for bash. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
