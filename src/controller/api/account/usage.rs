//! Usage of a client over HTTP: a month as JSON or CSV, and costs of AI models.

use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use hotdesk_base::clock;
use hotdesk_base::time::parse_month;
use hotdesk_domain::billing::usage::{RETAINED_MONTHS, by_computer, retained_since, total};
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::check_account_wide;
use hotdesk_domain::identity::client::{dollars, micros};
use hotdesk_http::encode::attachment;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Path, Query};
use hotdesk_wire::identity::client::{ClientUsage, ComputerUsage, RecordSpend, SpendRecorded, UsageQuery};

/// Longest id and longest note of a cost, in characters.
const MAX_TEXT: usize = 255;

/// Returns the routes of usage.
pub fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(usage)).routes(routes!(spend))
}

/// Returns the usage of a client in a month.
///
/// The month is the current one or one of the 13 before it. A removed client's usage is available too. The
/// CSV has one row for each computer, then one for the whole client with an empty `computer_id`.
#[utoipa::path(get, path = "/v1/accounts/{client_id}/usage", tag = "clients",
    params(("client_id" = String, Path), UsageQuery), responses((status = 200, description = "The usage",
        content((ClientUsage = "application/json"), (String = "text/csv")))))]
async fn usage(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(query): Query<UsageQuery>,
) -> Result<Response> {
    check_account_wide(&caller, "see clients")?;
    let id = id.parse().map_err(|_| Error::not_found("Client not found"))?;
    let client = app.store.past_client(caller.account, id).await?;
    let now = clock::now();
    let text = query.month.unwrap_or_else(|| now.month());
    let within = parse_month(&text).ok_or_else(|| Error::invalid("month must be YYYY-MM"))?;
    if within.end <= retained_since(now) {
        return Err(Error::invalid(format!(
            "usage is stored for this month and {RETAINED_MONTHS} before it"
        ))
        .into());
    }
    let csv = match query.format.as_deref() {
        None | Some("json") => false,
        Some("csv") => true,
        Some(_) => return Err(Error::invalid("format must be json or csv").into()),
    };
    let used = by_computer(&app.store.runs_of(id, &within).await?, &within, now);
    let all = total(used.values());
    let record = ClientUsage {
        account_id: id.to_string(),
        external_id: client.external_id,
        month: text,
        billed_to: client.terms.billed_to.name().to_owned(),
        computer_hours: all.computer_hours,
        ram_gb_hours: all.ram_gb_hours,
        ai_spend_usd: dollars(app.store.ai_spend(id, &within).await?),
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
        return Ok(Json(record).into_response());
    }
    let name = attachment(&format!("usage-{}.csv", record.month));
    let headers =
        [(header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, to_csv(&record)).into_response())
}

/// Records what AI models cost a client.
///
/// A cost above the client's monthly cap is 402 `credits_exhausted`, and is not recorded.
#[utoipa::path(post, path = "/v1/accounts/{client_id}/spend", tag = "clients",
    params(("client_id" = String, Path)),
    request_body = RecordSpend,
    responses((status = 200, description = "The cost was recorded", body = SpendRecorded)))]
async fn spend(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Body(wanted): Body<RecordSpend>,
) -> Result<Json<SpendRecorded>> {
    let client = app.clients.find(&caller, &id).await?;
    let (entry, note) = (wanted.entry_id.trim(), wanted.note.unwrap_or_default());
    if entry.is_empty() || entry.chars().count() > MAX_TEXT || note.chars().count() > MAX_TEXT {
        return Err(Error::invalid(format!(
            "entry_id must be 1 to {MAX_TEXT} characters, and note at most as many"
        ))
        .into());
    }
    let amount = micros("amount_usd", wanted.amount_usd)?;
    let fresh = app.store.add_ai_cost(&client, entry, amount, &note).await?;
    let within =
        parse_month(&clock::now().month()).ok_or_else(|| Error::internal("this month has no bounds"))?;
    let spent = app.store.ai_spend(client.id, &within).await?;
    Ok(Json(SpendRecorded { success: true, repeated: !fresh, ai_spend_usd: dollars(spent) }))
}

/// Formats the usage as CSV (RFC 4180).
fn to_csv(usage: &ClientUsage) -> String {
    let mut text = String::from(
        "month,account_id,external_id,billed_to,computer_id,computer_hours,ram_gb_hours,ai_spend_usd\r\n",
    );
    let mut row = |computer: &str, hours: f64, ram: f64, spend: f64| {
        let ClientUsage { month, account_id, external_id, billed_to, .. } = usage;
        let external_id = quoted(external_id);
        text += &format!(
            "{month},{account_id},{external_id},{billed_to},{computer},{hours:.6},{ram:.6},{spend:.6}\r\n"
        );
    };
    for one in &usage.computers {
        row(&one.computer_id, one.computer_hours, one.ram_gb_hours, 0.0);
    }
    row("", usage.computer_hours, usage.ram_gb_hours, usage.ai_spend_usd);
    text
}

/// Quotes a field that a client chose (RFC 4180 section 2). Spreadsheets take some first characters for a
/// formula; a leading apostrophe prevents that.
fn quoted(field: &str) -> String {
    let formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']);
    format!("\"{}{}\"", if formula { "'" } else { "" }, field.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_csv_field_is_quoted_and_never_a_formula() {
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
