// Requests for help: agents that wait for a person, at the top of every page and as browser notifications.

import { A, useLocation, useNavigate } from "@solidjs/router";
import Bell from "lucide-solid/icons/bell";
import { createEffect, createMemo, createSignal, createUniqueId, For, on, Show } from "solid-js";
import { computers, controls } from "../api/live";
import { Button, notify } from "../ui";

interface Request {
  name: string;
  text: string;
  /** Address of its screen. */
  address: string;
  /** What no other request has. */
  key: string;
}

/** Id of the boot screen. */
const BOOT = "default";
/** States in which no agent waits any more: control ends with a stop, which is not told. */
const ENDED: readonly string[] = ["stopped", "error", "deleting"];
/** Notified requests that are remembered, so that another connection does not repeat them; the oldest are forgotten. */
const MOST_NOTIFIED = 100;

const [permission, setPermission] = createSignal("Notification" in window ? Notification.permission : "denied");
const notified = new Set<string>();

/** Returns the request on a screen, `<computer id>/<screen id>`; undefined when there is none. */
function requestOf(at: string): Request | undefined {
  const [id = "", screen = ""] = at.split("/");
  const help = controls[at]?.help;
  const computer = computers[id];
  if (!help || !computer || ENDED.includes(computer.status)) return undefined;
  const address = `/console/computers/${id}/screen?screen=${encodeURIComponent(screen)}`;
  return { name: computer.name, text: help.message, address, key: `${at} ${help.since}` };
}

/** Shows a notification of the browser, once for each request. */
function announce(request: Request, open: () => void): void {
  if (notified.has(request.key)) return;
  notified.add(request.key);
  for (const oldest of notified) {
    if (notified.size <= MOST_NOTIFIED) break;
    notified.delete(oldest);
  }
  try {
    const shown = new Notification(`${request.name} asks for help`, { body: request.text, tag: request.key });
    shown.onclick = () => {
      window.focus();
      open();
      shown.close();
    };
  } catch {
    // Browsers of phones let no page do it, whatever they permit.
    setPermission("denied");
    notify({ text: "This browser shows no notifications. Requests for help are at the top of every page." });
  }
}

/** Button by which a person allows notifications of requests; nothing once they have decided. */
export function NotifyMe() {
  return (
    <Show when={permission() === "default"}>
      <Button title="Shows a notification of the browser when an agent asks for help"
        onClick={() => void Notification.requestPermission().then(setPermission)}>
        <Bell size={16} aria-hidden="true" />Notify me
      </Button>
    </Show>
  );
}

/** The requests, each with a link to its screen, whose page has the request itself. The shell has one. */
export function HelpRequests() {
  // Texts, so that a link stays when another request comes or goes.
  const screens = createMemo(() => Object.keys(controls).filter((at) => requestOf(at) !== undefined));
  const navigate = useNavigate();
  const location = useLocation();
  const heading = createUniqueId();
  const isOpen = (at: string) => {
    const [id = "", screen = ""] = at.split("/");
    const page = `/console/computers/${id}`;
    const isItsPage = location.pathname === page || location.pathname === `${page}/screen`;
    return isItsPage && (location.query["screen"] || BOOT) === screen;
  };
  const shown = createMemo(() => screens().filter((at) => !isOpen(at)));
  const keys = createMemo(() => screens().map((at) => requestOf(at)?.key).join("\n"));
  createEffect(on([keys, permission], () => {
    if (permission() !== "granted") return;
    for (const request of screens().map(requestOf)) if (request) announce(request, () => navigate(request.address));
  }));
  return (
    // It is there before the first request, so that screen readers tell it.
    <div role="status">
      <Show when={shown().length > 0}>
        <section class="help-requests" aria-labelledby={heading}>
          <div class="bar">
            <h2 id={heading}>Agents ask for help</h2>
            <span class="grow" />
            {/* The page of the computers has the button all the time. */}
            <Show when={location.pathname !== "/console"}><NotifyMe /></Show>
          </div>
          <ul>
            <For each={shown()}>
              {(at) => (
                <Show when={requestOf(at)}>
                  {(request) => <li><A href={request().address}>{request().name}</A>: {request().text}</li>}
                </Show>
              )}
            </For>
          </ul>
        </section>
      </Show>
    </div>
  );
}
