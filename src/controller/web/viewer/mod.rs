//! How does a person see a desktop? By a page that speaks RFB to the computer's socket, with noVNC in it.
//!
//! The page is the same for everybody and holds no secret: the ticket comes in the address's fragment, which browsers
//! send to nobody, and a password is typed in. noVNC (MPL-2.0) is embedded as it was published (`packaging/dev/novnc`).

use std::sync::LazyLock;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};

use super::Shared;
use hotdesk_base::hex::hex;
use hotdesk_domain::error::Error;
use hotdesk_http::encode::percent_encode;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;

static PAGE: Dir = include_dir!("$CARGO_MANIFEST_DIR/viewer/page");
static NOVNC: Dir = include_dir!("$NOVNC_FOLDER");

/// What the browser lets the page do: its own scripts and styles, and sockets to where it came from. Pictures as
/// `data:` and `blob:` are how noVNC draws JPEG rectangles and pointers.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// What the page needs never changes under one address: the address holds a hash of all of it.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// The first digits of a hash of everything that the page loads.
static RELEASE: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (path, bytes) in files(&PAGE).into_iter().chain(files(&NOVNC)) {
        hash.update(path);
        hash.update(bytes);
    }
    hex(&hash.finalize()[..8])
});

/// The page, with the addresses of what it loads. Every module is named, so that the browser asks for all at once
/// and not for one after another as it finds them.
static INDEX: LazyLock<String> = LazyLock::new(|| {
    let page = PAGE.get_file("index.html").and_then(|file| file.contents_utf8()).unwrap_or_default();
    let modules = files(&NOVNC).into_iter().filter(|(path, _)| path.ends_with(".js"));
    let preloads: String = modules
        .map(|(path, _)| format!("<link rel=\"modulepreload\" href=\"{{assets}}/novnc/{path}\">\n"))
        .collect();
    page.replace("<!-- modules -->\n", &preloads).replace("{assets}", &format!("../../viewer/{}", *RELEASE))
});

/// The page and what it loads.
pub fn router() -> Router<Shared> {
    Router::new()
        .route("/desktops/{id}", get(enter))
        .route("/desktops/{id}/view", get(page))
        .route("/viewer/{release}/{*path}", get(asset))
}

/// `GET /desktops/{id}`, the `url` of a computer's record: whoever opens it wants to see the desktop.
async fn enter(Path(id): Path<String>) -> Redirect {
    Redirect::temporary(&format!("/desktops/{}/view", percent_encode(&id)))
}

/// `GET /desktops/{id}/view`. Whether there is such a computer is told only to who has a credential.
async fn page() -> Response {
    answer("text/html; charset=utf-8", "no-cache", INDEX.as_bytes())
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
    Ok(answer(kind, FOR_EVER, file.ok_or_else(unknown)?.contents()))
}

fn answer(kind: &'static str, cache: &'static str, bytes: &'static [u8]) -> Response {
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

/// All files of a folder by their paths in it, sorted.
fn files(folder: &'static Dir) -> Vec<(&'static str, &'static [u8])> {
    let mut found: Vec<_> = folder
        .files()
        .filter_map(|file| Some((file.path().to_str()?, file.contents())))
        .chain(folder.dirs().flat_map(files))
        .collect();
    found.sort_unstable();
    found
}
