// One template: its versions, its build, its definition, and computers of it.

import { A, useNavigate, useParams } from "@solidjs/router";
import Rocket from "lucide-solid/icons/rocket";
import { createMemo, createResource, createSignal, For, Match, Show, Switch } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { person } from "../../api/session";
import { createTitle } from "../../app/title";
import { attempt, Button, confirm, Empty, Failure, LinkButton, Loading, Menu, notify, Since } from "../../ui";
import { BuildPanel } from "./build-panel";
import { Launch, Star, TemplateStatus } from "./parts";
import { editorFor, hardwareOf, isOfService, pageOf, parseReference, textOf } from "./reference";
import { toYaml } from "./yaml";
import "./templates.css";

type Path = { namespace: string; name: string };

async function load(path: Path) {
  const [versions, starred, who] = await Promise.all([
    answerOf(api.GET("/templates/{namespace}/{name}", { params: { path } })),
    answerOf(api.GET("/templates/starred")),
    person(),
  ]);
  return {
    versions: versions.templates,
    stars: new Set(starred.templates.map((template) => template.ref)),
    mayBuild: !isOfService(path) || who.is_operator,
  };
}

/** The page. */
export default function Page() {
  const params = useParams<{ namespace: string; name: string; version?: string }>();
  createTitle(() => `${params.name}${params.version === undefined ? "" : `@${params.version}`}`);
  const path = createMemo(() => ({ namespace: params.namespace, name: params.name }), undefined, {
    equals: (a, b) => a.namespace === b.namespace && a.name === b.name,
  });
  const [found, { refetch }] = createResource(path, load);
  const current = createMemo(() => {
    const all = found.error || found.state === "pending" ? undefined : found.latest;
    const template = params.version === undefined
      ? all?.versions.at(-1)
      : all?.versions.find((it) => parseReference(it.ref)?.version === params.version);
    return all && template ? { ...all, template } : undefined;
  });
  return (
    <Switch>
      <Match when={found.error as unknown}>
        {(error) => <Failure what="The template cannot be loaded" error={error()} retry={() => void refetch()} />}
      </Match>
      <Match when={current()}>
        {(current) => (
          <One template={current().template} versions={current().versions} mayBuild={current().mayBuild}
            isStarred={current().stars.has(current().template.ref)} onChange={() => void refetch()} />
        )}
      </Match>
      <Match when={found.loading}><Loading what="the template" /></Match>
      <Match when={true}>
        <Empty title="No such version">
          <p>It was deleted, or the address has another number.</p>
          <LinkButton href={pageOf(path())}>Go to the newest version</LinkButton>
        </Empty>
      </Match>
    </Switch>
  );
}

function One(props: {
  template: Schemas["Template"];
  versions: readonly Schemas["Template"][];
  mayBuild: boolean;
  isStarred: boolean;
  onChange: () => void;
}) {
  const navigate = useNavigate();
  const [launches, setLaunches] = createSignal(false);
  const reference = createMemo(() => {
    const ref = props.template.ref;
    return parseReference(ref) ?? { namespace: "", name: ref, version: "" };
  });
  const isOwn = () => !isOfService(reference());

  const remove = async () => {
    const it = reference();
    const ref = props.template.ref;
    const isAgreed = await confirm({
      title: `Delete ${ref}?`,
      text: "It cannot be launched any more. Computers of it go on.",
      action: "Delete the template",
    });
    if (!isAgreed) return;
    const done = await attempt("The template was not deleted", () =>
      answerOf(api.DELETE("/templates/{namespace}/{name}/{version}", { params: { path: { ...it } } })));
    if (!done) return;
    notify({ text: `${ref} is deleted`, tone: "good" });
    navigate("/console/templates");
  };

  return (
    <div class="stack">
      <div class="bar">
        <A href="/console/templates">Templates</A>
        <h1>{reference().name}</h1>
        <TemplateStatus status={props.template.status} />
        <Star reference={props.template.ref} isStarred={props.isStarred} />
        <span class="grow" />
        <LinkButton href={editorFor(props.template.ref)}>{isOwn() ? "New version" : "Write your own from it"}</LinkButton>
        <Button look="primary" disabled={props.template.status !== "ready"} onClick={() => setLaunches(true)}>
          <Rocket size={16} aria-hidden="true" />Launch a computer
        </Button>
        <Show when={isOwn()}>
          <Menu label="More actions" items={[{ label: "Delete this version", danger: true, onSelect: () => void remove() }]} />
        </Show>
      </div>
      <Show when={props.template.status !== "ready" && props.template.status !== "building"}>
        <p class="dim">It can be launched when it is built.</p>
      </Show>
      <div class="templates-about">
        <Show when={props.template.picture}>
          {(picture) => <img class="templates-picture" src={picture()} alt={`Desktop of ${reference().name}`} />}
        </Show>
        <div>
          <p>{textOf(props.template, "description") ?? "No description"}</p>
          <p class="dim">{hardwareOf(props.template)}</p>
          <p class="dim"><code>{props.template.ref}</code></p>
        </div>
      </div>
      <nav class="templates-versions" aria-label="Versions">
        <For each={props.versions.toReversed()}>
          {(version) => (
            <A href={pageOf(parseReference(version.ref) ?? reference())} classList={{ here: version.ref === props.template.ref }}>
              {parseReference(version.ref)?.version}
              <Show when={version.published_at}>{(time) => <small><Since time={time()} /></small>}</Show>
            </A>
          )}
        </For>
      </nav>
      <Show when={props.template.ref} keyed>
        {(ref) => (
          <BuildPanel reference={parseReference(ref) ?? reference()} status={props.template.status} mayBuild={props.mayBuild}
            onChange={() => props.onChange()} />
        )}
      </Show>
      <section class="card stack" aria-label="Definition">
        <h2>Definition</h2>
        <pre class="templates-definition" tabindex="0" aria-label="Definition file">{toYaml(props.template.template)}</pre>
      </section>
      <Show when={launches()}>
        <Launch reference={props.template.ref} name={reference().name} onClose={() => setLaunches(false)} />
      </Show>
    </div>
  );
}
