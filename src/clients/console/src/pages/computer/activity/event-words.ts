// Events of computers in words.

import type { DesktopEvent } from "@hotdesk/client";

/** Characters of a text of an event that are shown. */
const SHOWN = 160;

/** Names of the types of events. */
const NAMES: Record<string, string> = {
  window_focus: "Window focus",
  window_open: "Window opened",
  window_close: "Window closed",
  title_change: "Title changed",
  clipboard: "Clipboard",
  file_change: "File changed",
  download_finished: "Download",
  screen_change: "Screen size",
  audio_stream_start: "Sound began",
  audio_stream_stop: "Sound ended",
  process_start: "Process began",
  process_stop: "Process ended",
  idle: "Idle",
  active: "Active",
  agent_change: "Agent",
  health_change: "Health",
  notification: "Notification",
  control_changed: "Control",
  help_requested: "Help wanted",
};

/** Returns the name of a type; the type itself when it is a new one. */
export function typeInWords(type: string): string {
  return NAMES[type] ?? type;
}

/** Returns what happened, in a sentence without its full stop. */
export function eventInWords(event: DesktopEvent): string {
  const text = (name: string) => shortened(event.data[name]);
  switch (event.type) {
    case "window_focus":
      return `${titled(event)} has the keyboard`;
    case "window_open":
      return `${titled(event)} opened`;
    case "window_close":
      return `The window ${text("window_id")} closed`;
    case "title_change":
      return `A window is now ${titled(event, "without a title")}`;
    case "clipboard":
      return event.data["content"] ? `The clipboard has “${text("content")}”` : "The clipboard changed";
    case "file_change":
      return `${text("path")} was ${text("action")}`;
    case "download_finished":
      return `${text("path")} was downloaded`;
    case "screen_change":
      return `The screen ${text("screen")} is now ${text("width")} × ${text("height")}`;
    case "audio_stream_start":
      return "A program plays sound";
    case "audio_stream_stop":
      return "The sound ended";
    case "process_start":
      return `${text("name")} began (process ${text("pid")})`;
    case "process_stop":
      return `${text("name")} ended (process ${text("pid")})`;
    case "idle":
      return `No input for ${text("idle_seconds")} seconds`;
    case "active":
      return "Input came again";
    case "agent_change":
      return event.data["state"] === "responsive" ? "The computer answers again" : "The computer stopped answering";
    case "health_change":
      return `${text("app")} is ${text("status")}${event.data["reason"] ? `: ${text("reason")}` : ""}`;
    case "notification":
      return text("title");
    case "control_changed": {
      const note = event.data["note"] ? `: “${text("note")}”` : "";
      return event.data["holder"] ? `${text("holder")} controls the screen${note}` : `Nobody holds the screen${note}`;
    }
    case "help_requested":
      return `Help is wanted: “${text("message")}”`;
    default:
      return shortened(JSON.stringify(event.data));
  }
}

function titled(event: DesktopEvent, otherwise = "A window without a title"): string {
  return event.data["title"] ? `“${shortened(event.data["title"])}”` : otherwise;
}

function shortened(value: unknown): string {
  const text = typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}
