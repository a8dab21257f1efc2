//! What a client used, over HTTP: for a month, as JSON or CSV; and what AI models cost it.

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Shared;
use hotdesk_base::clock::{month, month_of, now_ms};
use hotdesk_domain::access::check_account_wide;
use hotdesk_domain::client::{dollars, micros};
use hotdesk_domain::error::Error;
use hotdesk_domain::usage::{MONTHS_KEPT, by_computer, kept_since, total};
use hotdesk_http::encode::attachment;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::client::{ClientUsage, ComputerUsage, RecordSpend, SpendRecorded, UsageQuery};

/// Longest id and longest note of a cost, in characters.
const MAX_TEXT: usize = 255;

/// The routes of usage.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(usage)).routes(routes!(spend))
}

/// What a client used in a month: this one or one of the 13 before it, also a client that was removed. As CSV: a row per computer,
/// then one of the client as a whole, whose `computer_id` is empty.
#[utoipa::path(get, path = "/v1/accounts/{client_id}/usage", tag = "clients",
    params(("client_id" = String, Path), UsageQuery), responses((status = 200, description = "The usage",
        content((ClientUsage = "application/json"), (String = "text/csv")))))]
async fn usage(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Query(query): Query<UsageQuery>,
) -> Result<Response> {
    check_account_wide(&caller, "see clients")?;
    let id = id.parse().map_err(|_| Error::not_found("Client not found"))?;
    let client = app.store.past_client(caller.account, id).await?;
    let now = now_ms();
    let text = query.month.unwrap_or_else(|| month_of(now));
    let within = month(&text).ok_or_else(|| Error::invalid("month must be YYYY-MM"))?;
    if within.end <= kept_since(now) {
        return Err(
            Error::invalid(format!("usage is kept for this month and the {MONTHS_KEPT} before it")).into()
        );
    }
    let csv = match query.format.as_deref() {
        None | Some("json") => false,
        Some("csv") => true,
        Some(_) => return Err(Error::invalid("format must be json or csv").into()),
    };
    let used = by_computer(&app.store.runs_of(id, &within).await?, &within, now);
    let all = total(used.values());
    let told = ClientUsage {
        account_id: id.to_string(),
        external_id: client.external_id,
        month: text,
        billed_to: client.terms.billed_to.name().to_owned(),
        computer_hours: all.computer_hours,
        ram_gb_hours: all.ram_gb_hours,
        ai_spend_usd: dollars(app.store.spent(id, &within).await?),
        computers: used
            .iter()
            .map(|(computer, used)| ComputerUsage {
                computer_id: computer.to_string(),
                computer_hours: used.computer_hours,
                ram_gb_hours: used.ram_gb_hours,
            })
            .collect(),
    };
    if !csv {
        return Ok(Json(told).into_response());
    }
    let name = attachment(&format!("usage-{}.csv", told.month));
    let headers =
        [(header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, written(&told)).into_response())
}

/// Writes down what AI models cost a client. Above its cap of the month 402 `credits_exhausted`, and nothing is written.
#[utoipa::path(post, path = "/v1/accounts/{client_id}/spend", tag = "clients", params(("client_id" = String, Path)),
    request_body = RecordSpend, responses((status = 200, description = "It is written down", body = SpendRecorded)))]
async fn spend(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body(wanted): Body<RecordSpend>,
) -> Result<Json<SpendRecorded>> {
    let client = app.find_client(&caller, &id).await?;
    let (entry, note) = (wanted.entry_id.trim(), wanted.note.unwrap_or_default());
    if entry.is_empty() || entry.chars().count() > MAX_TEXT || note.chars().count() > MAX_TEXT {
        return Err(Error::invalid(format!(
            "entry_id must be 1 to {MAX_TEXT} characters, and note at most as many"
        ))
        .into());
    }
    let amount = micros("amount_usd", wanted.amount_usd)?;
    let fresh = app.store.spend(&client, entry, amount, &note).await?;
    let within = month(&month_of(now_ms())).ok_or_else(|| Error::internal("this month has no bounds"))?;
    let spent = app.store.spent(client.id, &within).await?;
    Ok(Json(SpendRecorded { success: true, repeated: !fresh, ai_spend_usd: dollars(spent) }))
}

/// The usage as CSV (RFC 4180).
fn written(told: &ClientUsage) -> String {
    let mut text = String::from(
        "month,account_id,external_id,billed_to,computer_id,computer_hours,ram_gb_hours,ai_spend_usd\r\n",
    );
    let mut row = |computer: &str, hours: f64, ram: f64, spend: f64| {
        let ClientUsage { month, account_id, external_id, billed_to, .. } = told;
        let external_id = quoted(external_id);
        text += &format!(
            "{month},{account_id},{external_id},{billed_to},{computer},{hours:.6},{ram:.6},{spend:.6}\r\n"
        );
    };
    for one in &told.computers {
        row(&one.computer_id, one.computer_hours, one.ram_gb_hours, 0.0);
    }
    row("", told.computer_hours, told.ram_gb_hours, told.ai_spend_usd);
    text
}

/// A field that somebody chose (RFC 4180 section 2). A sheet takes what begins so for a formula: a quote before it makes it
/// text.
fn quoted(field: &str) -> String {
    let formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']);
    format!("\"{}{}\"", if formula { "'" } else { "" }, field.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_never_a_formula_and_never_two() {
        for (field, expected) in [
            ("acme", "\"acme\""),
            ("a,b \"c\"", "\"a,b \"\"c\"\"\""),
            ("=1+1", "\"'=1+1\""),
            ("@x", "\"'@x\""),
        ] {
            assert_eq!(quoted(field), expected);
        }
    }
}
