// Control of a screen by this person: who holds it, taking it, handing it back, answering requests for help.

import { createEffect, createMemo, createSignal, on, onCleanup } from "solid-js";
import { connection, onLive } from "../../../api/live";
import { answerOf, api, once, type Schemas } from "../../../api/service";
import { person } from "../../../api/session";
import { attempt } from "../../../ui";
import { nameOf, type Actor } from "./actors";

/** Seconds for which a screen is taken: what a person who closes the page keeps from the agent at most. */
const HOLD = 120;
/** Milliseconds between renewals. A page in the background runs its timers once a minute, which is early enough, too. */
const RENEWAL = 40_000;
/** Milliseconds without pointer and keys after which control is renewed no more: the person has left. */
const IDLE = 5 * 60_000;
/** Names that are asked for before they are asked for anew: more actors than a screen has in a day. */
const MOST_NAMES = 100;

/** What the agent reads when a person takes the screen from it. */
const TAKEN_OVER = "A person takes the screen over.";

/** Control of one screen, for the time of the owner (a component). */
export function createControl(id: string, screen: string) {
  const path = { id, screen_id: screen };
  const [control, setControl] = createSignal<Schemas["ScreenControl"]>();
  const [me, setMe] = createSignal<string>();
  const [busy, setBusy] = createSignal<"taking" | "handing back" | "answering">();
  /** Names of actors, as far as the service tells them. */
  const [names, setNames] = createSignal<Record<string, string>>({});
  const asked = new Set<string>();
  let used = Date.now();

  /** An answer may be older than what the socket has told meanwhile. */
  const accept = (answer: Schemas["ScreenControl"]) =>
    setControl((now) => (now && now.revision > answer.revision ? now : answer));
  const load = () =>
    attempt("Who controls the screen is unknown", async () => {
      const answer = await answerOf(api.GET("/computers/{id}/screens/{screen_id}/control", { params: { path } }));
      setControl(answer);
    });
  void load();
  void attempt("Who is signed in is unknown", async () => setMe((await person()).id));
  onLive((message) => {
    // The count begins anew when the computer does, so a message always wins.
    if (message.type === "control" && message.id === id && message.screen === screen) setControl(message.control);
  });
  createEffect(on(connection, (now, before) => {
    if (now === "live" && before === "lost") void load();
  }));

  const holder = createMemo(() => control()?.holder ?? undefined);
  const mine = createMemo(() => {
    const it = holder();
    return it !== undefined && it.kind === "person" && it.id === me();
  });
  const keyOf = (actor: Actor) => `${actor.kind}:${actor.id ?? ""}`;

  // The names of the holder and of who asks for help, which the control does not have.
  createEffect(() => {
    for (const actor of [mine() ? undefined : holder(), control()?.help?.by]) {
      if (!actor || asked.has(keyOf(actor))) continue;
      if (asked.size >= MOST_NAMES) asked.clear();
      asked.add(keyOf(actor));
      // Without a name the bar says what kind of actor it is.
      nameOf(id, actor).then((name) => name && setNames((all) => ({ ...all, [keyOf(actor)]: name })), () => undefined);
    }
  });
  const named = (actor: Actor): Actor => ({ ...actor, name: names()[keyOf(actor)] ?? null });

  const renew = () =>
    answerOf(once.POST("/computers/{id}/screens/{screen_id}/control", { params: { path }, body: { seconds: HOLD } }));
  /**
   * From another holder by force, in one step: nobody comes between. A free screen is not taken by force: who takes it in the
   * same moment keeps it.
   */
  const takeOver = () => {
    const held = holder() !== undefined && !mine();
    return answerOf(once.POST("/computers/{id}/screens/{screen_id}/control", {
      params: { path, query: held ? { force: true } : {} },
      body: { seconds: HOLD, ...(held && { note: TAKEN_OVER }) },
    }));
  };
  const handOver = (note: string | undefined) =>
    answerOf(once.POST("/computers/{id}/screens/{screen_id}/control/hand_back", {
      params: { path },
      body: note ? { note } : {},
    }));

  async function change(kind: "taking" | "handing back" | "answering", failed: string, work: () => Promise<Schemas["ScreenControl"]>) {
    if (busy()) return false;
    setBusy(kind);
    const answer = await attempt(failed, work);
    setBusy(undefined);
    if (answer) accept(answer);
    return answer !== undefined;
  }

  const note = () => (used = Date.now());
  for (const type of ["pointermove", "pointerdown", "keydown"] as const) {
    addEventListener(type, note, { capture: true, passive: true });
    onCleanup(() => removeEventListener(type, note, { capture: true }));
  }
  const renewal = setInterval(() => {
    if (!mine() || busy() || Date.now() - used > IDLE) return;
    // A renewal that fails is repeated; when somebody else has the screen, the bar says so.
    renew().then(accept, () => undefined);
  }, RENEWAL);
  onCleanup(() => clearInterval(renewal));

  return {
    /** What the service said last; undefined until it did. */
    control,
    /** The holder with its name, undefined when nobody holds the screen. */
    holder: createMemo(() => {
      const it = holder();
      return it && named(it);
    }),
    /** Who asks for help, with its name. */
    asker: createMemo(() => {
      const by = control()?.help?.by;
      return by ? named(by) : undefined;
    }),
    /** Whether this person holds it. */
    mine,
    /** What is being done. */
    busy,
    /** Takes it, from another holder as well: from programs, and as an admin also from people. Resolves to whether that worked. */
    take: () => change("taking", "You did not get the screen", takeOver),
    /** Hands it back with a note for the one who acts next. Resolves to whether that worked. */
    handBack: (text: string) =>
      change("handing back", "The screen was not handed back", () => handOver(text.trim() || undefined)),
    /** Answers the request for help. Resolves to whether that worked. */
    answer: (text: string) =>
      change("answering", "The answer was not sent", () =>
        answerOf(once.POST("/computers/{id}/screens/{screen_id}/control/answer", {
          params: { path },
          body: text.trim() ? { note: text.trim() } : {},
        }))),
  };
}

/** Control of one screen; see {@link createControl}. */
export type Control = ReturnType<typeof createControl>;
