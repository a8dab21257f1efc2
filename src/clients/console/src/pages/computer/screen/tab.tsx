// Tab of the live screens of a computer.

import { useSearchParams } from "@solidjs/router";
import Plus from "lucide-solid/icons/plus";
import { createSignal, For, onMount, Show } from "solid-js";
import { answerOf, api, once, type Computer, type Schemas } from "../../../api/service";
import { attempt, confirm, Empty, IconButton, LinkButton, Menu } from "../../../ui";
import { Asleep } from "./asleep";
import { Stage } from "./stage";
import "./screen.css";

/** Screens that a computer may have (docs/api/screens.md). */
const MOST = 4;
/** Id of the boot screen. */
const BOOT = "default";

/** The tab. */
export default function Tab(props: { computer: Computer }) {
  const shown = () => (props.computer.status === "running" ? `${props.computer.id}/${props.computer.instance_id}` : undefined);
  return (
    <Show when={shown()} keyed fallback={<Asleep computer={props.computer} />}>
      {(_instance) => <Screens computer={props.computer} />}
    </Show>
  );
}

function Screens(props: { computer: Computer }) {
  const id = props.computer.id;
  const [query, setQuery] = useSearchParams<{ screen: string; chat: string }>();
  const [screens, setScreens] = createSignal<Schemas["Screen"][]>();
  const [adding, setAdding] = createSignal(false);
  const params = { path: { id } };

  const load = () =>
    attempt("The list of the screens did not come", async () =>
      setScreens((await answerOf(api.GET("/computers/{id}/screens", { params }))).screens));
  onMount(() => void load());

  const chosen = () => (typeof query.screen === "string" && query.screen !== "" ? query.screen : BOOT);
  const chat = () => (typeof query.chat === "string" && query.chat !== "" ? query.chat : undefined);
  const isKnown = () => chosen() === BOOT || screens()?.some((screen) => screen.id === chosen());
  /** The boot screen is shown before the list comes: its size is in the record. */
  const size = () => screens()?.find((screen) => screen.id === chosen()) ?? sizeOf(props.computer.resolution);
  const name = (screen: Schemas["Screen"]) => (screen.default ? "Main screen" : screen.id.replace("screen-", "Screen "));
  const show = (screen: string) => setQuery({ screen: screen === BOOT ? null : screen });

  const add = async () => {
    setAdding(true);
    const made = await attempt("No screen was added", () => answerOf(api.POST("/computers/{id}/screens", { params, body: {} })));
    setAdding(false);
    if (!made) return;
    await load();
    show(made.id);
  };
  const remove = async () => {
    const screen_id = chosen();
    const agreed = await confirm({
      title: "Remove this screen?",
      text: "All programs that show windows on it end, and what is not saved in them is lost.",
      action: "Remove the screen",
    });
    if (!agreed) return;
    const path = { id, screen_id };
    const removed = await attempt("The screen was not removed", () =>
      answerOf(once.DELETE("/computers/{id}/screens/{screen_id}", { params: { path } })));
    if (!removed) return;
    show(BOOT);
    await load();
  };

  return (
    <>
      <div class="screen-tabs">
        <div role="group" aria-label="Screens" class="screen-row">
          <Show when={(screens()?.length ?? 0) > 1}>
            <For each={screens()}>
              {(screen) => (
                <button type="button" class="button" aria-pressed={screen.id === chosen()} onClick={() => show(screen.id)}>{name(screen)}</button>
              )}
            </For>
          </Show>
          <IconButton look="quiet" label={adding() ? "Adding a screen…" : "Add a screen"}
            disabled={adding() || screens() === undefined || (screens()?.length ?? 0) >= MOST} onClick={() => void add()}>
            <Plus size={18} />
          </IconButton>
          <Show when={chosen() !== BOOT && isKnown()}>
            <Menu label="More about this screen" items={[{ label: "Remove this screen", danger: true, onSelect: () => void remove() }]} />
          </Show>
        </div>
      </div>
      <Show when={isKnown()} fallback={
        <Show when={screens()} fallback={<p class="state" role="status">Looking for the screen…</p>}>
          <Empty title="The computer has no such screen">
            <LinkButton href={`/console/computers/${id}/screen`}>Show the main screen</LinkButton>
          </Empty>
        </Show>
      }>
        <Show when={chosen()} keyed>
          {(screen) => (
            <Stage computer={props.computer} screen={screen} size={size()} chat={chat()}
              onChat={(thread) => setQuery({ chat: thread ?? null })} />
          )}
        </Show>
      </Show>
    </>
  );
}

/** Returns the size in a resolution, such as `1280x720x24`. */
function sizeOf(resolution: string): { width: number; height: number } {
  const [width, height] = resolution.split("x").map(Number);
  return { width: width || 1280, height: height || 720 };
}
