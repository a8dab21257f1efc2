// Tools of a screen: clipboard, keys, sound, picture, quality, full screen.

import type { HotdeskScreen } from "@hotdesk/client/screen";
import Camera from "lucide-solid/icons/camera";
import Clipboard from "lucide-solid/icons/clipboard";
import Keyboard from "lucide-solid/icons/keyboard";
import Maximize from "lucide-solid/icons/maximize";
import TextCursorInput from "lucide-solid/icons/text-cursor-input";
import Upload from "lucide-solid/icons/upload";
import Volume from "lucide-solid/icons/volume-2";
import VolumeX from "lucide-solid/icons/volume-x";
import { createSignal, For, Show } from "solid-js";
import { fetchPicture, type Computer } from "../../../api/service";
import { attempt, IconButton, notify } from "../../../ui";
import { qualityOf, type Quality } from "./viewer/drawing";
import { createSound } from "./sound";

const LEVELS = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0];
/** How long an object URL of a picture lives, in milliseconds: the browser has begun to save it then. */
const SAVED = 60_000;

/** The tools. */
export function Tools(props: {
  computer: Computer;
  screen: string;
  element: HotdeskScreen | undefined;
  /** Element that full screen shows. */
  stage: HTMLElement | undefined;
  canType: boolean;
  readOnly: boolean;
  keys: boolean;
  quality: Quality;
  /** Whether video draws the screen now. */
  byVideo: boolean;
  onKeys: (shown: boolean) => void;
  onQuality: (quality: Quality) => void;
  onClipboard: () => void;
  onFiles: (files: File[]) => void;
}) {
  let chooser!: HTMLInputElement;
  const sound = createSound(props.computer.id);
  const [saving, setSaving] = createSignal(false);
  const save = async () => {
    setSaving(true);
    await attempt("The picture was not saved", async () => {
      const query = new URLSearchParams({ response_format: "binary", screen: props.screen });
      const picture = await fetchPicture(`/computers/${props.computer.id}/screenshot?${query}`);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(picture);
      link.download = `${props.computer.name.replace(/[/\\]/g, "-")} ${new Date().toISOString().slice(0, 19).replace(/:/g, "-")}.png`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), SAVED);
      notify({ text: `Saved as ${link.download}.`, tone: "good" });
    });
    setSaving(false);
  };
  const fullScreen = () =>
    attempt("This browser shows no full screen", async () => {
      if (document.fullscreenElement) await document.exitFullscreen();
      else await props.stage?.requestFullscreen();
      props.element?.focus();
    });
  const soundWords = () => ({ off: "Hear the computer", connecting: "Connecting the sound…", on: "Sound off" })[sound.state()];

  return (
    <div class="screen-tools" role="toolbar" aria-label="Tools of the screen">
      <IconButton look="quiet" label="Give the keyboard to the screen (Ctrl+Alt+Shift takes it back)" disabled={!props.canType}
        onClick={() => props.element?.focus()}><TextCursorInput size={18} /></IconButton>
      <IconButton look="quiet" label="Clipboard" onClick={() => props.onClipboard()}><Clipboard size={18} /></IconButton>
      <IconButton look="quiet" label="Keys" pressed={props.keys} onClick={() => props.onKeys(!props.keys)}><Keyboard size={18} /></IconButton>
      <Show when={!props.readOnly}>
        <IconButton look="quiet" label="Send files to its desktop" onClick={() => chooser.click()}><Upload size={18} /></IconButton>
        <input ref={chooser} type="file" multiple hidden onChange={(event) => {
          props.onFiles(Array.from(event.currentTarget.files ?? []));
          event.currentTarget.value = "";
        }} />
        <IconButton look="quiet" label={soundWords()} pressed={sound.state() !== "off"} onClick={() => sound.toggle()}>
          <Show when={sound.state() !== "off"} fallback={<VolumeX size={18} />}><Volume size={18} /></Show>
        </IconButton>
      </Show>
      <IconButton look="quiet" label={saving() ? "Saving the picture…" : "Save picture"} disabled={saving()} onClick={() => void save()}>
        <Camera size={18} />
      </IconButton>
      <Show when={document.fullscreenEnabled}>
        <IconButton look="quiet" label="Full screen" onClick={() => void fullScreen()}><Maximize size={18} /></IconButton>
      </Show>
      <select aria-label="Quality of the picture" title="Quality of the picture"
        onChange={(event) => props.onQuality(qualityOf(event.currentTarget.value))}>
        <option value="auto" selected={props.quality === "auto"}>
          {props.quality === "auto" && props.byVideo ? "Automatic (video)" : "Automatic"}
        </option>
        <option value="video" selected={props.quality === "video"}>Video (H.264)</option>
        <option value="vnc" selected={props.quality === "vnc"}>VNC</option>
        <For each={LEVELS}>
          {(level) => (
            <option value={level} selected={props.quality === level}>
              {level === 9 ? "VNC 9, sharpest" : level === 0 ? "VNC 0, fastest" : `VNC ${level}`}
            </option>
          )}
        </For>
      </select>
    </div>
  );
}
