// A screen with its bar, its tools, and what is dropped onto it.

import type { HotdeskScreen } from "@hotdesk/client/screen";
import MessageSquare from "lucide-solid/icons/message-square";
import { createSignal, lazy, onCleanup, onMount, Show, Suspense } from "solid-js";
import type { Computer, Schemas } from "../../../api/service";
import { Button, Loading } from "../../../ui";
import { Bar } from "./bar";
import { Clipboard } from "./clipboard";
import { createControl } from "./control";
import { HandBack } from "./hand-back";
import { Keys } from "./keys";
import { qualityOf, type Quality } from "./viewer/drawing";
import { Tools } from "./tools";
import { createUploads, filesOf, Uploads } from "./uploads";
import { Viewer } from "./viewer/viewer";

const Chat = lazy(() => import("./chat"));

/** Windows in which the chat covers the screen (screen.css). */
const NARROW = "(max-width: 1000px)";

/** Where the quality that a person chose is kept. */
const QUALITY = "hotdesk.quality";

/** Milliseconds after a refusal in which clicks take nothing: each would show a notice. */
const PAUSE = 10_000;

interface Given {
  computer: Computer;
  screen: string;
  size: Pick<Schemas["Screen"], "width" | "height">;
  /** The thread in the chat, or `new`; undefined while the chat is closed. */
  chat: string | undefined;
  onChat: (chosen: string | undefined) => void;
}

/** The stage. Its screen and computer stay the same while it is shown; the size may change. */
export function Stage(props: Given) {
  let bar!: HTMLDivElement;
  let chatButton!: HTMLButtonElement;
  const control = createControl(props.computer.id, props.screen);
  const uploads = createUploads(props.computer.id);
  const [stage, setStage] = createSignal<HTMLElement>();
  const [element, setElement] = createSignal<HotdeskScreen>();
  const [watching, setWatching] = createSignal(false);
  const [readOnly, setReadOnly] = createSignal(false);
  const [keys, setKeys] = createSignal(false);
  const [clipboard, setClipboard] = createSignal(false);
  const [copied, setCopied] = createSignal("");
  const [over, setOver] = createSignal(false);
  const [handing, setHanding] = createSignal(false);
  const [quality, setQuality] = createSignal<Quality>(storedQuality());
  const [byVideo, setByVideo] = createSignal(false);

  const viewOnly = () => readOnly() || watching() || (control.holder() !== undefined && !control.mine());
  /** A person's click takes the screen, so that an agent does not work on it at the same time. */
  let refused = 0;
  const use = async () => {
    if (viewOnly() || control.mine() || !control.control() || control.busy() || Date.now() - refused < PAUSE) return;
    if (!(await control.take())) refused = Date.now();
  };
  const takeOver = async () => {
    setWatching(false);
    if (await control.take()) element()?.focus();
    return control.mine();
  };
  const takeFromChat = async () => {
    // The person works on the screen now, which must be seen.
    if ((await takeOver()) && matchMedia(NARROW).matches) props.onChat(undefined);
  };
  const closeChat = () => {
    props.onChat(undefined);
    chatButton.focus();
  };
  const leave = () => bar.querySelector<HTMLElement>("button:not(:disabled)")?.focus();

  /** What was sent to the computer or came from it last: the same text needs no second way. */
  let exchanged = "";
  const take = (text: string) => {
    setCopied(text);
    exchanged = text;
    // A browser that refuses, or has no clipboard without TLS: the text is in the dialog.
    if (!viewOnly() && document.hasFocus()) navigator.clipboard?.writeText(text).catch(() => undefined);
  };
  const give = async () => {
    const it = element();
    if (viewOnly() || it?.state !== "connected") return;
    try {
      const allowed = await navigator.permissions.query({ name: "clipboard-read" as PermissionName });
      if (allowed.state !== "granted") return;
      const text = await navigator.clipboard.readText();
      if (text === "" || text === exchanged) return;
      it.paste(text);
      exchanged = text;
    } catch {
      // This browser has no such permission, or the text is too long: the dialog remains, and says so.
    }
  };
  onMount(() => addEventListener("focus", give));
  onCleanup(() => removeEventListener("focus", give));

  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (event.dataTransfer && !readOnly()) uploads.add(filesOf(event.dataTransfer));
  };
  const drag = (event: DragEvent) => {
    if (!event.dataTransfer?.types.includes("Files") || readOnly()) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    setOver(true);
  };
  const choose = (quality: Quality) => {
    setQuality(quality);
    try {
      localStorage.setItem(QUALITY, String(quality));
    } catch {
      // Without storage it lasts as long as the page.
    }
  };

  return (
    <div class="screen-stage" ref={setStage}>
      <div class="screen-bars" ref={bar}>
        <Bar control={control} readOnly={readOnly()} watching={watching()} onWatch={setWatching} onTake={() => void takeOver()}
          onHandBack={() => setHanding(true)} />
        <Tools computer={props.computer} screen={props.screen} element={element()} stage={stage()} canType={!viewOnly()} readOnly={readOnly()}
          keys={keys()} quality={quality()} byVideo={byVideo()} onKeys={setKeys} onQuality={choose} onClipboard={() => setClipboard(true)}
          onFiles={(files) => uploads.add(files)} />
        <Button ref={chatButton} aria-expanded={props.chat !== undefined}
          onClick={() => props.onChat(props.chat === undefined ? "new" : undefined)}>
          <MessageSquare size={16} aria-hidden="true" />Chat
        </Button>
      </div>
      <Uploads uploads={uploads.uploads} />
      <div class="screen-work" classList={{ "screen-with-chat": props.chat !== undefined }}>
        <div class="screen-drop" classList={{ "screen-over": over() }}
          style={{ "--screen-ratio": `${props.size.width / props.size.height}` }} onDragEnter={drag} onDragOver={drag} onDragLeave={() => setOver(false)} onDrop={drop}>
          <Viewer computer={props.computer} screen={props.screen} viewOnly={viewOnly()} quality={quality()} onElement={setElement}
            onVideo={setByVideo} onUse={() => void use()} onCopied={take} onReadOnly={() => setReadOnly(true)} onLeave={leave} />
          <Show when={over()}><p class="screen-hint">Drop files to put them on its desktop</p></Show>
        </div>
        <Show when={props.chat}>
          {(chosen) => (
            <Suspense fallback={<Loading what="the chat" />}>
              <Chat computer={props.computer.id} screen={props.screen} control={control} readOnly={readOnly()} chosen={chosen()}
                onChoose={props.onChat} onClose={closeChat} onTake={() => void takeFromChat()} onHandBack={() => setHanding(true)} />
            </Suspense>
          )}
        </Show>
      </div>
      <Show when={keys() && element()}>{(element) => <Keys element={element()} disabled={viewOnly()} />}</Show>
      <Clipboard computer={props.computer.id} screen={props.screen} open={clipboard()} copied={copied()} canType={!viewOnly()}
        onClose={() => setClipboard(false)} />
      <HandBack open={handing()} control={control} onClose={() => setHanding(false)} />
    </div>
  );
}

function storedQuality(): Quality {
  try {
    return qualityOf(localStorage.getItem(QUALITY) ?? "");
  } catch {
    return "auto";
  }
}
