//! Viewer page: noVNC in a page that connects to a computer's RFB socket.
//!
//! The page holds no secret, except the form token of a signed-in person, who gets a ticket by it. Others
//! have a ticket in the URL's fragment, which browsers do not send, or type in a password. noVNC (MPL-2.0) is
//! the chunk of the console's build that has it, so that the program contains it once.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

use crate::AppState;
use crate::web::console::asset_address;
use crate::web::page::protect;
use hotdesk_base::hex::hex;
use hotdesk_domain::error::Error;
use hotdesk_http::encode::percent_encode;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;

/// Content security policy: the page's own scripts and styles, and sockets to its origin. noVNC draws JPEG
/// rectangles and pointers as `data:` and `blob:` images. [`page`] replaces [`NO_FRAMES`].
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The part of [`POLICY`] that forbids frames.
const NO_FRAMES: &str = "frame-ancestors 'none'";
/// The URL of each asset holds a hash of all assets, so that it can be cached forever.
const CACHE_FOREVER: &str = "public, max-age=31536000, immutable";
/// Beginning and end of the name of the console's chunk with noVNC.
const NOVNC: (&str, &str) = ("rfb-", ".js");
/// Beginning and end of the name of the file with the licences.
const LICENSES: (&str, &str) = ("licenses-", ".txt");
/// Style sheet of the page, with the console's colours.
const STYLE: &str =
    concat!(include_str!("../../../clients/console/src/app/tokens.css"), include_str!("page/viewer.css"),);

/// Address of a file of the console's build, from the page and from its script: both are two levels deep.
fn console_file((start, end): (&str, &str)) -> String {
    asset_address(start, end).map_or_else(String::new, |address| format!("../..{address}"))
}

/// Name and content of each asset.
static ASSETS: LazyLock<[(&str, Bytes); 4]> = LazyLock::new(|| {
    let script = include_str!("page/viewer.js").replace("{novnc}", &console_file(NOVNC));
    [
        ("icon.svg", Bytes::from_static(include_bytes!("page/icon.svg"))),
        ("start.js", Bytes::from_static(include_bytes!("page/start.js"))),
        ("viewer.css", Bytes::from_static(STYLE.as_bytes())),
        ("viewer.js", script.into()),
    ]
});

/// First digits of a hash of all assets.
static RELEASE: LazyLock<String> = LazyLock::new(|| {
    let hash = ASSETS
        .iter()
        .fold(Sha256::new(), |hash, (name, content)| hash.chain_update(name).chain_update(content));
    hex(&hash.finalize()[..8])
});

/// The page with the URLs of its assets. It preloads noVNC, so that the browser requests it together with the
/// script that imports it.
static INDEX: LazyLock<String> = LazyLock::new(|| {
    let page = include_str!("page/index.html").replace("{novnc}", &console_file(NOVNC));
    let page = page.replace("{licenses}", &console_file(LICENSES));
    page.replace("{assets}", &format!("../../viewer/{}", *RELEASE))
});

/// Returns the routes of the page and its assets.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/desktops/{id}", get(enter))
        .route("/desktops/{id}/view", get(page))
        .route("/viewer/{release}/{name}", get(asset))
}

/// `GET /desktops/{id}`, the `url` of a computer's record: redirects to the viewer.
async fn enter(Path(id): Path<String>) -> Redirect {
    Redirect::temporary(&format!("/desktops/{}/view", percent_encode(&id)))
}

/// `GET /desktops/{id}/view`. It does not reveal whether the computer exists. Pages of
/// `web.allowed_origins` may show it in a frame.
async fn page(State(app): State<AppState>, headers: HeaderMap) -> Result<Response> {
    let who = app.sessions.signed_in(&headers).await?;
    let page = INDEX.replace("{csrf}", who.as_ref().map_or("", |who| &who.csrf));
    let mut response = answer("text/html; charset=utf-8", "no-store", page.into());
    let origins = app.hosts.origins();
    if !origins.is_empty() {
        let policy = POLICY.replace(NO_FRAMES, &format!("frame-ancestors {}", origins.join(" ")));
        let policy = HeaderValue::from_str(&policy).map_err(Error::internal)?;
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
        // This field knows no list of origins (RFC 7034 section 2.1).
        response.headers_mut().remove(header::X_FRAME_OPTIONS);
    }
    Ok(response)
}

/// `GET /viewer/{release}/{name}`.
async fn asset(Path((release, name)): Path<(String, String)>) -> Result<Response> {
    let found = ASSETS.iter().find(|(known, _)| release == *RELEASE && name == *known);
    let (name, content) = found.ok_or_else(|| Error::not_found("Not found"))?;
    let kind = mime_guess::from_path(name).first_raw().unwrap_or("text/plain");
    Ok(answer(kind, CACHE_FOREVER, content.clone()))
}

fn answer(kind: &'static str, cache: &'static str, bytes: Bytes) -> Response {
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    protect(headers, HeaderValue::from_static(POLICY));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn novnc_is_that_of_the_console_s_build() {
        let novnc = console_file(NOVNC);
        assert!(novnc.starts_with("../../app/assets/rfb-") && novnc.ends_with(".js"), "{novnc}");
        let (_, script) = ASSETS.iter().find(|(name, _)| *name == "viewer.js").expect("the script");
        let script = std::str::from_utf8(script).expect("text");
        assert!(script.contains(&format!("import RFB from \"{novnc}\";")), "{script}");
        assert!(INDEX.contains(&novnc) && INDEX.contains(&console_file(LICENSES)), "{}", *INDEX);
        let left = ["{novnc}", "{licenses}", "{assets}"].into_iter().find(|place| INDEX.contains(place));
        assert_eq!(left, None);
    }
}
