// One terminal: a shell of the computer, and the picture of its output.
//
// connecting ──▶ open ──▶ ended          the shell exited, or cannot be had
//     ▲            │
//     └── lost ◀───┘                     the connection broke: a new shell after a pause

import { SocketError, Terminal as Shell, ConnectionError, TimeoutError, UnavailableError } from "@hotdesk/client";
import { createSignal, untrack, type Accessor } from "solid-js";
import { computers } from "../../../api/live";
import { service } from "../../../api/service";
import type { FitAddon, Xterm } from "./xterm";

/** Lines that a person can scroll back: an xterm line of 200 columns takes about 2.4 KB. */
const SCROLLBACK = 5000;
/** Most characters of a title, which programs choose. */
const MOST_TITLE = 60;
/** Pauses between attempts to connect, in milliseconds: they double from the first to the last. */
const FIRST_PAUSE = 500;
const LAST_PAUSE = 15_000;
/** Close codes after which another attempt is of no use (docs/channels.md): wrong origin, and no shell. */
const FINAL = [1008, 4500];

/** State of a terminal; the text is a sentence for people. */
export type State =
  | { is: "connecting" | "open" }
  | { is: "lost" | "ended"; text: string };

/** What a terminal looks like. */
export interface Look {
  text: string;
  surface: string;
  accent: string;
  line: string;
}

/** A terminal. {@link element} shows it, and may be moved. */
export class Session {
  /** Id of the computer. */
  readonly computer: string;
  /** Number in the address, unique for the computer. */
  readonly key: number;
  readonly element = document.createElement("div");
  readonly title: Accessor<string>;
  readonly state: Accessor<State>;
  /** Moves the focus out of the terminal; the page that shows it sets it. */
  leave: () => void = () => {};
  readonly #xterm: Xterm;
  readonly #fit: FitAddon;
  readonly #first: string;
  readonly #setState: (state: State) => void;
  #shell: Shell | undefined;
  #hasBegun = false;
  #wantsFocus = true;
  #isClosed = false;
  #wake: () => void = () => {};

