// One recording of the list, with what can be done with it.

import Download from "lucide-solid/icons/download";
import Play from "lucide-solid/icons/play";
import Square from "lucide-solid/icons/square";
import { createSignal, Show } from "solid-js";
import { answerOf, api, fetchBlob, type Schemas } from "../../../api/service";
import { attempt, Button, Bytes, confirm, notify, Since } from "../../../ui";
import { saveBlob } from "../../../ui/save";
import { clock } from "./marks";

/** Why a recording ended, in words. */
const REASONS: Record<string, string> = {
  asked: "stopped by hand",
  max_seconds: "reached its length",
  quota: "the space for recordings was full",
  disk_full: "the disk was full",
  screen_deleted: "the screen was removed",
  encoder_ended: "the encoder ended",
  agent_stopped: "the computer stopped",
  agent_restarted: "the computer's agent was restarted",
};

interface Given {
  /** Id of the computer. */
  computer: string;
  recording: Schemas["Recording"];
  isPlayed: boolean;
  onPlay: () => void;
  /** Fetches the list again. */
  onChange: () => Promise<void>;
  onDelete: () => void;
}

/** The row. */
export function Row(props: Given) {
  const [doing, setDoing] = createSignal<"stopping" | "downloading" | "deleting">();
  const params = () => ({ path: { id: props.computer, recording_id: props.recording.id } });
  const isRunning = () => props.recording.status === "recording";
  const during = async (what: "stopping" | "downloading" | "deleting", failed: string, work: () => Promise<void>) => {
    setDoing(what);
    await attempt(failed, work);
    setDoing(undefined);
  };

  const stop = () => during("stopping", "The recording could not be stopped", async () => {
    await answerOf(api.POST("/computers/{id}/recordings/{recording_id}/stop", { params: params() }));
    await props.onChange();
  });
  // All recordings of a computer have at most 1 GiB, so one fits into the browser's store of blobs.
  const download = () => during("downloading", "The recording could not be downloaded", async () => {
    const { computer, recording } = props;
    const video = await fetchBlob(`/computers/${computer}/recordings/${recording.id}/video`);
    saveBlob(video, `recording-${recording.started_at.replaceAll(":", "-")}.mp4`);
  });
  const remove = async () => {
    const { id } = props.recording;
    const yes = await confirm({
      title: "Delete this recording?",
      text: "The video and its timeline are removed from the computer. This cannot be undone.",
      action: "Delete the recording",
    });
    if (!yes) return;
    await during("deleting", "The recording could not be deleted", async () => {
      const path = { id: props.computer, recording_id: id };
      await answerOf(api.DELETE("/computers/{id}/recordings/{recording_id}", { params: { path } }));
      notify({ text: "The recording was deleted", tone: "good" });
      props.onDelete();
      await props.onChange();
    });
  };

  return (
    <li class="recordings-row" aria-current={props.isPlayed ? "true" : undefined}>
      <div class="recordings-words">
        <p>
          <span class="status" data-status={isRunning() ? "running" : props.recording.status === "failed" ? "error" : "stopped"}>
            {isRunning() ? "recording" : props.recording.status}
          </span>
          {" "}<strong><Since time={props.recording.started_at} /></strong>
        </p>
        <p class="dim">
          {clock(props.recording.seconds)}, <Bytes value={props.recording.size_bytes} />,
          {" "}{props.recording.width} × {props.recording.height}, {props.recording.fps} pictures a second
          <Show when={props.recording.reason}>{(reason) => <>, {REASONS[reason()] ?? reason()}</>}</Show>
        </p>
      </div>
      <Show when={isRunning()} fallback={
        <>
          <Button disabled={props.isPlayed} onClick={() => props.onPlay()}><Play size={16} aria-hidden="true" />Play</Button>
          <Button busy={doing() === "downloading"} onClick={download}>
            <Download size={16} aria-hidden="true" />{doing() === "downloading" ? "Downloading…" : "Download"}
          </Button>
          <Button look="danger" busy={doing() === "deleting"} onClick={remove}>
            {doing() === "deleting" ? "Deleting…" : "Delete"}
          </Button>
        </>
      }>
        <Button busy={doing() === "stopping"} onClick={stop}>
          <Square size={16} aria-hidden="true" />{doing() === "stopping" ? "Stopping…" : "Stop"}
        </Button>
      </Show>
    </li>
  );
}
