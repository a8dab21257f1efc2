// Command palette: every page, computer and action by its name, from the keyboard (Ctrl+K).

import { useNavigate } from "@solidjs/router";
import Search from "lucide-solid/icons/search";
import { createMemo, createResource, createSignal, For, onCleanup, onMount } from "solid-js";
import { computers } from "../api/live";
import { person } from "../api/session";
import { can, perform } from "../pages/computer/lifecycle/operations";
import { Dialog } from "../ui/dialog";
import { valueOf } from "../ui/loaded";
import { COMPUTER_TABS, SETTINGS_TABS } from "./tabs";

interface Command {
  label: string;
  /** What it is, such as "Computer". */
  kind: string;
  /** Words of which one must be searched for: each computer has many of these, so its name alone finds none of them. */
  of?: string;
  run: () => void;
}

/** Most commands shown: what fits without scrolling far. */
const MOST = 12;

const PAGES = [
  ["Computers", "/console"],
  ["New computer", "/console?new"],
  ["Templates", "/console/templates"],
  ["New template", "/console/templates/new"],
  ["Threads", "/console/threads"],
  ["Audit log", "/console/audit"],
  ...SETTINGS_TABS.map(({ id, name }) => [name, `/console/settings/${id}`] as const),
  ["Documentation", "/docs"],
] as const;
/** The page that only the operator sees. */
const HOST = ["Host", "/console/host"] as const;
/** Operations that the page of a computer does without a question. */
const OPERATIONS = [["start", "Start"], ["resume", "Resume"], ["suspend", "Suspend"], ["stop", "Stop"]] as const;

/** The palette and its button. */
export function Palette() {
  const navigate = useNavigate();
  const [who] = createResource(person);
  const [open, setOpen] = createSignal(false);
  const [text, setText] = createSignal("");
  const [chosen, setChosen] = createSignal(0);

  /** Tabs and operations of all computers. */
  const details = (): Command[] => Object.values(computers).flatMap((computer) => [
    ...COMPUTER_TABS.map(({ id, name }) => ({
      label: `${computer.name}: ${name}`,
      kind: "Page",
      of: name,
      run: () => navigate(`/console/computers/${computer.id}/${id}`),
    })),
    ...OPERATIONS
      // A stop of one that is suspended gives its memory up.
      .filter(([operation]) => can(computer, operation) && !(operation === "stop" && computer.status === "suspended"))
      .map(([operation, name]) => ({
        label: `${name} ${computer.name}`,
        kind: "Action",
        of: name,
        run: () => void perform(computer, operation),
      })),
  ]);

  const commands = createMemo((): Command[] => {
    // A fleet changes all the time, and the list is rarely open.
    if (!open()) return [];
    const wanted = text().trim().toLowerCase().split(/\s+/);
    const paths = valueOf(who)?.is_operator ? [...PAGES, HOST] : PAGES;
    const pages = paths.map(([label, path]): Command => ({ label, kind: "Page", run: () => navigate(path) }));
    const machines = Object.values(computers).map((computer): Command => ({
      label: computer.name,
      kind: "Computer",
      run: () => navigate(`/console/computers/${computer.id}`),
    }));
    return [...pages, ...machines, ...(text().trim() === "" ? [] : details())]
      .filter(({ label, of }) => {
        const fits = (it: string) => (word: string) => it.toLowerCase().includes(word);
        return wanted.every(fits(label)) && (of === undefined || wanted.some(fits(of)));
      })
      .slice(0, MOST);
  });

  const close = () => {
    setOpen(false);
    setText("");
    setChosen(0);
  };
  const run = (command: Command | undefined) => {
    close();
    command?.run();
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      setOpen(true);
    }
  };
  onMount(() => addEventListener("keydown", keys));
  onCleanup(() => removeEventListener("keydown", keys));

  const move = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      const count = Math.max(1, commands().length);
      setChosen((at) => (at + step + count) % count);
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(commands()[chosen()]);
    }
  };

  return (
    <>
      <button type="button" class="button quiet search" onClick={() => setOpen(true)} title="Ctrl+K">
        <Search size={16} aria-hidden="true" /><span>Search</span>
      </button>
      <Dialog open={open()} title="Go to" onClose={close}>
        <input class="palette-text" autofocus role="combobox" aria-label="Page or computer" aria-expanded="true" aria-controls="palette-list"
          aria-activedescendant={`palette-${chosen()}`} value={text()} onKeyDown={move}
          onInput={(event) => { setText(event.currentTarget.value); setChosen(0); }} />
        <ul id="palette-list" class="palette" role="listbox" aria-label="Results">
          <For each={commands()} fallback={<li class="dim">Nothing has this name</li>}>
            {(command, at) => (
              <li id={`palette-${at()}`} role="option" aria-selected={at() === chosen()} onClick={() => run(command)}>
                {command.label} <small>{command.kind}</small>
              </li>
            )}
          </For>
        </ul>
      </Dialog>
    </>
  );
}