  /** `first` is typed into the first shell; it may be empty. */
  constructor(xterm: Xterm, fit: FitAddon, computer: string, key: number, first: string) {
    this.computer = computer;
    this.key = key;
    this.#first = first;
    this.element.className = "terminal-element";
    const [title, setTitle] = createSignal(`Terminal ${key}`);
    const [state, setState] = createSignal<State>({ is: "connecting" });
    this.title = title;
    this.state = state;
    this.#setState = setState;
    this.#xterm = xterm;
    this.#fit = fit;
    xterm.options.scrollback = SCROLLBACK;
    // Programs choose colours for a dark ground; they stay readable on a light one.
    xterm.options.minimumContrastRatio = 4.5;
    xterm.options.fontFamily = 'ui-monospace, "DejaVu Sans Mono", monospace';
    xterm.options.fontSize = 14;
    xterm.loadAddon(fit);
    xterm.onTitleChange((text) => setTitle(text.trim().slice(0, MOST_TITLE) || `Terminal ${key}`));
    // A shell that fails says so itself, in `#run`.
    xterm.onData((text) => void this.#open()?.send(text).catch(() => {}));
    xterm.onResize(({ cols, rows }) => void this.#open()?.resize(cols, rows).catch(() => {}));
    xterm.attachCustomKeyEventHandler((event) => this.#key(event));
  }

  /** Fits the terminal to the place where {@link element} is now. The first time it connects, and takes the keyboard. */
  fit(): void {
    if (!this.element.isConnected || this.element.clientHeight === 0) return;
    if (!this.#xterm.element) this.#xterm.open(this.element);
    this.#fit.fit();
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      void this.#run();
    }
    if (this.#wantsFocus) this.focus();
  }

  /** Gives the keyboard to the terminal, at once or when it is shown. */
  focus(): void {
    this.#wantsFocus = !this.element.isConnected || !this.#xterm.element;
    if (!this.#wantsFocus) this.#xterm.focus();
  }

  /** Changes colours and the help for screen readers. */
  show(look: Look, forReaders: boolean): void {
    this.#xterm.options.theme = {
      background: look.surface,
      foreground: look.text,
      cursor: look.accent,
      cursorAccent: look.surface,
      selectionBackground: look.line,
    };
    this.#xterm.options.screenReaderMode = forReaders;
  }

  /** Returns the selected text; empty without one. */
  selection(): string {
    return this.#xterm.getSelection();
  }

  /** Types text as if it was pasted. */
  paste(text: string): void {
    this.#xterm.paste(text);
  }

  /** Starts a new shell in a terminal whose shell has ended, or connects now instead of after the pause. */
  restart(): void {
    const { is } = untrack(this.state);
    if (is === "ended") void this.#run();
    else if (is === "lost") this.#wake();
  }

  /** Ends the shell and what runs in it. */
  close(): void {
    this.#isClosed = true;
    this.#wake();
    this.#shell?.close();
    this.#xterm.dispose();
    this.element.remove();
  }

  /** The shell, if it takes input. */
  #open(): Shell | undefined {
    return untrack(this.state).is === "open" ? this.#shell : undefined;
  }

  /** Whether the terminal itself handles a key. */
  #key(event: KeyboardEvent): boolean {
    if (event.type !== "keydown" || !event.ctrlKey || event.altKey || event.metaKey) return true;
    const isLeave = (event.shiftKey && event.key === "Escape") || (!event.shiftKey && event.key === "F6");
    if (isLeave) this.leave();
    else if (event.shiftKey && event.code === "KeyC") document.execCommand("copy");
    // The browser pastes, which the emulator hears.
    else if (event.shiftKey && event.code === "KeyV") return false;
    else return true;
    event.preventDefault();
    return false;
  }

  /** Connects, and again after each loss, until a shell ends or the terminal is closed. */
  async #run(): Promise<void> {
    let pause = FIRST_PAUSE;
    let first = this.#first;
    let isLost = false;
    while (!this.#isClosed) {
      this.#setState({ is: "connecting" });
      const size = { cols: this.#xterm.cols, rows: this.#xterm.rows };
      const shell = new Shell(() => service.openSocket(this.computer, "terminal", size));
      this.#shell = shell;
      try {
        await shell.ready;
        this.#setState({ is: "open" });
        pause = FIRST_PAUSE;
        if (isLost) this.#note("This is a new shell. What ran in the old one has ended.");
        // It may have been resized while it was connecting.
        if (this.#xterm.cols !== size.cols || this.#xterm.rows !== size.rows) {
          await shell.resize(this.#xterm.cols, this.#xterm.rows);
        }
        if (first) await shell.send(first);
        first = "";
        for await (const output of shell) {
          await new Promise<void>((written) => this.#xterm.write(output, written));
        }
        return this.#end(shell.exitCode === undefined ? "The shell ended" : `The shell ended with code ${shell.exitCode}`);
      } catch (error) {
        if (this.#isClosed) return;
        const why = error instanceof Error ? error.message : String(error);
        if (!isTemporary(error)) return this.#end(why);
        if (!isLost) this.#note(`The connection was lost: ${why}`);
        isLost = true;
        if (!(await this.#pause(pause, why))) return;
        pause = Math.min(pause * 2, LAST_PAUSE);
      }
    }
  }

  /** Waits before the next attempt, and until the computer runs: a socket wakes none. Returns whether to try again. */
  async #pause(pause: number, why: string): Promise<boolean> {
    for (;;) {
      const record = untrack(() => computers[this.computer]);
      if (!record) {
        this.#end("The computer was deleted");
        return false;
      }
      const isRunning = record.status === "running";
      const text = isRunning
        ? `The connection was lost (${why}). Connecting again…`
        : `The computer is ${record.status}. A new shell opens when it runs.`;
      this.#setState({ is: "lost", text });
      await new Promise<void>((wake) => {
        const timer = setTimeout(wake, pause * (1 + Math.random() / 3));
        this.#wake = () => {
          clearTimeout(timer);
          wake();
        };
      });
      if (this.#isClosed) return false;
      if (untrack(() => computers[this.computer]?.status) === "running") return true;
    }
  }

  #end(text: string): void {
    if (this.#isClosed) return;
    this.#setState({ is: "ended", text });
    this.#note(text);
  }

  /** Writes a line of the console's own between the output. */
  #note(text: string): void {
    // The text of a close reason must not control the terminal.
    const plain = text.replace(/[\p{Cc}]/gu, " ");
    // Leaves the alternate screen, a program's colours and its mouse, which nobody else would.
    this.#xterm.write(`\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?2004l\x1b[?25h\x1b[0m\r\n-- ${plain} --\r\n`);
  }
}

/** Whether another attempt may succeed. */
function isTemporary(error: unknown): boolean {
  if (error instanceof SocketError) return !FINAL.includes(error.closeCode);
  return error instanceof ConnectionError || error instanceof TimeoutError || error instanceof UnavailableError;
}
