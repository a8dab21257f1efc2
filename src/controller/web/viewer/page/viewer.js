// Viewer of a desktop: one RFB connection at a time, with automatic reconnects.
//
// It connects with a ticket from the fragment of its URL, with a ticket that it gets for the person who is signed in, or
// with the computer's password, which is typed in. All stay in this page's memory.

// The service puts the address of the console's chunk here.
import RFB from "{novnc}";

// Pauses between attempts, in milliseconds: they double from the first to the last. Up to a third is added at random,
// so that many viewers of one computer do not reconnect simultaneously.
const FIRST_PAUSE = 500;
const LAST_PAUSE = 15_000;
// A connection that lasted this long (milliseconds) resets the pauses.
const LONG_ENOUGH = 10_000;
// Longest clipboard text that the computer accepts, in bytes of UTF-8.
const MAX_CLIPBOARD = 1024 * 1024;

// Meaning of the socket's close codes for people. Without `retry` the person must reconnect.
const ENDS = {
  1001: { title: "The computer is shutting down", text: "Trying to reconnect.", retry: true },
  4003: { title: "The computer is not running", text: "Trying to reconnect.", retry: true },
  4004: { title: "No such computer", text: "It may have been deleted. Check the address." },
  4008: { title: "Closed after half an hour", text: "The screen did not change, and there was no input." },
  4502: { title: "The screen does not exist", text: "Trying to reconnect.", retry: true },
};
const BROKEN = { title: "The connection was lost", text: "Trying to reconnect.", retry: true };

const part = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);
const screen = query.get("screen");
const watching = ["", "1", "true"].includes(query.get("view_only"));
// Image quality, 0 to 9; lower is faster on a slow network.
const quality = /^[0-9]$/.test(query.get("quality") ?? "") ? Number(query.get("quality")) : null;

// Token of the signed-in person's forms; empty when nobody is signed in.
const formToken = document.querySelector("meta[name=form-token]").content;

let ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
let password = null;
let rfb = null;
let pause = FIRST_PAUSE;
let timer = 0;

part("sign-in").href = `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`;
// Remove the ticket from the address bar, so that it is not copied with the address.
history.replaceState(null, "", location.pathname + location.search);
// Another link to the same computer only changes the fragment, which does not reload the page.
addEventListener("hashchange", () => location.reload());

function show(tone, state, card) {
  part("state").dataset.tone = tone;
  part("state-text").textContent = state;
  part("curtain").hidden = !card;
  document.title = `${part("name").textContent} – ${state}`;
  if (!card) return;
  part("card-title").textContent = card.title;
  part("card-text").textContent = card.text ?? "";
  part("spinner").hidden = !card.spin;
  part("password-field").hidden = !card.ask;
  part("other-ways").hidden = !card.ask;
  part("go").hidden = card.spin;
  if (card.ask) part("password").focus();
  else if (!card.spin) part("go").focus();
}

function ask(title, text) {
  show("bad", "Not connected", { title, text, ask: true });
}

const desktop = location.pathname.replace(/\/view\/?$/, "");

function address() {
  const at = new URL(`${desktop}/ws/websockify`, location.href);
  at.protocol = at.protocol.replace("http", "ws");
  if (ticket) at.searchParams.set("ticket", ticket);
  else at.searchParams.set("token", password);
  if (screen) at.searchParams.set("screen", screen);
  return at.href;
}

// Gets a ticket for the signed-in person. Returns whether there is one; otherwise the card says why not.
async function getTicket() {
  if (!formToken) {
    ask("Open the desktop", "");
    return false;
  }
  show("busy", "Connecting", { title: "Connecting", spin: true });
  const form = new URLSearchParams({ csrf: formToken, view_only: watching });
  if (screen) form.set("screen", screen);
  // Without an answer the connection was lost. A redirect means that the sign-in has ended.
  const sent = { method: "POST", body: form, redirect: "manual" };
  const answer = await fetch(`${desktop}/view/ticket`, sent).catch(() => null);
  const result = await answer?.json().catch(() => null);
  if (answer?.ok && result) {
    ticket = result.ticket;
    return true;
  }
  const title = result?.error ?? BROKEN.title;
  if (answer?.type === "opaqueredirect") ask("You are signed out", "");
  else if (answer?.status === 403) ask(title, "You are signed in with an account that may not open this desktop.");
  else if (answer?.status === 404) show("bad", "Not connected", ENDS[4004]);
  else if (answer?.status === 409) show("bad", "Not connected", { title, text: "Start it, then connect again." });
  else again({ title, text: "Trying to reconnect." });
  return false;
}

