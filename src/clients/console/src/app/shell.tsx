// Frame of every page: navigation, requests for help, notices, questions, the command palette.

import { A, type RouteSectionProps } from "@solidjs/router";
import Bot from "lucide-solid/icons/bot";
import BookOpen from "lucide-solid/icons/book-open";
import LayoutGrid from "lucide-solid/icons/layout-grid";
import LayoutTemplate from "lucide-solid/icons/layout-template";
import ScrollText from "lucide-solid/icons/scroll-text";
import Server from "lucide-solid/icons/server";
import Settings from "lucide-solid/icons/settings";
import { createMemo, createResource, ErrorBoundary, For, Show, Suspense } from "solid-js";
import { connection } from "../api/live";
import { person } from "../api/session";
import { ConfirmHost, Failure, Loading, Notices, valueOf } from "../ui";
import { HelpRequests } from "./help";
import { Palette } from "./palette";

const PAGES = [
  { path: "/console", name: "Computers", icon: LayoutGrid, end: true },
  { path: "/console/templates", name: "Templates", icon: LayoutTemplate, end: false },
  { path: "/console/threads", name: "Threads", icon: Bot, end: false },
  { path: "/console/audit", name: "Audit log", icon: ScrollText, end: false },
  { path: "/console/settings", name: "Settings", icon: Settings, end: false },
  { path: "/docs", name: "Documentation", icon: BookOpen, end: false },
] as const;
/** The page that only the operator sees. */
const HOST = { path: "/console/host", name: "Host", icon: Server, end: false } as const;

/** The frame; the router puts the page into it. */
export function Shell(props: RouteSectionProps) {
  const [who] = createResource(person);
  const pages = createMemo(() => (valueOf(who)?.is_operator ? [...PAGES, HOST] : PAGES));
  return (
    <>
      <a class="skip" href="#content">Skip to the content</a>
      <div class="frame">
        <header class="top">
          <A class="brand" href="/console" end>hotdesk</A>
          <nav aria-label="Pages">
            <For each={pages()}>
              {(page) => (
                <A href={page.path} end={page.end} activeClass="here" aria-label={page.name} title={page.name}>
                  <page.icon size={18} aria-hidden="true" /><span>{page.name}</span>
                </A>
              )}
            </For>
          </nav>
          <Palette />
          <Show when={who()}>{(who) => <a class="who" rel="external" href="/settings">{who().full_name || who().email}</a>}</Show>
        </header>
        <Show when={connection() === "lost"}>
          <p class="banner" role="status">The connection to the service was lost. What you see may be old; connecting again…</p>
        </Show>
        <HelpRequests />
      </div>
      <main id="content" tabindex="-1">
        <ErrorBoundary fallback={(error: unknown, reset) => <Failure what="This page failed" error={error} retry={reset} />}>
          <Suspense fallback={<Loading what="the page" />}>{props.children}</Suspense>
        </ErrorBoundary>
      </main>
      <Notices />
      <ConfirmHost />
    </>
  );
}
