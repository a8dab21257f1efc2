//! Frame of the HTML pages: layout, assets and security headers.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::{DOCTYPE, Markup, html};
use sha2::{Digest, Sha256};

use crate::AppState;
use hotdesk_base::hex::hex;
use hotdesk_domain::error::{Error, Kind};
use hotdesk_http::error_response;

/// Style sheet of the pages: that of the console (`src/clients/console/src/app`) for colours, type, buttons,
/// fields and tables, then the layout.
const STYLE: &str = concat!(
    include_str!("../../../clients/console/src/app/tokens.css"),
    include_str!("../../../clients/console/src/app/base.css"),
    include_str!("assets/pages.css"),
);

/// Name, media type and bytes of each file that the pages load.
static ASSETS: [(&str, &str, &[u8]); 4] = [
    ("pages.css", "text/css; charset=utf-8", STYLE.as_bytes()),
    ("icon.svg", "image/svg+xml", include_bytes!("../viewer/page/icon.svg")),
    ("passkey.js", "text/javascript; charset=utf-8", include_bytes!("assets/passkey.js")),
    ("sign-in-link.js", "text/javascript; charset=utf-8", include_bytes!("assets/sign-in-link.js")),
];

/// First digits of a hash of all assets. They are in the URL of each, so that it can be cached forever.
static RELEASE: LazyLock<String> = LazyLock::new(|| {
    let hash = ASSETS.iter().fold(Sha256::new(), |hash, (_, _, bytes)| hash.chain_update(bytes));
    hex(&hash.finalize()[..8])
});

/// Returns the routes of the assets.
pub fn router() -> Router<AppState> {
    Router::new().route("/pages/{release}/{name}", get(asset)).route("/favicon.ico", get(icon))
}

/// Content security policy: only our style sheet, and forms to this service. [`page_to`] adds an origin when
/// a form's response redirects to another site, because browsers apply `form-action` to redirects too.
/// [`page_with_script`] admits our scripts.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Renders a page whose forms are sent to this service.
pub fn page(title: &str, body: &Markup) -> Response {
    page_to(title, body, "")
}

/// Renders a page whose forms may also redirect to the origin `target`.
pub fn page_to(title: &str, body: &Markup, target: &str) -> Response {
    frame(title, &html! {}, body, &format!("form-action 'self' {target}"))
}

/// Renders a page that runs one of our scripts.
pub fn page_with_script(title: &str, body: &Markup, script: &str) -> Response {
    let script = html! { script src=(asset_url(script)) defer {} };
    frame(title, &script, body, "form-action 'self'; script-src 'self'")
}

fn asset_url(name: &str) -> String {
    format!("/pages/{}/{name}", *RELEASE)
}

fn frame(title: &str, head: &Markup, body: &Markup, policy: &str) -> Response {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · hotdesk" }
                link rel="icon" href=(asset_url("icon.svg"));
                link rel="stylesheet" href=(asset_url("pages.css"));
                (head)
            }
            body {
                header.top { a.brand href="/" { "hotdesk" } }
                main { h1 { (title) } (body) }
            }
        }
    };
    let mut response = axum::response::Html(whole.into_string()).into_response();
    let policy = format!("{POLICY}; {policy}");
    let policy = HeaderValue::from_str(policy.trim_end()).unwrap_or(HeaderValue::from_static(POLICY));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    protect(response.headers_mut(), policy);
    response
}

/// Adds the security fields that all pages have: this content security policy, no guesses of media types, no
/// frames, no referrer, and no access by windows of other sites.
pub fn protect(headers: &mut HeaderMap, policy: HeaderValue) {
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    for (name, value) in [
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Makes a sentence of an error's message, which is often a fragment: a capital letter and a full stop. The
/// name of a field at the beginning stays as it is.
pub fn sentence(message: &str) -> String {
    let is_field = message.split(' ').next().is_some_and(|word| word.contains('_'));
    let mut rest = message.chars();
    let mut text = String::with_capacity(message.len() + 1);
    if !is_field {
        text.extend(rest.next().into_iter().flat_map(char::to_uppercase));
    }
    text.extend(rest);
    if !text.is_empty() && !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}

/// Error that is rendered as a page.
#[derive(Debug)]
pub struct Failure(pub Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(error) = self;
        if error.kind == Kind::Internal {
            tracing::error!(context = error.context, "{}", error.message);
        }
        // What happened, and what the person can do before going on elsewhere.
        let (title, next) = match error.kind {
            Kind::NotFound => ("Not found", "Check the address, or "),
            Kind::Forbidden => ("Not allowed", "Go back, or "),
            Kind::Unauthenticated => ("Not allowed", "To sign in, "),
            Kind::Internal
            | Kind::BadGateway
            | Kind::Unavailable
            | Kind::TimedOut
            | Kind::SlowRequest
            | Kind::RateLimited => ("That did not work", "Try again in a moment, or "),
            Kind::Invalid
            | Kind::PaymentRequired
            | Kind::Conflict
            | Kind::Mismatched
            | Kind::Unprocessable
            | Kind::TooLarge
            | Kind::UnsupportedMedia => ("That did not work", "Go back and change what you entered, or "),
        };
        let body = html! {
            p.bad role="alert" { (sentence(&error.message)) }
            p { (next) a href="/" { "go to the start page" } "." }
        };
        let status = error_response::status(error.kind);
        let mut response = page(title, &body);
        *response.status_mut() = status;
        if let Some(seconds) = error.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// `GET /pages/{release}/{name}`.
async fn asset(Path((release, name)): Path<(String, String)>) -> Response {
    match ASSETS.iter().find(|(known, _, _)| release == *RELEASE && name == *known) {
        Some((_, kind, bytes)) => answer(kind, "public, max-age=31536000, immutable", bytes),
        None => (StatusCode::NOT_FOUND, "").into_response(),
    }
}

/// `GET /favicon.ico`, which browsers request for pages without an icon, such as JSON.
async fn icon() -> Response {
    let [_, (_, kind, bytes), ..] = ASSETS;
    answer(kind, "public, max-age=86400", bytes)
}

fn answer(kind: &'static str, cache: &'static str, bytes: &'static [u8]) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, cache),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_becomes_a_sentence() {
        for (message, expected) in [
            ("Not found", "Not found."),
            ("the form has an invalid id", "The form has an invalid id."),
            ("This link was used.", "This link was used."),
            ("is it?", "Is it?"),
            ("full_name is too long", "full_name is too long."),
            ("über", "Über."),
            ("", ""),
        ] {
            assert_eq!(sentence(message), expected, "{message}");
        }
    }
}
