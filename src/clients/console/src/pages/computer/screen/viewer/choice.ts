// Choice between VNC and video while a screen is shown.

import type { HotdeskScreen } from "@hotdesk/client/screen";
import { createEffect, createSignal, on, onCleanup } from "solid-js";
import { answerOf, api } from "../../../../api/service";
import { notify } from "../../../../ui";
import type { Video } from "./decoder";
import { drawingOf, MOST_RATES, type Drawing, type Quality } from "./drawing";

/** Milliseconds between two looks at how much changes. */
const LOOK = 1000;
/** Milliseconds between two updates of VNC below the video: it stays of use for the pointer's shape, and when the video ends. */
const BELOW = 250;
/** Milliseconds after a failure in which video is not tried again. */
const PAUSE = 30_000;
/** Close code of a computer without ffmpeg (docs/channels.md). */
const NO_ENCODER = 4501;

/** Chooses what draws a screen, for the time of the owner. The signals may change, the computer and the screen do not. */
export function createVideo(given: {
  computer: string;
  screen: string;
  quality: () => Quality;
  element: () => HotdeskScreen | undefined;
  canvas: () => HTMLCanvasElement;
}) {
  const [drawing, setDrawing] = createSignal<Drawing>("vnc");
  const [shown, setShown] = createSignal(false);
  let video: Video | undefined;
  /** Number of the newest attempt: an older one must not show anything any more. */
  let attempt = 0;
  let failed = -Infinity;
  let hasEncoder = true;
  /** Undefined until the browser was asked, at the first screen that changes quickly. */
  let decodes: boolean | undefined;
  let rates: number[] = [];
  let before: number | undefined;

  const stop = () => {
    attempt += 1;
    video?.close();
    video = undefined;
    setShown(false);
  };
  const fail = (code: number) => {
    failed = Date.now();
    hasEncoder = code !== NO_ENCODER;
    setDrawing("vnc");
    if (given.quality() !== "video") return;
    const why = hasEncoder ? "The video ended" : "The computer has no ffmpeg, which video needs";
    notify({ text: `${why}: VNC draws the screen.`, tone: "bad" });
  };
  const start = async () => {
    const own = ++attempt;
    try {
      const { canDecode, Video } = await import("./decoder");
      decodes ??= await canDecode();
      if (own !== attempt) return;
      if (!decodes) {
        setDrawing("vnc");
        if (given.quality() === "video") notify({ text: "This browser cannot show the video: VNC draws the screen.", tone: "bad" });
        return;
      }
      const params = { path: { id: given.computer } };
      const body = { mode: "view" as const, screen: given.screen };
      const { ws_url } = await answerOf(api.POST("/computers/{id}/stream-tickets", { params, body }));
      if (own !== attempt) return;
      // Of this page's own origin, which is the only one that it may connect to.
      const at = new URL(ws_url);
      video = new Video(given.canvas(), `${at.pathname}${at.search}`, {
        onShown: () => own === attempt && setShown(true),
        onEnd: (ended) => own === attempt && fail(ended),
      });
    } catch (error) {
      console.warn("video:", error);
      if (own === attempt) fail(0);
    }
  };

  const isUsable = () =>
    hasEncoder && decodes !== false && Date.now() - failed > PAUSE && !document.hidden && given.element()?.state === "connected";
  const choose = () => setDrawing(drawingOf(given.quality(), isUsable(), drawing(), rates));
  const look = () => {
    const now = drawing() === "video" ? video?.changed : given.element()?.received;
    // A count that began anew says nothing.
    if (now !== undefined && before !== undefined && now >= before) {
      rates = [...rates, ((now - before) * 1000) / LOOK].slice(-MOST_RATES);
    }
    before = now;
    choose();
  };
  const timer = setInterval(look, LOOK);
  createEffect(on(given.quality, () => {
    // A person who chooses anew wants to see what comes of it.
    failed = -Infinity;
    hasEncoder = true;
    choose();
  }, { defer: true }));
  createEffect(on(drawing, (now) => {
    rates = [];
    before = undefined;
    if (now === "video") void start();
    else stop();
  }));
  createEffect(() => {
    const element = given.element();
    if (element) element.updateInterval = shown() ? BELOW : 0;
  });
  onCleanup(() => {
    clearInterval(timer);
    stop();
  });
  return {
    /** Whether the canvas shows the screen. */
    shown,
  };
}
