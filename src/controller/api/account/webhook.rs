//! What a payment service tells, over HTTP: signed events, each of which counts once.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::{App, Shared, audit};
use hotdesk_base::clock::{now_ms, parse_iso8601};
use hotdesk_base::ids::ComputerRef;
use hotdesk_domain::access::Role;
use hotdesk_domain::audit::Action;
use hotdesk_domain::billing::{Change, Payment, Variant};
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{parse_object, read_body};
use hotdesk_store::billing::{Event, Subject, Taken};
use hotdesk_store::computers::Computer;
use hotdesk_wire::billing::{BillingEvent, BillingEventTaken};
use hotdesk_wire::error::ErrorBody;

/// The field that signs an event.
const SIGNATURE: &str = "hotdesk-signature";
/// Largest event in bytes: a few fields of text.
const MAX_EVENT: usize = 64 * 1024;
/// How far ahead of ours a payment service's clock may be, in milliseconds: what occurs later than now would count as the newest
/// for as long as it takes to be now. As much as a signature may be off.
const AHEAD_MS: i64 = 300_000;
/// Longest event id in characters.
const MAX_ID: usize = 255;

/// The routes of the payment service.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(webhook))
}

/// Takes an event of a payment service. `Hotdesk-Signature: t=SECONDS,v1=HEX` signs it: HMAC-SHA-256, with the secret of
/// `billing.webhook_secret_file`, over the seconds since 1970, a dot and the body; within five minutes. An event that comes
/// again, by its id, changes nothing. Events may come in any order: what occurred before what is known changes nothing either.
#[utoipa::path(post, path = "/billing/webhook", tag = "service", request_body = BillingEvent,
    params(("Hotdesk-Signature" = Option<String>, Header, description = "`t=SECONDS,v1=HEX`")), responses(
    (status = 200, description = "It is so, or was before", body = BillingEventTaken),
    (status = 400, description = "The event is malformed", body = ErrorBody),
    (status = 403, description = "The signature is missing, old or not right, or no events are taken", body = ErrorBody),
    (status = 404, description = "No such account or computer", body = ErrorBody),
    (status = 413, description = "More than may be sent at once", body = ErrorBody),
    (status = 503, description = "The store is away: send it again", body = ErrorBody)))]
async fn webhook(
    State(app): State<Shared>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<BillingEventTaken>> {
    let bytes = read_body(body, MAX_EVENT).await?;
    let signature = headers.get(SIGNATURE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !app.billing.signs(signature, &bytes, now_ms()) {
        return Err(Error::forbidden("The event's signature is missing, old or not right").into());
    }
    let event: BillingEvent = parse_object(&bytes)?;
    if event.id.is_empty() || event.id.chars().count() > MAX_ID {
        return Err(Error::invalid(format!("id must be 1 to {MAX_ID} characters")).into());
    }
    let Said { subject, change, computer } = read(&app, &event).await?;
    let said = Event { id: &event.id, occurred_at: occurred(&event.occurred_at)? };
    let Taken { repeated, outdated } =
        app.store.change_billing(Some(said), subject, &change, &app.plans).await?;
    tell(subject, computer.as_ref());
    let outdated = outdated.into_iter().map(str::to_owned).collect();
    Ok(Json(BillingEventTaken { success: true, repeated, outdated }))
}

/// What an event says, and of which computer, if it is about one.
struct Said {
    subject: Subject,
    change: Change,
    computer: Option<Computer>,
}

/// Says in the log whose matter an accepted event is: it stands with what is known, not with what strangers send.
fn tell(subject: Subject, computer: Option<&Computer>) {
    audit::did(Action::BillingChange);
    if let Subject::Account(account) = subject {
        audit::on_account(account);
    }
    if let Some(computer) = computer {
        audit::about(computer.workspace, computer.owner, Some(Role::Owner));
        audit::on(computer.id);
    }
}

/// When an event occurred.
fn occurred(text: &str) -> Result<i64> {
    let at = parse_iso8601(text).ok_or_else(|| Error::invalid("occurred_at must be an ISO 8601 time"))?;
    if at > now_ms().saturating_add(AHEAD_MS) {
        return Err(Error::invalid("occurred_at lies in the future").into());
    }
    Ok(at)
}

async fn read(app: &App, event: &BillingEvent) -> Result<Said> {
    let payment = word(event.payment.as_deref(), Payment::named, "payment must be current or lapsed")?;
    match (&event.account_id, &event.computer_id) {
        (Some(account), None) => {
            if event.variant.is_some() || event.trial_ends_at.is_some() || event.device.is_some() {
                return Err(Error::invalid("variant, trial_ends_at and device are a computer's").into());
            }
            let account = account.parse().map_err(|_| Error::not_found("Account not found"))?;
            let change = Change::Account { plan: event.plan.clone(), payment };
            Ok(Said { subject: Subject::Account(account), change, computer: None })
        }
        (None, Some(computer)) => {
            if event.plan.is_some() {
                return Err(Error::invalid("plan is an account's").into());
            }
            let unknown = || Error::not_found("Desktop not found");
            let reference: ComputerRef = computer.parse().map_err(|()| unknown())?;
            let computer = app.store.computer(&reference).await?.ok_or_else(unknown)?;
            let words = "variant must be included, trial, hourly, reservation or dedicated";
            let variant = word(event.variant.as_deref(), Variant::named, words)?;
            let stamp = |text: &String| {
                parse_iso8601(text).ok_or_else(|| Error::invalid("trial_ends_at must be an ISO 8601 time"))
            };
            let trial_ends_at = match &event.trial_ends_at {
                None => None,
                Some(end) => Some(end.as_ref().map(stamp).transpose()?),
            };
            let change = Change::Computer { variant, payment, trial_ends_at, device: event.device };
            Ok(Said { subject: Subject::Computer(computer.id), change, computer: Some(computer) })
        }
        _ => Err(Error::invalid("one of account_id and computer_id is needed").into()),
    }
}

/// What a word names, if there is one.
fn word<T>(text: Option<&str>, named: fn(&str) -> Option<T>, otherwise: &str) -> Result<Option<T>> {
    Ok(text.map(|text| named(text).ok_or_else(|| Error::invalid(otherwise))).transpose()?)
}
