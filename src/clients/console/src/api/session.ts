// Sign-in of this browser: a short-lived token for the API, which stays in this page's memory.
//
// The API accepts no cookies. The page gets a token by a form that only it can send, and a new one when the service
// refuses the old one (docs/console.md).

/** Who is signed in. */
export interface Person {
  /** UUID of the account. */
  id: string;
  email: string;
  /** Full name; it may be empty. */
  full_name: string;
  /** Whether this person operates the service. */
  is_operator: boolean;
}

interface Issued {
  token: string;
  /** Seconds until the token expires. */
  expires_in: number;
  person: Person;
}

/** Part of its validity after which a token is replaced, before requests are refused for it. */
const RENEWAL = 0.8;

let current: Promise<Issued> | undefined;
/** When the token is replaced, in milliseconds since 1970. */
let renewal = Infinity;

/** Returns the token of this page, and asks for one when there is none, it expires soon, or `refused` is the one that it has. */
export async function accessToken(refused?: string): Promise<string> {
  if (refused !== undefined && (await current?.catch(() => undefined))?.token === refused) current = undefined;
  if (Date.now() > renewal) {
    current = undefined;
    renewal = Infinity;
  }
  return (await issued()).token;
}

/** Returns who is signed in. */
export async function person(): Promise<Person> {
  return (await issued()).person;
}

/** Token of this person's forms. */
export function formToken(): string {
  return document.querySelector<HTMLMetaElement>("meta[name=form-token]")?.content ?? "";
}

/** Key of the time of the last sign-in that a refused form caused, in the tab's storage. */
const REFUSED = "hotdesk-form-refused";
/** Milliseconds within which a second refusal is no old page: the sign-in would lead back here in circles. */
const CIRCLE = 30_000;

/** Leaves for the sign-in page, which leads back. */
export function leaveForSignIn(): void {
  location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
}

function signIn(): never {
  leaveForSignIn();
  throw new Error("The sign-in has ended");
}

function issued(): Promise<Issued> {
  current ??= issue().catch((error: unknown) => {
    current = undefined;
    throw error;
  });
  return current;
}

/** Gets a page of the present sign-in instead of this one, whose form was refused. */
function renewPage(): never {
  const last = Number(sessionStorage.getItem(REFUSED) ?? 0);
  if (Date.now() - last < CIRCLE) {
    throw new Error("The service refuses this page's requests: open it by the service's own address (public_url)");
  }
  sessionStorage.setItem(REFUSED, String(Date.now()));
  signIn();
}

async function issue(): Promise<Issued> {
  const body = new URLSearchParams({ csrf: formToken() });
  // A redirect leads to the sign-in page. Requests of this mode have the origin of forms, which the service expects.
  const answer = await fetch("/console/token", { method: "POST", body, redirect: "manual", mode: "same-origin" });
  if (answer.type === "opaqueredirect") signIn();
  if (answer.status === 403) renewPage();
  if (!answer.ok) throw new Error(`The service gave no token: status ${answer.status}`);
  const fresh = (await answer.json()) as Issued;
  renewal = Date.now() + fresh.expires_in * 1000 * RENEWAL;
  return fresh;
}
