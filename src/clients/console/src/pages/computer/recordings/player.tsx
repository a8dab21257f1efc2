// Player of a recording: its video, with the actions as marks, captions and a list.

import X from "lucide-solid/icons/x";
import { createMemo, createSignal, For, onCleanup, onMount, Show } from "solid-js";
import { createFetched } from "../../../api/fetched";
import { fetchBlob, type Schemas } from "../../../api/service";
import { Button, Empty, Failure, IconButton, Loading } from "../../../ui";
import { inBytes } from "../../../ui/values";
import { actionInWords, counted, effectInWords } from "../activity/words";
import { captions, clock, groups, parseMarks } from "./marks";

/** Bytes of the largest video that is played here; the browser has all of it. A larger one is for a player of its own. */
const PLAYED = 256 * 1024 * 1024;
/** Bytes of the largest timeline that is shown: the computer wrote it, and the page reads it as one text. */
const READ = 64 * 1024 * 1024;
/** Seconds by which the arrow keys move. */
const STEP = 5;
/** Actions of the list at first, and how many more each time. */
const LISTED = 100;

interface Given {
  /** Id of the computer. */
  computer: string;
  recording: Schemas["Recording"];
  onClose: () => void;
}

/** Plays a recording that has ended. */
export function Player(props: Given) {
  const path = (file: string) => `/computers/${props.computer}/recordings/${props.recording.id}/${file}`;
  const isPlayed = () => props.recording.size_bytes <= PLAYED;
  const video = createFetched(() => (isPlayed() ? path("video") : undefined), (at, signal) => fetchBlob(at, signal));
  const timeline = createFetched(
    () => (props.recording.timeline ? path("timeline") : undefined),
    async (at, signal) => {
      const content = await fetchBlob(at, signal);
      if (content.size > READ) throw new Error(`It has ${inBytes(content.size)}; ${inBytes(READ)} can be shown here`);
      return parseMarks(await content.text());
    },
  );
  const marks = createMemo(() => timeline.value()?.marks ?? []);
  const url = objectUrl(() => video.value()?.slice(0, undefined, "video/mp4"));
  const captionsUrl = objectUrl(() => {
    const all = marks();
    return all.length > 0 ? new Blob([captions(all)], { type: "text/vtt" }) : undefined;
  });
  const length = () => Math.max(props.recording.seconds, 0.1);
  /** Place on the track. */
  const share = (seconds: number) => `${Math.min(100, (seconds / length()) * 100)}%`;

  const [now, setNow] = createSignal(0);
  const [listed, setListed] = createSignal(LISTED);
  /** Number of actions that have begun. */
  const begun = createMemo(() => marks().findLastIndex((mark) => mark.at <= now()) + 1);
  let element: HTMLVideoElement | undefined;
  let section: HTMLElement | undefined;
  // The keys work at once, and the person sees the player.
  onMount(() => section?.focus());
  const seek = (seconds: number) => {
    const to = Math.min(Math.max(0, seconds), length());
    if (element) element.currentTime = to;
    setNow(to);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    // A list of marks is sorted; the half second lets a person go back twice.
    const moves: Record<string, () => number | undefined> = {
      ArrowLeft: () => now() - STEP,
      ArrowRight: () => now() + STEP,
      Home: () => 0,
      End: length,
      ",": () => marks().findLast((mark) => mark.at < now() - 0.5)?.at,
      ".": () => marks().find((mark) => mark.at > now() + 0.05)?.at,
    };
    const to = moves[event.key]?.();
    if (to === undefined) return;
    event.preventDefault();
    seek(to);
  };

  return (
    <section ref={section} class="card recordings-player" aria-label="Player" tabindex="-1" onKeyDown={keys}>
      <div class="bar">
        <h2>Recording of {new Date(props.recording.started_at).toLocaleString()}</h2>
        <span class="grow" />
        <IconButton look="quiet" label="Close the player" onClick={() => props.onClose()}><X size={18} /></IconButton>
      </div>
      <Show when={isPlayed()} fallback={
        <Empty title="This recording is too large to play here">
          <p>
            It has {inBytes(props.recording.size_bytes)}; {inBytes(PLAYED)} can be played. Download it below and open it in a player.
          </p>
        </Empty>
      }>
        <Show when={video.failure() === undefined} fallback={
          <Failure what="The video could not be fetched" error={video.failure()} retry={video.refetch} />
        }>
          <Show when={url()} fallback={<Loading what={`the video, ${inBytes(props.recording.size_bytes)}`} />}>
            {(url) => (
              <video ref={element} class="recordings-video" src={url()} controls preload="auto" aria-label="Video of the screen"
                width={props.recording.width} height={props.recording.height}
                onTimeUpdate={(event) => setNow(event.currentTarget.currentTime)}>
                <Show when={captionsUrl()}>
                  {(url) => <track kind="captions" label="Actions" srclang="en" default src={url()} />}
                </Show>
              </video>
            )}
          </Show>
        </Show>
      </Show>
      <Show when={timeline.failure() !== undefined}>
        <Failure what="The timeline could not be fetched" error={timeline.failure()} retry={timeline.refetch} />
      </Show>
      <Show when={marks().length > 0} fallback={
        <Show when={!props.recording.timeline || timeline.value()}><p class="dim">No action was recorded.</p></Show>
      }>
        <div class="recordings-track">
          <ol aria-label="Marks">
            <For each={groups(marks(), length())}>
              {(group) => (
                <li style={{ left: share(group.at) }}>
                  <button type="button" aria-label={group.label} title={group.label} onClick={() => seek(group.at)} />
                </li>
              )}
            </For>
          </ol>
          <span class="recordings-now" aria-hidden="true" style={{ left: share(now()) }} />
        </div>
        <p class="dim">
          Keys: left and right move by {STEP} seconds, comma and full stop go to the action before and after, Home and End to the
          {" "}ends.
        </p>
        <ol class="recordings-actions" aria-label="Actions of the recording">
          <For each={marks().slice(0, listed())}>
            {(mark, at) => (
              <li aria-current={at() === begun() - 1 ? "true" : undefined}>
                <button type="button" class="button quiet" onClick={() => seek(mark.at)}>
                  <span class="mono">{clock(mark.at)}</span> {actionInWords(mark)}
                </button>
                <Show when={effectInWords(mark)}>{(effect) => <small>{effect()}</small>}</Show>
              </li>
            )}
          </For>
        </ol>
        <Show when={marks().length > listed()}>
          <Button onClick={() => setListed((count) => count + LISTED)}>Show more actions</Button>
        </Show>
      </Show>
      <Show when={timeline.value()?.unreadable}>
        {(lines) => <p class="dim">{counted(lines(), "line")} of the timeline could not be read.</p>}
      </Show>
    </section>
  );
}

/** The address of a blob, which ends with the blob or the owner. */
function objectUrl(blob: () => Blob | undefined) {
  return createMemo(() => {
    const content = blob();
    if (!content) return undefined;
    const url = URL.createObjectURL(content);
    onCleanup(() => URL.revokeObjectURL(url));
    return url;
  });
}
