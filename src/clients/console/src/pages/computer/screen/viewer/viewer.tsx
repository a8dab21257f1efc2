// Live picture of a screen, which takes the person's pointer and keys.

import { HotdeskError } from "@hotdesk/client";
import type { HotdeskScreen, ScreenEnd } from "@hotdesk/client/screen";
import { createEffect, createSignal, onCleanup, onMount, Show } from "solid-js";
import { answerOf, api, type Computer } from "../../../../api/service";
import { Button } from "../../../../ui";
import { levelOf, type Quality } from "./drawing";
import { createVideo } from "./choice";

/** Why a connection ended, by the close codes of docs/channels.md. The element connects again by itself unless it is said. */
const ENDS: Record<number, string> = {
  1001: "The computer is going down.",
  1013: "The computer has too many connections at the moment.",
  4001: "The ticket was used already.",
  4003: "The computer does not run.",
  4004: "The computer is gone.",
  4006: "The computer is in another workspace now.",
  4008: "Closed after half an hour without a change.",
  4500: "The computer refused a further viewer of this screen.",
  4502: "The screen does not answer.",
};
/** Those after which the element waits for the person. */
const FINAL = [4004, 4006, 4008];

/** The picture. Its screen and computer stay the same while it is shown. */
export function Viewer(props: {
  computer: Computer;
  screen: string;
  viewOnly: boolean;
  quality: Quality;
  /** Whether video draws the screen now, and not VNC. */
  onVideo: (byVideo: boolean) => void;
  /** The element, and undefined when it is gone. */
  onElement: (element: HotdeskScreen | undefined) => void;
  /** A key or a button was pressed on the screen. */
  onUse: () => void;
  /** Something was copied in the computer. */
  onCopied: (text: string) => void;
  /** The person may only watch. */
  onReadOnly: () => void;
  /** The person gave the keyboard back by Ctrl, Alt and Shift. */
  onLeave: () => void;
}) {
  let place!: HTMLDivElement;
  let canvas!: HTMLCanvasElement;
  const [element, setElement] = createSignal<HotdeskScreen>();
  const [connected, setConnected] = createSignal(false);
  const [words, setWords] = createSignal("Connecting to the screen…");
  const [isOver, setIsOver] = createSignal(false);
  let mode: "control" | "view" = "control";
  let disposed = false;
  /** Why there is no ticket. */
  let refused: string | undefined;

  const ticket = async (): Promise<string> => {
    const params = { path: { id: props.computer.id } };
    const body = { mode, screen: props.screen };
    const { ws_url } = await answerOf(api.POST("/computers/{id}/stream-tickets", { params, body }));
    // Of this page's own origin, which is the only one that it may connect to.
    const at = new URL(ws_url);
    return `${at.pathname}${at.search}`;
  };
  const getTicket = async (): Promise<string> => {
    refused = undefined;
    try {
      return await ticket();
    } catch (error) {
      if (mode === "control" && error instanceof HotdeskError && error.code === "workspace_read_only") {
        mode = "view";
        props.onReadOnly();
        return ticket();
      }
      refused = error instanceof Error ? error.message : String(error);
      throw error;
    }
  };

  const connect = () => {
    setIsOver(false);
    setWords("Connecting to the screen…");
    element()?.connect();
  };
  const ended = (end: ScreenEnd) => {
    setConnected(false);
    setIsOver(FINAL.includes(end.code));
    const reason = refused ?? ENDS[end.code] ?? "The connection was lost.";
    setWords(isOver() ? reason : `${reason.replace(/\.?$/, ".")} Connecting again…`);
  };

  onMount(async () => {
    try {
      await import("@hotdesk/client/screen");
    } catch {
      setWords("The viewer could not be loaded. Reload the page to try again.");
      return;
    }
    if (disposed) return;
    const made = document.createElement("hotdesk-screen");
    made.setAttribute("role", "application");
    made.setAttribute("aria-label", `Screen of ${props.computer.name}`);
    made.getTicket = getTicket;
    made.viewOnly = props.viewOnly;
    made.addEventListener("connect", () => setConnected(true));
    made.addEventListener("disconnect", (event) => ended((event as CustomEvent<ScreenEnd>).detail));
    made.addEventListener("clipboard", (event) => props.onCopied((event as CustomEvent<string>).detail));
    made.addEventListener("leave", () => props.onLeave());
    // Before the element, which keeps what it is given.
    made.addEventListener("pointerdown", () => props.onUse(), { capture: true });
    made.addEventListener("keydown", () => props.onUse(), { capture: true });
    place.append(made);
    setElement(made);
    props.onElement(made);
  });
  createEffect(() => {
    const made = element();
    if (made) made.viewOnly = props.viewOnly;
  });
  createEffect(() => {
    const made = element();
    if (!made) return;
    const level = levelOf(props.quality);
    if (level === undefined) made.removeAttribute("quality");
    else made.setAttribute("quality", String(level));
  });
  const video = createVideo({
    computer: props.computer.id,
    screen: props.screen,
    quality: () => props.quality,
    element,
    canvas: () => canvas,
  });
  createEffect(() => props.onVideo(video.shown()));
  onCleanup(() => {
    disposed = true;
    element()?.remove();
    props.onElement(undefined);
  });

  return (
    <div class="screen-picture">
      <div class="screen-place" ref={place} />
      {/* Above the canvas of VNC, which has the pointer and the keys. */}
      <canvas class="screen-video" aria-hidden="true" hidden={!video.shown()} ref={canvas} />
      <Show when={!connected()}>
        <div class="screen-curtain" role="status">
          <p>{words()}</p>
          <Show when={isOver()}><Button onClick={connect}>Connect again</Button></Show>
        </div>
      </Show>
    </div>
  );
}
