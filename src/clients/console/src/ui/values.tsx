// Values in words: times and sizes.

import { createSignal } from "solid-js";

const [tick, setTick] = createSignal(0);
// One timer for all relative times of the page, which show minutes.
setInterval(() => setTick((count) => count + 1), 20_000);

/** The present time. It is not that of the last tick: what happened since then would lie in the future. */
function now(): number {
  tick();
  return Date.now();
}

const UNITS = [["day", 86_400], ["hour", 3600], ["minute", 60]] as const;
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Returns a time relative to now, such as "3 minutes ago". */
export function since(time: number, at = Date.now()): string {
  const seconds = (time - at) / 1000;
  for (const [unit, length] of UNITS) {
    if (Math.abs(seconds) >= length) return relative.format(Math.trunc(seconds / length), unit);
  }
  return seconds > 5 ? "in less than a minute" : "just now";
}

/** A time (ISO 8601) relative to now; its hint has the exact one. */
export function Since(props: { time: string }) {
  const time = () => new Date(props.time);
  return <time dateTime={props.time} title={exact.format(time())}>{since(time().getTime(), now())}</time>;
}

/** Returns a number of bytes in words, such as "3.2 MB". */
export function inBytes(bytes: number): string {
  const names = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; bytes >= 1000 && at < names.length - 1; at += 1) bytes /= 1000;
  return `${at === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(1)} ${names[at]}`;
}

/** A number of bytes in words. */
export function Bytes(props: { value: number }) {
  return <span title={`${props.value.toLocaleString("en")} bytes`}>{inBytes(props.value)}</span>;
}
