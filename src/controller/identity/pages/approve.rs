//! Which program asks for a key, and does its person want that? (access.md A29, A30)

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};
use serde::Deserialize;

use super::page::{Failure, csrf, page};
use crate::Shared;
use crate::auth::session::{Posted, SignedIn};
use hotdesk_http::extract::Query;

/// The page for it.
pub fn router() -> Router<Shared> {
    Router::new().route("/cli/approve", get(show).post(decide))
}

#[derive(Debug, Deserialize)]
struct Typed {
    #[serde(default)]
    code: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Approve,
    Deny,
}

#[derive(Debug, Deserialize)]
struct Decided {
    code: String,
    decision: Answer,
}

/// `GET /cli/approve`: asks, whatever the address holds; only a form decides. A code that another site's page led here with
/// is not looked up before the person says so: such pages must not use up the wrong ones that a person may type.
async fn show(
    State(app): State<Shared>,
    who: SignedIn,
    headers: HeaderMap,
    Query(typed): Query<Typed>,
) -> Result<Response, Failure> {
    if typed.code.is_empty() || is_led_here(&headers) {
        return Ok(page("Approve a program", &code_field(&typed.code)));
    }
    let (code, device) = app.device_of(who.account, &typed.code).await?;
    let body = html! {
        p { "A program asks for a key to your account. Compare this code with the one that it shows:" }
        p.code.big { (code) }
        dl.card {
            dt.dim { "It calls itself" } dd { (device.client) }
            dt.dim { "On the host" } dd { (device.hostname) }
            dt.dim { "Asked from" } dd { (device.source) }
        }
        p { strong { "Approve only if you started this yourself." } " The key reaches all of your workspaces." }
        form method="post" action="/cli/approve" {
            (csrf(&who))
            input type="hidden" name="code" value=(code);
            button name="decision" value="approve" { "Approve" } " "
            button.danger name="decision" value="deny" { "Deny" }
        }
    };
    Ok(page("Approve a program", &body))
}

/// `POST /cli/approve`.
async fn decide(
    State(app): State<Shared>,
    Posted { who, form }: Posted<Decided>,
) -> Result<Response, Failure> {
    let approve = form.decision == Answer::Approve;
    let device = app.decide_device(who.account, &form.code, approve).await?;
    let body = if approve {
        html! { p role="status" { (device.client) " on " (device.hostname) " has its key in a moment. You can close this page." } }
    } else {
        html! { p role="status" { (device.client) " on " (device.hostname) " gets no key." } }
    };
    Ok(page(if approve { "Approved" } else { "Denied" }, &body))
}

/// Whether the browser says that another site's page led here.
fn is_led_here(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_some_and(|site| matches!(site.as_bytes(), b"cross-site" | b"same-site"))
}

fn code_field(code: &str) -> Markup {
    html! {
        form.card method="get" action="/cli/approve" {
            label {
                span { "The code that the program shows" }
                input name="code" value=(code) autocomplete="off" autocapitalize="characters" spellcheck="false" required autofocus;
            }
            button { "Go on" }
        }
    }
}
