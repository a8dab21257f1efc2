//! Page of the console: the same for every address below `/console` and `/docs`, because its script decides
//! what it shows.

use std::sync::LazyLock;

use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};

use super::BUILD;
use crate::web::page::protect;

/// Content security policy: scripts, styles, fonts and connections of this origin alone. Libraries set styles
/// of elements, which `style-src 'self'` would refuse. Previews and recordings are `blob:` addresses that the
/// page made itself; in a frame the browser's own viewer shows those of PDF files. Small pictures of screens
/// are `data:` addresses, as are noVNC's pointers. `connect-src 'self'` includes sockets of the same origin
/// (CSP Level 3, section 6.7.2.8).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' blob: data:; media-src 'self' blob:; frame-src blob:; font-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The page, with a place for the form token.
static INDEX: LazyLock<&str> =
    LazyLock::new(|| BUILD.get_file("index.html").and_then(|file| file.contents_utf8()).unwrap_or_default());

/// Renders the page for a signed-in person whose forms carry this token.
pub fn shell(csrf: &str) -> Response {
    let mut response = Html(INDEX.replace("{csrf}", csrf)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    protect(headers, HeaderValue::from_static(POLICY));
    response
}
