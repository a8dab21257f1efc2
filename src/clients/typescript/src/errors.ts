// Failures as classes, so that a program can tell them apart without reading text.

/** An object of a JSON answer. */
type Fields = Record<string, unknown>;

/** A failure that the API answered. The subclasses are chosen by the status. */
export class HotdeskError extends Error {
  /** Code for programs, for example `computer_asleep`; absent where the API defines none (docs/api/errors.md). */
  readonly code: string | undefined;
  /** HTTP status; 0 when there was no answer. */
  readonly status: number;
  /** Id of the request, for problem reports; absent when something before hotdesk answered. */
  readonly requestId: string | undefined;
  /** Seconds after which a retry may succeed; absent when the answer named none. */
  readonly retryAfter: number | undefined;
  /** The body of the answer, with the extra fields of its code. */
  readonly body: Fields;

  /** Thread of a run of a model that failed or was refused; undefined for other requests. */
  get threadId(): string | undefined {
    const inner = this.body["error"];
    return isObject(inner) ? text(inner["thread_id"]) : undefined;
  }

  constructor(message: string, details: Partial<HotdeskErrorDetails> & ErrorOptions = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.code = details.code;
    this.status = details.status ?? 0;
    this.requestId = details.requestId;
    this.retryAfter = details.retryAfter;
    this.body = details.body ?? {};
  }
}

/** The fields of a {@link HotdeskError}. */
export type HotdeskErrorDetails = Pick<HotdeskError, "code" | "status" | "requestId" | "retryAfter" | "body">;

/** 401: the key is missing or unknown. */
export class AuthenticationError extends HotdeskError {}

/** 402 and 403: the key is known, but the plan, its scope or a role does not allow the request. */
export class PermissionError extends HotdeskError {}

/** 404: there is no such thing. */
export class NotFoundError extends HotdeskError {}

/** 409: the state of the thing blocks the operation. */
export class ConflictError extends HotdeskError {}

/** 429: too many requests, and the retries of the client are used up. */
export class RateLimitError extends HotdeskError {}

/** 502, 503 and 504: something that is needed does not answer, or is not ready. */
export class UnavailableError extends HotdeskError {}

/** There was no complete answer: the network or the service failed. `cause` has the reason. */
export class ConnectionError extends HotdeskError {}

/** What a method waited for did not happen in time. */
export class TimeoutError extends HotdeskError {}

/** A WebSocket ended in another way than by its normal end. */
export class SocketError extends HotdeskError {
  /** Close code (docs/channels.md); 1006 when the connection broke. */
  readonly closeCode: number;

  constructor(closeCode: number, reason: string) {
    super(`The socket was closed with ${closeCode}${reason ? `: ${reason}` : ""}`);
    this.closeCode = closeCode;
  }
}

const CLASSES: Record<number, typeof HotdeskError> = {
  401: AuthenticationError,
  402: PermissionError,
  403: PermissionError,
  404: NotFoundError,
  409: ConflictError,
  429: RateLimitError,
  502: UnavailableError,
  503: UnavailableError,
  504: UnavailableError,
};

const isObject = (value: unknown): value is Fields => typeof value === "object" && value !== null;
const text = (value: unknown) => (typeof value === "string" ? value : undefined);

/**
 * Returns the error of an answer that is no success. `body` is its parsed JSON, or text of something before hotdesk. `status` is
 * that of the answer, unless the body was sent after the head of a success.
 */
export function failureOf(response: Response, body: unknown, status = response.status): HotdeskError {
  const fields = isObject(body) ? body : {};
  // Chat completions have the error form of the OpenAI API: an object in `error`.
  const inner = isObject(fields["error"]) ? fields["error"] : fields;
  // A page gets status 0 for a redirect.
  const isRedirect = status < 400;
  const unnamed = isRedirect ? "The address of the service leads to another one" : `The service answered ${status}`;
  const message = text(inner["message"]) ?? text(fields["error"]) ?? unnamed;
  return new (CLASSES[status] ?? HotdeskError)(message, {
    code: text(inner["code"]),
    status,
    requestId: text(inner["request_id"]) ?? response.headers.get("X-Request-Id") ?? undefined,
    retryAfter: retryAfter(response),
    body: fields,
  });
}

/** Status of a failure of a run by its type, where the code does not say more (docs/api/chat.md, "Errors"). */
const STATUS_OF_TYPE: Record<string, number> = {
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  conflict_error: 409,
  rate_limit_error: 429,
};
/** Status of a failure with the type `api_error` by its code. */
const STATUS_OF_CODE: Record<string, number> = {
  model_unavailable: 503,
  model_rate_limited: 503,
  unavailable: 503,
  timed_out: 504,
};

/** Returns the error of a run that failed after the head of its answer, whose status is that of a success. */
export function runFailureOf(response: Response, event: { error?: unknown }): HotdeskError {
  const inner = isObject(event.error) ? event.error : {};
  const status = STATUS_OF_TYPE[text(inner["type"]) ?? ""] ?? STATUS_OF_CODE[text(inner["code"]) ?? ""] ?? 500;
  return failureOf(response, event, status);
}

/** Returns the seconds of `Retry-After`, which is a number or a date (RFC 9110 section 10.2.3); undefined without it. */
export function retryAfter(response: Response): number | undefined {
  const value = response.headers.get("Retry-After");
  if (value === null) return undefined;
  const seconds = /^\d+$/.test(value.trim()) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}
