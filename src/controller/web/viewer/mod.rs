//! Viewer page: noVNC in a page that connects to a computer's RFB socket.
//!
//! The page holds no secret, except the form token of a signed-in person, who gets a ticket by it. Others have
//! a ticket in the URL's fragment, which browsers do not send, or type in a password. noVNC (MPL-2.0) is embedded as published (`packaging/dev/novnc`).

use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};

use crate::AppState;
use hotdesk_base::hex::hex;
use hotdesk_domain::error::Error;
use hotdesk_http::encode::percent_encode;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;

static PAGE: Dir = include_dir!("$CARGO_MANIFEST_DIR/web/viewer/page");
static NOVNC: Dir = include_dir!("$NOVNC_FOLDER");

/// Content security policy: the page's own scripts and styles, and sockets to its origin. noVNC draws JPEG
/// rectangles and pointers as `data:` and `blob:` images. [`page`] replaces [`NO_FRAMES`].
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The part of [`POLICY`] that forbids frames.
const NO_FRAMES: &str = "frame-ancestors 'none'";
/// The URL of each asset holds a hash of all assets, so that it can be cached forever.
const CACHE_FOREVER: &str = "public, max-age=31536000, immutable";

/// First digits of a hash of all assets.
static RELEASE: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (path, bytes) in files(&PAGE).into_iter().chain(files(&NOVNC)) {
        hash.update(path);
        hash.update(bytes);
    }
    hex(&hash.finalize()[..8])
});

/// The page with the URLs of its assets. It preloads every module, so that the browser requests them
/// concurrently instead of one after another.
static INDEX: LazyLock<String> = LazyLock::new(|| {
    let page = PAGE.get_file("index.html").and_then(|file| file.contents_utf8()).unwrap_or_default();
    let modules = files(&NOVNC).into_iter().filter(|(path, _)| path.ends_with(".js"));
    let preloads: String = modules
        .map(|(path, _)| format!("<link rel=\"modulepreload\" href=\"{{assets}}/novnc/{path}\">\n"))
        .collect();
    page.replace("<!-- modules -->\n", &preloads).replace("{assets}", &format!("../../viewer/{}", *RELEASE))
});

/// Returns the routes of the page and its assets.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/desktops/{id}", get(enter))
        .route("/desktops/{id}/view", get(page))
        .route("/viewer/{release}/{*path}", get(asset))
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

/// `GET /viewer/{release}/{path}`.
async fn asset(Path((release, path)): Path<(String, String)>) -> Result<Response> {
    let unknown = || Error::not_found("Not found");
    if release != *RELEASE {
        return Err(unknown().into());
    }
    let file = match path.strip_prefix("novnc/") {
        Some(path) => NOVNC.get_file(path),
        None => PAGE.get_file(&path),
    };
    let kind = mime_guess::from_path(&path).first_raw().unwrap_or("text/plain");
    Ok(answer(kind, CACHE_FOREVER, Bytes::from_static(file.ok_or_else(unknown)?.contents())))
}

fn answer(kind: &'static str, cache: &'static str, bytes: Bytes) -> Response {
    let mut response = bytes.into_response();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, cache),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns all files of a folder with their paths, sorted.
fn files(folder: &'static Dir) -> Vec<(&'static str, &'static [u8])> {
    let mut found: Vec<_> = folder
        .files()
        .filter_map(|file| Some((file.path().to_str()?, file.contents())))
        .chain(folder.dirs().flat_map(files))
        .collect();
    found.sort_unstable();
    found
}
