// What draws a screen, VNC or video: the rule.

/** Quality that a person chose: what the rule finds, video, VNC, or VNC with a level of 0 to 9. */
export type Quality = "auto" | "video" | "vnc" | number;

/** What draws. */
export type Drawing = "vnc" | "video";

/** Bytes a second of VNC beyond which video shows more: a film in a small window, or a page that scrolls. */
const BUSY = 250_000;
/** Bytes a second of changes in a video below which VNC is sharper and costs less: a blinking cursor, a clock. */
const CALM = 40_000;
/** Seconds for which the screen must be so. VNC returns late, because a film has calm scenes. */
const BUSY_FOR = 2;
const CALM_FOR = 5;
/** Rates that the rule looks at. */
export const MOST_RATES = Math.max(BUSY_FOR, CALM_FOR);

/** Quality of a slow network. */
const SLOW = 2;

/**
 * Says what draws from now on. `rates` are the bytes of each of the last seconds since `now` draws, the newest last; `usable`
 * is whether this browser and the computer can do video.
 */
export function drawingOf(quality: Quality, usable: boolean, now: Drawing, rates: readonly number[]): Drawing {
  if (!usable) return "vnc";
  if (quality !== "auto") return quality === "video" ? "video" : "vnc";
  const last = (seconds: number, fits: (rate: number) => boolean) => rates.length >= seconds && rates.slice(-seconds).every(fits);
  if (now === "vnc") return last(BUSY_FOR, (rate) => rate >= BUSY) ? "video" : "vnc";
  return last(CALM_FOR, (rate) => rate <= CALM) ? "vnc" : "video";
}

/** Returns the level of VNC for a quality; undefined for what the element does by itself. */
export function levelOf(quality: Quality): number | undefined {
  if (typeof quality === "number") return quality;
  // Chromium alone says how fast the network is.
  const network = (navigator as { connection?: { saveData?: boolean; effectiveType?: string } }).connection;
  return network?.saveData || /^(slow-2g|2g|3g)$/.test(network?.effectiveType ?? "") ? SLOW : undefined;
}

/** Reads a quality that was kept as text. */
export function qualityOf(text: string): Quality {
  if (/^[0-9]$/.test(text)) return Number(text);
  return text === "video" || text === "vnc" ? text : "auto";
}
