// Templates: publish, build, launch (docs/api/templates.md).

import { answerOf, init, newCall, type Api, type Call, type Schemas } from "../calls.js";
import type { Hotdesk, NewComputer } from "../client.js";
import type { Computer } from "../computer.js";
import { HotdeskError, TimeoutError } from "../errors.js";
import { sleep } from "../transport.js";
import { eventsOf } from "./lines.js";

/** Milliseconds between two looks at a build. */
const PAUSE = 500;
/** Longest wait for a build in seconds, unless the options say otherwise: the longest time of a build. */
const BUILD_TIMEOUT = 3600;

/** A definition file: its YAML or JSON, or its fields. */
export type TemplateDocument = string | Uint8Array | Readonly<Record<string, unknown>>;

/** A template could not be built. `build.error` has the phase, the field and the last lines. */
export class BuildError extends HotdeskError {
  /** The build that failed. */
  readonly build: Schemas["TemplateBuild"];

  constructor(build: Schemas["TemplateBuild"]) {
    super(`The build of ${build.ref} failed: ${build.error ?? "no reason is known"}`);
    this.build = build;
  }
}

/**
 * Templates of the account and of the service. A reference is `namespace/name@version`; the namespace is `default`, that of
 * the account, when absent.
 */
export class Templates {
  readonly #hotdesk: Hotdesk;

  constructor(hotdesk: Hotdesk) {
    this.#hotdesk = hotdesk;
  }

  get #api(): Api {
    return this.#hotdesk.api;
  }

  /** Returns the templates of the account. */
  async list(options: Call = {}): Promise<Schemas["Template"][]> {
    return (await answerOf(this.#api.GET("/templates", init(options)))).templates;
  }

  /** Returns the templates of the service, which every account may launch. */
  async listGlobal(options: Call = {}): Promise<Schemas["Template"][]> {
    return (await answerOf(this.#api.GET("/templates/global", init(options)))).templates;
  }

  /** Returns a template: its normalised document, and the status of its build. */
  async get(ref: string, options: Call = {}): Promise<Schemas["Template"]> {
    const params = { path: partsOf(ref) };
    return answerOf(this.#api.GET("/templates/{namespace}/{name}/{version}", { params, ...init(options) }));
  }

  /** Checks a definition file, and stores nothing. `body.errors` of the error with status 422 has what is wrong. */
  validate(template: TemplateDocument, options: Call = {}): Promise<Schemas["ValidTemplate"]> {
    return answerOf(this.#api.POST("/templates/validate", { ...document(template, options) }));
  }

  /**
   * Publishes a definition file. With `build`, its build is begun; with `force`, it replaces another document at the reference,
   * which no computer may use.
   */
  publish(
    template: TemplateDocument,
    options: Call & { build?: boolean; force?: boolean } = {},
  ): Promise<Schemas["PublishedTemplate"]> {
    const params = { query: { auto_build: options.build, force: options.force } };
    return answerOf(this.#api.POST("/templates", { params, ...document(template, options) }));
  }

  /** Begins the build of a template; one that is built already stays so. */
  async build(ref: string, options: Call = {}): Promise<Schemas["TemplateBuild"]> {
    const params = { path: partsOf(ref) };
    return answerOf(this.#api.POST("/templates/{namespace}/{name}/{version}/build", { params, ...init(options) }));
  }

  /** Returns the state of the last build: `not_built`, `building`, `ready` or `failed`. */
  async buildStatus(ref: string, options: Call = {}): Promise<Schemas["TemplateBuild"]> {
    const params = { path: partsOf(ref) };
    return answerOf(this.#api.GET("/templates/{namespace}/{name}/{version}/build", { params, ...init(options) }));
  }

  /** Gives the log of the last build from its first line, until the build ends. */
  async *buildLog(ref: string, options: Call = {}): AsyncGenerator<Schemas["BuildLogEntry"], void, undefined> {
    const params = { path: partsOf(ref) };
    const path = "/templates/{namespace}/{name}/{version}/build/events";
    const body = await answerOf(this.#api.GET(path, { params, parseAs: "stream", ...init(options) }));
    for await (const event of eventsOf(body, options.signal)) yield JSON.parse(event) as Schemas["BuildLogEntry"];
  }

  /**
   * Waits until a template is built. Throws a {@link BuildError} when its build failed, and a {@link TimeoutError} after
   * `timeout` seconds (3600).
   */
  async waitForBuild(ref: string, options: Call & { timeout?: number } = {}): Promise<Schemas["TemplateBuild"]> {
    const timeout = options.timeout ?? BUILD_TIMEOUT;
    const end = Date.now() + timeout * 1000;
    for (;;) {
      const build = await this.buildStatus(ref, options);
      if (build.status === "ready") return build;
      if (build.status === "failed") throw new BuildError(build);
      if (Date.now() > end) throw new TimeoutError(`The build of ${build.ref} is ${build.status} after ${timeout} s`);
      await sleep(PAUSE, options.signal);
    }
  }

  /** Ends the build of a template; nothing of it is left. */
  async cancelBuild(ref: string, options: Call = {}): Promise<void> {
    const params = { path: partsOf(ref) };
    const path = "/templates/{namespace}/{name}/{version}/build";
    await answerOf(this.#api.DELETE(path, { params, ...init(options) }));
  }

  /** Deletes a template. Its computers go on. */
  async delete(ref: string, options: Call = {}): Promise<void> {
    const params = { path: partsOf(ref) };
    await answerOf(this.#api.DELETE("/templates/{namespace}/{name}/{version}", { params, ...init(options) }));
  }

  /** Creates a computer from a template, as {@link Hotdesk.createComputer} does. */
  async launch(ref: string, options: Omit<NewComputer, "template_ref" | "image"> = {}): Promise<Computer> {
    return this.#hotdesk.createComputer({ ...options, template_ref: wholeOf(ref) });
  }

  /** Creates a computer to try a template, which the service deletes after an hour. */
  async run(ref: string, options: Call = {}): Promise<Computer> {
    const made = await answerOf(this.#api.POST("/templates/run", { body: { ref: wholeOf(ref) }, ...init(options) }));
    return this.#hotdesk.computer(made.id, { signal: options.signal });
  }
}

/** Returns the body of a definition file. JSON is YAML, too. */
function document(template: TemplateDocument, options: Call) {
  const isText = typeof template === "string" || template instanceof Uint8Array;
  const { signal, headers } = newCall(options);
  return {
    body: new Blob([(isText ? template : JSON.stringify(template)) as BlobPart]),
    bodySerializer: (body: Blob) => body,
    headers: { ...headers, "Content-Type": "application/yaml" },
    ...signal,
  };
}

/** Returns namespace, name and version of a reference; the namespace is `default` when absent. Throws for another text. */
function partsOf(ref: string) {
  const [, namespace = "default", name, version] = /^(?:([^/@]+)\/)?([^/@]+)@(.+)$/.exec(ref) ?? [];
  if (name === undefined || version === undefined) {
    throw new HotdeskError(`"${ref}" is no reference of a template: use namespace/name@version`);
  }
  return { namespace, name, version };
}

/** Returns a reference with its namespace. */
export function wholeOf(ref: string): string {
  const { namespace, name, version } = partsOf(ref);
  return `${namespace}/${name}@${version}`;
}
