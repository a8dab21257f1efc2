//! Frame of the HTML pages: layout, assets and security headers.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::{DOCTYPE, Markup, html};
use sha2::{Digest, Sha256};

use crate::AppState;
use hotdesk_base::hex::hex;
use hotdesk_domain::error::{Error, Kind};
use hotdesk_http::error_response;

/// Name, media type and bytes of each file that the pages load.
static ASSETS: [(&str, &str, &[u8]); 4] = [
    ("console.css", "text/css; charset=utf-8", include_bytes!("assets/console.css")),
    ("icon.svg", "image/svg+xml", include_bytes!("viewer/page/icon.svg")),
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
    Router::new().route("/console/{release}/{name}", get(asset)).route("/favicon.ico", get(icon))
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
    format!("/console/{}/{name}", *RELEASE)
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
                link rel="stylesheet" href=(asset_url("console.css"));
                (head)
            }
            body {
                header { a href="/" { "hotdesk" } }
                main { h1 { (title) } (body) }
            }
        }
    };
    let mut response = axum::response::Html(whole.into_string()).into_response();
    let policy = format!("{POLICY}; {policy}");
    let policy = HeaderValue::from_str(policy.trim_end()).unwrap_or(HeaderValue::from_static(POLICY));
    for (name, value) in [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    ] {
        response.headers_mut().insert(name, value);
    }
    response
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
        let title = match error.kind {
            Kind::NotFound => "Not found",
            Kind::Forbidden | Kind::Unauthenticated => "Not allowed",
            Kind::Invalid
            | Kind::PaymentRequired
            | Kind::Conflict
            | Kind::Mismatched
            | Kind::Unprocessable
            | Kind::TooLarge
            | Kind::SlowRequest
            | Kind::UnsupportedMedia
            | Kind::RateLimited
            | Kind::Internal
            | Kind::BadGateway
            | Kind::Unavailable
            | Kind::TimedOut => "That did not work",
        };
        let status = error_response::status(error.kind);
        let mut response = page(title, &html! { p.bad role="alert" { (error.message) } });
        *response.status_mut() = status;
        if let Some(seconds) = error.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// `GET /console/{release}/{name}`.
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
