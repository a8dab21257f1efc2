// Templates: those of the service with their pictures, and those of the account.

import { A, useSearchParams } from "@solidjs/router";
import LayoutTemplate from "lucide-solid/icons/layout-template";
import Plus from "lucide-solid/icons/plus";
import { createMemo, createResource, For, Show, type JSX } from "solid-js";
import { answerOf, api, type Schemas } from "../../api/service";
import { createTitle } from "../../app/title";
import { Empty, Field, LinkButton, Loaded, Since } from "../../ui";
import { hardwareOf, pageOf, parseReference, textOf, type Reference } from "./reference";
import { Star, TemplateStatus } from "./parts";
import "./templates.css";

type Template = Schemas["Template"];

/** All versions of one name; the last is the newest. */
interface Group extends Reference {
  key: string;
  versions: Template[];
  newest: Template;
}

/** Puts the versions of each name together. */
function grouped(templates: readonly Template[]): Group[] {
  const groups = new Map<string, Group>();
  for (const template of templates) {
    const reference = parseReference(template.ref);
    if (!reference) continue;
    const key = `${reference.namespace}/${reference.name}`;
    const versions = [...(groups.get(key)?.versions ?? []), template];
    groups.set(key, { ...reference, key, versions, newest: template });
  }
  return [...groups.values()];
}

async function load() {
  const [service, own, starred] = await Promise.all([
    answerOf(api.GET("/templates/global")),
    answerOf(api.GET("/templates")),
    answerOf(api.GET("/templates/starred")),
  ]);
  return {
    service: grouped(service.templates),
    own: grouped(own.templates),
    stars: new Set(starred.templates.map((template) => template.ref)),
  };
}

/** The page. */
export default function Page() {
  createTitle(() => "Templates");
  const [all, { refetch }] = createResource(load);
  const [query, setQuery] = useSearchParams<{ q: string }>();
  const wanted = createMemo(() => (query.q ?? "").trim().toLowerCase());
  const shown = (groups: readonly Group[], stars: ReadonlySet<string>) => groups
    .filter((it) => `${it.key} ${textOf(it.newest, "description") ?? ""}`.toLowerCase().includes(wanted()))
    .toSorted((a, b) => Number(stars.has(b.newest.ref)) - Number(stars.has(a.newest.ref)));
  return (
    <>
      <div class="bar">
        <h1>Templates</h1>
        <span class="grow" />
        <LinkButton look="primary" href="/console/templates/new"><Plus size={16} aria-hidden="true" />New template</LinkButton>
      </div>
      <Loaded of={all} what="the templates" retry={() => void refetch()}>
        {(all) => (
          <div class="stack">
            <Field label="Find a template" type="search" value={query.q ?? ""}
              onInput={(event) => setQuery({ q: event.currentTarget.value || null }, { replace: true })} />
            <Catalogue title="Your templates" groups={shown(all().own, all().stars)} stars={all().stars}>
              <Show when={all().own.length === 0} fallback={<p class="dim">None of your templates has this text.</p>}>
                <Empty title="No template of yours yet">
                  <p>A template is a file that describes a computer. Write one, or save a computer as it is in its settings.</p>
                  <LinkButton href="/console/templates/new">Write a template</LinkButton>
                </Empty>
              </Show>
            </Catalogue>
            <Catalogue title="Templates of the service" groups={shown(all().service, all().stars)} stars={all().stars}>
              <p class="dim">None of the service's templates has this text.</p>
            </Catalogue>
          </div>
        )}
      </Loaded>
    </>
  );
}

/** A titled list; `children` are shown when it is empty. */
function Catalogue(props: { title: string; groups: readonly Group[]; stars: ReadonlySet<string>; children: JSX.Element }) {
  return (
    <section class="stack" aria-label={props.title}>
      <h2>{props.title}</h2>
      <Show when={props.groups.length > 0} fallback={props.children}>
        <ul class="templates-grid">
          <For each={props.groups}>{(group) => <Entry group={group} isStarred={props.stars.has(group.newest.ref)} />}</For>
        </ul>
      </Show>
    </section>
  );
}

function Entry(props: { group: Group; isStarred: boolean }) {
  const newest = () => props.group.newest;
  return (
    <li class="card templates-entry">
      <Show when={newest().picture} fallback={
        <div class="templates-picture"><LayoutTemplate size={40} aria-hidden="true" /></div>
      }>
        {(picture) => <img class="templates-picture" src={picture()} alt={`Desktop of ${props.group.name}`} loading="lazy" />}
      </Show>
      <div class="bar">
        <h3><A href={pageOf({ namespace: props.group.namespace, name: props.group.name })}>{props.group.name}</A></h3>
        <span class="grow" />
        <Star reference={newest().ref} isStarred={props.isStarred} />
      </div>
      <p>{textOf(newest(), "description") ?? "No description"}</p>
      <p class="dim">{hardwareOf(newest())}</p>
      <p class="templates-facts">
        <TemplateStatus status={newest().status} />
        <span>{props.group.version}</span>
        <Show when={props.group.versions.length > 1}><span class="dim">{props.group.versions.length} versions</span></Show>
        <Show when={newest().published_at}>{(time) => <span class="dim"><Since time={time()} /></span>}</Show>
      </p>
    </li>
  );
}
