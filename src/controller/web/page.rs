//! Frame of the HTML pages: layout, style sheet and security headers.

use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use sha2::{Digest, Sha256};

use hotdesk_base::hex::hex;
use hotdesk_domain::error::{Error, Kind};
use hotdesk_http::error_response;

static STYLE: &str = include_str!("console.css");

/// First digits of the style sheet's hash. They are in its URL, so that it can be cached forever.
static RELEASE: LazyLock<String> = LazyLock::new(|| hex(&Sha256::digest(STYLE.as_bytes())[..8]));

/// Content security policy: only our style sheet, and forms to this service. [`page_to`] adds an origin when
/// a form's response redirects to another site, because browsers apply `form-action` to redirects too.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Renders a page whose forms are sent to this service.
pub fn page(title: &str, body: &Markup) -> Response {
    page_to(title, body, "")
}

/// Renders a page whose forms may also redirect to the origin `target`.
pub fn page_to(title: &str, body: &Markup, target: &str) -> Response {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · hotdesk" }
                link rel="stylesheet" href={ "/console/" (*RELEASE) "/console.css" };
            }
            body {
                header { a href="/settings" { "hotdesk" } }
                main { h1 { (title) } (body) }
            }
        }
    };
    let mut response = axum::response::Html(whole.into_string()).into_response();
    let policy = format!("{POLICY}; form-action 'self' {target}");
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
            | Kind::TooLarge
            | Kind::SlowRequest
            | Kind::UnsupportedMedia
            | Kind::RateLimited
            | Kind::Internal
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

/// `GET /console/{release}/console.css`.
pub async fn style(axum::extract::Path(release): axum::extract::Path<String>) -> Response {
    if release != *RELEASE {
        return (StatusCode::NOT_FOUND, "").into_response();
    }
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, STYLE).into_response()
}
