// Control of a screen by one actor at a time, and requests for help (docs/api/screens.md, "Control").

import { answerOf, init, type Api, type Call, type OnScreen, type Schemas } from "../calls.js";
import { ConnectionError, HotdeskError, TimeoutError } from "../errors.js";

/** Seconds for which one request waits for a change: the most that the service allows. */
const LONGEST_LOOK = 30;
/** How often control is renewed in its time: two renewals may be lost. */
const RENEWALS = 3;
/** Seconds of control, unless the options say otherwise: the default of the service. */
const SECONDS = 60;
/** Longest wait for a free screen or for help in seconds, unless the options say otherwise. */
const WAIT_TIMEOUT = 600;
/** Milliseconds after the end of a request for help until the service must have said so. */
const GRACE = 10_000;
const BOOT_SCREEN = "default";

/** Options of {@link Control.take}. */
export interface TakeOptions extends OnScreen {
  /** What others are told. */
  note?: string | undefined;
  /** Time after which control ends by itself when this program is gone, 1 to 3600: 60 when absent. */
  seconds?: number | undefined;
  /**
   * True to take the screen from another holder, which admins of the workspace may. Renewals do not take it back from somebody
   * else.
   */
  force?: boolean | undefined;
}

/** Who may act on the screens of a computer. While somebody else holds one, input is refused: `control_held`. */
export class Control {
  readonly #api: Api;
  readonly #id: string;

  constructor(api: Api, id: string) {
    this.#api = api;
    this.#id = id;
  }

  #path(options: OnScreen) {
    return { id: this.#id, screen_id: options.screen ?? BOOT_SCREEN };
  }

