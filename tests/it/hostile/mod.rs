//! Tests of hostile computers and failing hosts: T4, T18 (docs/security.md).

use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::routing::get;

mod attack;
mod connections;
mod faults;
mod flood;
mod lies;
mod pictures;
mod sign_in;
mod unread;

/// Size of a hostile guest's screenshot. Two of them exceed the 128 MiB of answers of a computer, and eleven exceed what
/// an account may store.
const PICTURE_BYTES: usize = 100 * 1024 * 1024;

/// Routes of an agent whose screenshots are as large as a hostile guest makes them.
fn large_pictures() -> Router {
    let picture = Bytes::from([&b"\x89PNG\r\n\x1a\n"[..], &[0; PICTURE_BYTES]].concat());
    Router::new().route("/screenshot", get(async move || ([(header::CONTENT_TYPE, "image/png")], picture)))
}