async function connect() {
  clearTimeout(timer);
  if (!ticket && !password && !(await getTicket())) return;
  show("busy", "Connecting", { title: "Connecting", spin: true });
  const socket = new WebSocket(address(), "binary");
  const withTicket = Boolean(ticket);
  let began = 0;
  // An accepted connection consumes the ticket, even if it fails later.
  socket.addEventListener("open", () => { ticket = null; });
  socket.addEventListener("close", (event) => {
    rfb = null;
    tools();
    if (began && performance.now() - began > LONG_ENOUGH) pause = FIRST_PAUSE;
    ended(event.code, withTicket, began > 0);
  });
  rfb = new RFB(part("screen"), socket, { shared: true });
  rfb.background = "transparent";
  rfb.scaleViewport = true;
  if (quality !== null) rfb.qualityLevel = quality;
  rfb.viewOnly = part("view-only").getAttribute("aria-pressed") === "true";
  rfb.addEventListener("connect", () => {
    began = performance.now();
    show("good", rfb.viewOnly ? "Watching" : "Connected");
    tools();
    rfb.focus();
  });
  rfb.addEventListener("desktopname", (event) => {
    part("name").textContent = [event.detail.name, screen].filter(Boolean).join(" · ");
  });
  rfb.addEventListener("clipboard", (event) => copied(event.detail.text));
  // hotdesk's server does not ask for RFB credentials; another server at this address might.
  rfb.addEventListener("credentialsrequired", () => rfb.sendCredentials({ password: password ?? "" }));
}

function ended(code, withTicket, connected) {
  if (code === 4001 || code === 4006) {
    password = null;
    if (!withTicket) {
      return ask("That is not the password", "The password changes when the computer starts, and when a user loses access to it.");
    }
    if (!formToken) {
      return ask("This link was used or has expired", "A link opens the desktop once. Ask for a new one, or enter the password.");
    }
  } else if (!password && !ticket && !formToken) {
    const how = connected ? "The connection ended" : (ENDS[code] ?? BROKEN).title;
    return ask(how, "A link opens the desktop once. Ask for a new one, or enter the password.");
  }
  const end = ENDS[code] ?? BROKEN;
  if (end.retry) again(end);
  else show("bad", "Not connected", end);
}

// Connects again after a pause.
function again(card) {
  show("busy", "Reconnecting", { ...card, spin: true });
  timer = setTimeout(connect, pause * (1 + Math.random() / 3));
  pause = Math.min(2 * pause, LAST_PAUSE);
}

// Enables the tools that are usable now.
function tools() {
  const still = part("view-only").getAttribute("aria-pressed") === "true";
  part("view-only").disabled = watching;
  part("clipboard").disabled = still || !rfb;
  if (part("clipboard").disabled) panel(false);
}

function panel(open) {
  part("clipboard-panel").hidden = !open;
  part("clipboard").setAttribute("aria-expanded", String(open));
  if (open) part("clipboard-text").focus();
}

// Copies new text of the desktop's clipboard to this machine's clipboard, if the browser allows it.
function copied(text) {
  if (!rfb || rfb.viewOnly) return;
  part("clipboard-text").value = text;
  navigator.clipboard?.writeText(text).catch(() => {});
}

function paste(text) {
  if (!rfb || rfb.viewOnly) return;
  const tooLong = new TextEncoder().encode(text).length > MAX_CLIPBOARD;
  part("clipboard-note").hidden = !tooLong;
  if (!tooLong) rfb.clipboardPasteFrom(text);
}

part("card").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!part("password-field").hidden) {
    if (!part("password").value) return;
    [password, ticket] = [part("password").value, null];
    part("password").value = "";
  }
  pause = FIRST_PAUSE;
  connect();
});

part("view-only").addEventListener("click", () => {
  const still = part("view-only").getAttribute("aria-pressed") !== "true";
  part("view-only").setAttribute("aria-pressed", String(still));
  if (rfb) {
    rfb.viewOnly = still;
    if (part("curtain").hidden) show("good", still ? "Watching" : "Connected");
  }
  tools();
});

part("clipboard").addEventListener("click", () => panel(part("clipboard-panel").hidden));
part("clipboard-send").addEventListener("click", () => paste(part("clipboard-text").value));
part("clipboard-copy").addEventListener("click", () => {
  const text = part("clipboard-text");
  text.select();
  // Without https there is no clipboard API; the text is selected, so that the person can copy it.
  navigator.clipboard?.writeText(text.value).catch(() => {});
});
part("clipboard-panel").addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  panel(false);
  part("clipboard").focus();
});

part("full-screen").addEventListener("click", () => {
  if (document.fullscreenElement) document.exitFullscreen();
  else document.documentElement.requestFullscreen();
  rfb?.focus();
});

// The desktop gets all keys while it has the focus. Control, Alt and Shift together leave it without a pointer. Release
// these keys on the desktop too, because it does not see their release.
addEventListener("keydown", (event) => {
  if (!rfb || !(event.ctrlKey && event.altKey && event.shiftKey) || !part("screen").contains(event.target)) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  for (const [keysym, code] of [[0xffe3, "ControlLeft"], [0xffe9, "AltLeft"], [0xffe1, "ShiftLeft"]]) {
    rfb.sendKey(keysym, code, false);
  }
  rfb.blur();
  document.querySelector(".tools button:not(:disabled)").focus();
}, { capture: true });

// Sends this machine's clipboard to the desktop on focus, if the browser already has permission to read it.
addEventListener("focus", async () => {
  try {
    const allowed = await navigator.permissions.query({ name: "clipboard-read" });
    if (allowed.state === "granted") paste(await navigator.clipboard.readText());
  } catch {
    // This browser has no such permission; the panel remains.
  }
});

part("late").remove();
part("view-only").setAttribute("aria-pressed", String(watching));
tools();
connect();