  /** Returns who holds a screen (`holder`), the request for help that waits (`help`), and the last note. */
  state(options: OnScreen = {}): Promise<Schemas["ScreenControl"]> {
    const params = { path: this.#path(options) };
    return answerOf(this.#api.GET("/computers/{id}/screens/{screen_id}/control", { params, ...init(options) }));
  }

  /**
   * Takes a screen. Input of everybody else is refused until the lease is handed back, which the end of an `await using` block
   * does. The lease renews itself. Throws a `ConflictError` (`control_held`) when somebody else has the screen.
   */
  async take(options: TakeOptions = {}): Promise<ControlLease> {
    const { note, seconds = SECONDS, force, screen, ...call } = options;
    const take = (how: Call & { force?: boolean | undefined }) => {
      const params = { path: this.#path({ screen }), query: { force: how.force } };
      const body = { note, seconds };
      return answerOf(
        this.#api.POST("/computers/{id}/screens/{screen_id}/control", { params, body, ...init(how) }),
      );
    };
    const state = await take({ ...call, force });
    return new ControlLease(state, seconds, () => take({}), (text) => this.handBack(text, { screen }));
  }

  /** Hands a screen back; `note` is for the one who acts next. With `force` also that of another holder, as admins may. */
  handBack(note?: string, options: OnScreen & { force?: boolean | undefined } = {}): Promise<Schemas["ScreenControl"]> {
    const params = { path: this.#path(options), query: { force: options.force } };
    const path = "/computers/{id}/screens/{screen_id}/control/hand_back";
    return answerOf(this.#api.POST(path, { params, body: { note }, ...init(options) }));
  }

  /**
   * Waits until nobody holds a screen; `last_hand_back` of the answer has the note. Throws a {@link TimeoutError} after
   * `timeout` seconds (600).
   */
  async waitUntilFree(options: OnScreen & { timeout?: number } = {}): Promise<Schemas["ScreenControl"]> {
    const timeout = options.timeout ?? WAIT_TIMEOUT;
    const end = Date.now() + timeout * 1000;
    let state = await this.state(options);
    while (state.holder) {
      if (Date.now() > end) {
        throw new TimeoutError(`${state.holder.kind} still holds the screen ${state.screen} after ${timeout} s`);
      }
      state = await this.#changed(state, end, options);
    }
    return state;
  }

  /**
   * Asks a person for help, and waits for the answer: who gave it (`by`), and the `note`. Throws a {@link TimeoutError} when
   * nobody answers within `timeout` seconds (600, at most 86,400), and a `ConflictError` while the request of somebody else
   * waits.
   */
  async askForHelp(
    message: string,
    options: OnScreen & { timeout?: number } = {},
  ): Promise<Schemas["LastHandBack"]> {
    const timeout = options.timeout ?? WAIT_TIMEOUT;
    const params = { path: this.#path(options) };
    const body = { message, seconds: Math.max(1, Math.ceil(timeout)) };
    const path = "/computers/{id}/screens/{screen_id}/control/help";
    let state = await answerOf(this.#api.POST(path, { params, body, ...init(options) }));
    const end = Date.now() + timeout * 1000 + GRACE;
    const since = state.help?.since ?? "";
    while (state.help?.since === since && Date.now() <= end) state = await this.#changed(state, end, options);
    const last = state.last_hand_back;
    // Without `by` the time was over. The times have one form, so they can be compared as texts.
    if (last?.by && last.at >= since) return last;
    throw new TimeoutError(`Nobody answered the request for help within ${timeout} s`);
  }

  /** Answers the request for help of a screen. Throws a `ConflictError` when none waits. */
  answerHelp(note?: string, options: OnScreen = {}): Promise<Schemas["ScreenControl"]> {
    const params = { path: this.#path(options) };
    const path = "/computers/{id}/screens/{screen_id}/control/answer";
    return answerOf(this.#api.POST(path, { params, body: { note }, ...init(options) }));
  }

  /** Returns the control when it has changed, or after a while. */
  #changed(state: Schemas["ScreenControl"], end: number, options: Call): Promise<Schemas["ScreenControl"]> {
    const wait_seconds = Math.min(LONGEST_LOOK, Math.max(1, Math.ceil((end - Date.now()) / 1000)));
    const params = { path: this.#path({ screen: state.screen }), query: { after: state.revision, wait_seconds } };
    const call = init({ signal: options.signal });
    return answerOf(this.#api.GET("/computers/{id}/screens/{screen_id}/control", { params, ...call }));
  }
}

/**
 * Control of a screen that this program has. It renews itself until it is handed back: by {@link handBack}, or at the end of an
 * `await using` block. When it cannot be renewed, for example because an admin gave the screen to somebody else, both throw
 * that error.
 */
export class ControlLease implements AsyncDisposable {
  /** The control when it was taken or renewed last: `expires_at`, `revision` and more. */
  state: Schemas["ScreenControl"];
  /** Milliseconds of control after a renewal. */
  readonly #time: number;
  readonly #take: () => Promise<Schemas["ScreenControl"]>;
  readonly #release: (note?: string) => Promise<Schemas["ScreenControl"]>;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #renewal: Promise<void> = Promise.resolve();
  #failure: { error: unknown } | undefined;
  #isOver = false;
  /** When the time of the control is over, in milliseconds of the clock of the program. */
  #end: number;

  /** {@link Control.take} makes it. */
  constructor(
    state: Schemas["ScreenControl"],
    seconds: number,
    take: () => Promise<Schemas["ScreenControl"]>,
    release: (note?: string) => Promise<Schemas["ScreenControl"]>,
  ) {
    this.state = state;
    this.#time = seconds * 1000;
    this.#end = performance.now() + this.#time;
    this.#take = take;
    this.#release = release;
    this.#schedule();
  }

  #schedule(): void {
    this.#timer = setTimeout(() => {
      this.#renewal = this.#renew();
    }, this.#time / RENEWALS);
    // In Node, a program that has nothing else to do ends, and its control with the time of the lease.
    (this.#timer as { unref?: () => void }).unref?.();
  }

  async #renew(): Promise<void> {
    const began = performance.now();
    try {
      this.state = await this.#take();
      this.#end = began + this.#time;
    } catch (error) {
      if (!mayPass(error) || performance.now() >= this.#end) {
        this.#failure = { error };
        return;
      }
    }
    if (!this.#isOver) this.#schedule();
  }

  /** Hands the screen back; `note` is for the one who acts next. */
  async handBack(note?: string): Promise<void> {
    // A renewal after this would take the screen again.
    this.#isOver = true;
    clearTimeout(this.#timer);
    await this.#renewal;
    const failure = this.#failure;
    try {
      await this.#release(note);
    } catch (error) {
      // Why it could not be renewed says more.
      if (!failure) throw error;
    }
    if (failure) throw failure.error;
  }

  /** Hands the screen back, unless that was done. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isOver) await this.handBack();
  }
}

/** Whether the next renewal may succeed: the service could not be reached, or is not ready. */
function mayPass(error: unknown): boolean {
  return error instanceof ConnectionError || (error instanceof HotdeskError && (error.status === 429 || error.status >= 500));
}
