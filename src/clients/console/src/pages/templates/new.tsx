// New template: a definition file is written, checked while it is written, and published.

import { useBeforeLeave, useNavigate, useSearchParams } from "@solidjs/router";
import { HotdeskError } from "@hotdesk/client";
import { createResource, createSignal, onCleanup, onMount, Show } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { createTitle } from "../../app/title";
import { Button, confirm, LinkButton, Loaded, notify, Switch } from "../../ui";
import { definition, Editor } from "./editor";
import { nextVersion, pageOf, parseReference } from "./reference";
import { toYaml } from "./yaml";
import "./templates.css";

/** A file to begin with. Every part of it is explained where it is. */
const EXAMPLE = `# A template describes a computer: its hardware, its software and its files.
api_version: hotdesk/v1
name: my-template@1.0.0
hardware: {cpu: 1, ram_gb: 4}
# Packages and scripts of the build, once:
# build:
#   apt: [git, python3]
#   run:
#     - mkdir -p /srv/data
files:
  - to: /etc/motd
    inline: Welcome to my template
# Programs that run in every computer of it:
# apps:
#   - name: web
#     services:
#       - {name: web, run: exec python3 -m http.server 3000, cwd: /srv}
#     ports:
#       - {internal: 3000, protocol: http}
`;

/** The text of a template's next version. */
async function textFrom(ref: string): Promise<string> {
  const path = parseReference(ref);
  if (!path) throw new Error(`${ref} is no template: write NAMESPACE/NAME@VERSION`);
  const found = await answerOf(api.GET("/templates/{namespace}/{name}/{version}", { params: { path } }));
  const section = found.template["template"] as Record<string, unknown> | undefined;
  return toYaml({ ...found.template, template: { ...section, version: nextVersion(path.version) } });
}

/** The page. */
export default function Page() {
  createTitle(() => "New template");
  const [query] = useSearchParams<{ from: string }>();
  const [text, { refetch }] = createResource(() => query.from ?? "", (from) => (from === "" ? EXAMPLE : textFrom(from)));
  return (
    <Loaded of={text} what="the template" retry={() => void refetch()}>
      {/* The editor is for one text. */}
      {(text) => <Show when={text()} keyed>{(text) => <Form text={text} />}</Show>}
    </Loaded>
  );
}

function Form(props: { text: string }) {
  const navigate = useNavigate();
  const [query] = useSearchParams<{ from: string }>();
  const [text, setText] = createSignal(props.text);
  const [problems, setProblems] = createSignal<readonly Schemas["TemplateError"][]>();
  const [builds, setBuilds] = createSignal(true);
  const [isBusy, setBusy] = createSignal(false);
  const [failure, setFailure] = createSignal<string>();
  let isPublished = false;
  const isSafe = () => isPublished || text() === props.text;

  // The browser asks when the page itself is closed or loaded again.
  const keep = (event: BeforeUnloadEvent) => { if (!isSafe()) event.preventDefault(); };
  onMount(() => addEventListener("beforeunload", keep));
  onCleanup(() => removeEventListener("beforeunload", keep));
  useBeforeLeave((event) => {
    if (isSafe() || event.defaultPrevented) return;
    event.preventDefault();
    const question = { title: "Leave the editor?", text: "The file is not published. What you wrote is lost.", action: "Leave" };
    void confirm(question).then((yes) => { if (yes) event.retry(true); });
  });

  const send = (force: boolean) => answerOf(api.POST("/templates", {
    params: { query: { auto_build: builds(), force } },
    ...definition(text()),
  }));
  const publish = async (force = false): Promise<void> => {
    setBusy(true);
    setFailure(undefined);
    try {
      const made = await send(force);
      isPublished = true;
      notify({ text: `${made.ref} is published${made.auto_build === "building" ? " and being built" : ""}`, tone: "good" });
      const path = parseReference(made.ref);
      navigate(path ? pageOf(path) : "/console/templates");
    } catch (error) {
      await explain(error, force);
    } finally {
      setBusy(false);
    }
  };
  const explain = async (error: unknown, force: boolean) => {
    const code = error instanceof HotdeskError ? error.code : undefined;
    if (code === "template_exists" && !force) {
      const question = {
        title: "Replace the published version?",
        text: "This version is published with other contents. A new version keeps both; raise the number after the @ for that.",
        action: "Replace it",
      };
      if (await confirm(question)) await publish(true);
      return;
    }
    setFailure(error instanceof Error ? error.message : String(error));
  };

  return (
    <>
      <div class="bar">
        <h1>{query.from === undefined ? "New template" : "New version"}</h1>
        <span class="grow" />
        <Switch label="Build at once" checked={builds()} onChange={setBuilds} />
        <LinkButton href="/console/templates">Cancel</LinkButton>
        <Button look="primary" busy={isBusy()} disabled={problems()?.length !== 0} onClick={() => void publish()}>
          {isBusy() ? "Publishing…" : "Publish"}
        </Button>
      </div>
      <Show when={failure()}>{(text) => <p class="bad" role="alert">{text()}</p>}</Show>
      <Editor text={props.text} onChange={setText} onProblems={setProblems} />
    </>
  );
}
