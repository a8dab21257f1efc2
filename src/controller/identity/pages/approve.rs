//! Page that approves or denies a program's request for a key, A29 and A30 (docs/authentication-rules.md).

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};
use serde::Deserialize;

use super::form::csrf;
use crate::AppState;
use crate::identity::auth::session::{SignedIn, SignedInForm};
use crate::web::page::{Failure, page};
use hotdesk_http::extract::Query;

/// Returns the page's routes.
pub fn router() -> Router<AppState> {
    Router::new().route("/cli/approve", get(show).post(decide))
}

#[derive(Debug, Deserialize)]
struct CodeQuery {
    #[serde(default)]
    code: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Approve,
    Deny,
}

#[derive(Debug, Deserialize)]
struct DecisionForm {
    code: String,
    decision: Decision,
}

/// `GET /cli/approve`: asks the person; only the form decides.
///
/// If another site's page led here, the code is not looked up before the person confirms it. Such pages must
/// not use up the person's attempts.
async fn show(
    State(app): State<AppState>,
    who: SignedIn,
    headers: HeaderMap,
    Query(query): Query<CodeQuery>,
) -> Result<Response, Failure> {
    if query.code.is_empty() || is_cross_site(&headers) {
        return Ok(page("Approve a program", &code_field(&query.code)));
    }
    let (code, device) = app.devices.find(who.account, &query.code).await?;
    let body = html! {
        p { "A program asks for an API key to your account. Compare this code with the one that it shows:" }
        p.code.big { (code) }
        dl.card {
            dt.dim { "Program" } dd { (device.client) }
            dt.dim { "Host name" } dd { (device.hostname) }
            dt.dim { "Address" } dd { (device.source) }
        }
        p { strong { "Approve only if you started this yourself." } " The key gives access to all of your workspaces." }
        form method="post" action="/cli/approve" {
            (csrf(&who))
            input type="hidden" name="code" value=(code);
            div.actions {
                button.button.primary name="decision" value="approve" { "Approve" }
                button.button.danger name="decision" value="deny" { "Deny" }
            }
        }
    };
    Ok(page("Approve a program", &body))
}

/// `POST /cli/approve`.
async fn decide(
    State(app): State<AppState>,
    SignedInForm { who, form }: SignedInForm<DecisionForm>,
) -> Result<Response, Failure> {
    let approve = form.decision == Decision::Approve;
    let device = app.devices.decide(who.account, &form.code, approve).await?;
    let body = if approve {
        html! { p role="status" { (device.client) " on " (device.hostname) " receives its key in a moment. You can close this page." } }
    } else {
        html! { p role="status" { (device.client) " on " (device.hostname) " receives no key." } }
    };
    Ok(page(if approve { "Approved" } else { "Denied" }, &body))
}

/// Whether the browser says that another site's page led here.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_some_and(|site| matches!(site.as_bytes(), b"cross-site" | b"same-site"))
}

fn code_field(code: &str) -> Markup {
    html! {
        form.card method="get" action="/cli/approve" {
            label.field {
                span { "The code that the program shows" }
                input name="code" value=(code) autocomplete="off" autocapitalize="characters" spellcheck="false" required autofocus;
            }
            button.button.primary { "Continue" }
        }
    }
}
