// Sound of a computer, played by this browser.

import type { AudioStream } from "@hotdesk/client";
import { createSignal, onCleanup } from "solid-js";
import { service } from "../../../api/service";
import { notify } from "../../../ui";

/** Samples a second: what the computer's sound server mixes without loss of what people hear. */
const RATE = 48_000;
const CHANNELS = 2;
/** Seconds by which playing follows hearing: less breaks off when the network hesitates. */
const LEAD = 0.1;
/** Most seconds that wait to be played: a late listener hears the newest, not all. */
const MOST = 0.5;

/** Sound of one computer, off at first; it ends with the owner. */
export function createSound(id: string) {
  const [state, setState] = createSignal<"off" | "connecting" | "on">("off");
  let context: AudioContext | undefined;
  let stream: AudioStream | undefined;

  const stop = () => {
    stream?.close();
    // A context that is closed already is what is wanted.
    context?.close().catch(() => undefined);
    stream = context = undefined;
    setState("off");
  };
  const start = async () => {
    // Made at the click: browsers play nothing that no person asked for.
    const own = new AudioContext({ sampleRate: RATE });
    context = own;
    setState("connecting");
    try {
      const computer = await service.computer(id);
      if (context !== own) return;
      const heard = computer.audio({ sampleRate: RATE, channels: CHANNELS });
      stream = heard;
      await heard.ready;
      setState("on");
      let at = 0;
      for await (const frame of heard) {
        if (context !== own) return;
        at = play(own, frame, at);
      }
      if (context === own) stop();
    } catch (error) {
      if (context !== own) return;
      stop();
      notify({ text: `The sound ended: ${error instanceof Error ? error.message : String(error)}`, tone: "bad" });
    }
  };
  onCleanup(stop);
  return { state, toggle: () => (state() === "off" ? void start() : stop()) };
}

/** Plays a frame behind the last one, which ends at a time of the context. Returns the end of this one. */
function play(context: AudioContext, frame: Uint8Array, end: number): number {
  if (end - context.currentTime > MOST) return end;
  const samples = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  const length = Math.floor(frame.byteLength / 2 / CHANNELS);
  if (length === 0) return end;
  const buffer = context.createBuffer(CHANNELS, length, RATE);
  for (let channel = 0; channel < CHANNELS; channel += 1) {
    const data = buffer.getChannelData(channel);
    for (let at = 0; at < length; at += 1) data[at] = samples.getInt16(2 * (at * CHANNELS + channel), true) / 0x8000;
  }
  const source = context.createBufferSource();
  source.buffer = buffer;
  source.connect(context.destination);
  const start = end > context.currentTime ? end : context.currentTime + LEAD;
  source.start(start);
  return start + buffer.duration;
}
