//! Billing events of a payment service over HTTP. They are signed, and each counts once.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;

use crate::api::api_router::{ApiRouter, routes};
use crate::{App, AppState, audit};
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerRef;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::audit::AuditAction;
use hotdesk_domain::billing::{BillingChange, Payment, Variant};
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::Role;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{parse_object, read_body};
use hotdesk_store::billing::payments::{BillingOutcome, BillingSubject, PaymentEvent};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::billing::webhook::{BillingEvent, BillingEventResult};
use hotdesk_wire::error::ErrorBody;

/// Header field with the signature of an event.
const SIGNATURE: &str = "hotdesk-signature";
/// Largest event in bytes: a few fields of text.
const MAX_EVENT: usize = 64 * 1024;
/// How far the payment service's clock may be ahead. An event from the future would stay the newest until
/// then. It is as much as a signature may differ.
const MAX_CLOCK_AHEAD: Duration = Duration::from_secs(300);
/// Longest event id in characters.
const MAX_ID: usize = 255;

/// Returns the route of billing events.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(webhook))
}

/// Accepts a signed event of a payment service.
///
/// `Hotdesk-Signature: t=SECONDS,v1=HEX` signs it: HMAC-SHA-256, with the secret of
/// `billing.webhook_secret_file`, over the Unix seconds, a dot and the body. The signature is valid for five
/// minutes. A repeated event, by its id, changes nothing. Events may come in any order: an event that is
/// older than the known state changes nothing.
#[utoipa::path(post, path = "/billing/webhook", tag = "service", request_body = BillingEvent,
    params(("Hotdesk-Signature" = Option<String>, Header, description = "`t=SECONDS,v1=HEX`")), responses(
    (status = 200, description = "The event is applied", body = BillingEventResult),
    (status = 400, description = "The event is malformed", body = ErrorBody),
    (status = 403, description = "The signature is missing, expired or wrong, or billing events are off",
        body = ErrorBody),
    (status = 404, description = "No such account or computer", body = ErrorBody),
    (status = 413, description = "The request body is too large", body = ErrorBody),
    (status = 503, description = "The database is unavailable: send the event again", body = ErrorBody)))]
async fn webhook(
    State(app): State<AppState>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<BillingEventResult>> {
    let bytes = read_body(body, MAX_EVENT).await?;
    let signature = headers.get(SIGNATURE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !app.signatures.signs(signature, &bytes, clock::now()) {
        return Err(Error::forbidden("The event's signature is missing, expired or wrong").into());
    }
    let event: BillingEvent = parse_object(&bytes)?;
    if event.id.is_empty() || event.id.chars().count() > MAX_ID {
        return Err(Error::invalid(format!("id must be 1 to {MAX_ID} characters")).into());
    }
    let ParsedEvent { subject, change, computer } = read(&app, &event).await?;
    let stored_event = PaymentEvent { id: &event.id, occurred_at: parse_occurrence(&event.occurred_at)? };
    let BillingOutcome { repeated, outdated } =
        app.store.change_billing(Some(stored_event), subject, &change, &app.plans).await?;
    record_in_audit(subject, computer.as_ref());
    let outdated = outdated.into_iter().map(str::to_owned).collect();
    Ok(Json(BillingEventResult { success: true, repeated, outdated }))
}

/// Change of an event, and the computer that it concerns, if any.
struct ParsedEvent {
    subject: BillingSubject,
    change: BillingChange,
    computer: Option<Computer>,
}

/// Records in the audit log which account or computer an accepted event concerns, so that the entry is not
/// anonymous.
fn record_in_audit(subject: BillingSubject, computer: Option<&Computer>) {
    audit::set_action(AuditAction::BillingChange);
    if let BillingSubject::Account(account) = subject {
        audit::set_account(account);
    }
    if let Some(computer) = computer {
        audit::set_workspace(computer.workspace, computer.owner, Some(Role::Owner));
        audit::set_computer(computer.id);
    }
}

/// Parses the time of an event.
fn parse_occurrence(text: &str) -> Result<UnixMillis> {
    let at = UnixMillis::parse_iso8601(text)
        .ok_or_else(|| Error::invalid("occurred_at must be an ISO 8601 time"))?;
    if at > clock::now().plus(MAX_CLOCK_AHEAD) {
        return Err(Error::invalid("occurred_at is in the future").into());
    }
    Ok(at)
}

async fn read(app: &App, event: &BillingEvent) -> Result<ParsedEvent> {
    let payment =
        parse_name(event.payment.as_deref(), Payment::from_name, "payment must be current or lapsed")?;
    match (&event.account_id, &event.computer_id) {
        (Some(account), None) => {
            if event.variant.is_some() || event.trial_ends_at.is_some() || event.device.is_some() {
                return Err(Error::invalid("variant, trial_ends_at and device are only for computers").into());
            }
            let account = account.parse().map_err(|_| Error::not_found("Account not found"))?;
            let change = BillingChange::Account { plan: event.plan.clone(), payment };
            Ok(ParsedEvent { subject: BillingSubject::Account(account), change, computer: None })
        }
        (None, Some(computer)) => {
            if event.plan.is_some() {
                return Err(Error::invalid("plan is only for accounts").into());
            }
            let unknown = || Error::not_found("Desktop not found");
            let reference: ComputerRef = computer.parse().map_err(|()| unknown())?;
            let computer = app.store.computer(&reference).await?.ok_or_else(unknown)?;
            let message = "variant must be included, trial, hourly, reservation or dedicated";
            let variant = parse_name(event.variant.as_deref(), Variant::from_name, message)?;
            let stamp = |text: &String| {
                UnixMillis::parse_iso8601(text)
                    .ok_or_else(|| Error::invalid("trial_ends_at must be an ISO 8601 time"))
            };
            let trial_ends_at = match &event.trial_ends_at {
                None => None,
                Some(end) => Some(end.as_ref().map(stamp).transpose()?),
            };
            let change = BillingChange::Computer { variant, payment, trial_ends_at, device: event.device };
            Ok(ParsedEvent {
                subject: BillingSubject::Computer(computer.id),
                change,
                computer: Some(computer),
            })
        }
        _ => Err(Error::invalid("one of account_id and computer_id is needed").into()),
    }
}

/// Parses an optional name.
fn parse_name<T>(text: Option<&str>, named: fn(&str) -> Option<T>, otherwise: &str) -> Result<Option<T>> {
    Ok(text.map(|text| named(text).ok_or_else(|| Error::invalid(otherwise))).transpose()?)
}
