//! Pages and assets of the console: for whom, with which security headers, and how long they are cached
//! (docs/console.md).

use std::io::Read;

use flate2::read::GzDecoder;
use hotdesk::http::encode::percent_encode;
use reqwest::header::HeaderMap;
use reqwest::{Method, Response};

use crate::harness::browser::{Browser, person};
use crate::harness::simulation::Simulation;

const ADA: &str = "ada@x.example";

fn field<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().expect("text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn people_get_the_console_and_others_the_sign_in() {
    let controller = Simulation::boot().await;
    person(&controller.store().await, ADA).await;
    let ada = Browser::signed_in(&controller.base, ADA).await;
    let anybody = Browser::new(&controller.base);
    for path in ["/console", "/console/", "/console/computers/x?tab=files", "/docs", "/docs/api/keys"] {
        let led = anybody.get(path).await;
        let expected = format!("/sign-in?next={}", percent_encode(path));
        assert_eq!((led.status, led.location()), (303, &*expected), "{path}");

        let shown = ada.get(path).await;
        assert_eq!(shown.status, 200, "{path}: {}", shown.text);
        assert!(shown.text.contains(&format!("content=\"{}\"", ada.csrf)), "{path}: {}", shown.text);
        assert!(!shown.text.contains("{csrf}"), "{path}");
        for (name, value) in [
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cross-origin-opener-policy", "same-origin"),
            ("content-type", "text/html; charset=utf-8"),
        ] {
            assert_eq!(field(&shown.headers, name), value, "{path}: {name}");
        }
        let policy = field(&shown.headers, "content-security-policy");
        let directives: Vec<&str> = policy.split(';').map(str::trim).collect();
        for directive in [
            "default-src 'none'",
            "script-src 'self'",
            "connect-src 'self'",
            "frame-src blob:",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(directives.contains(&directive), "{path}: {directive} is not in {policy}");
        }
        let foreign = ["http:", "https:", "*", "unsafe-eval"].iter().any(|source| policy.contains(source));
        assert!(!foreign, "nothing comes from another origin: {policy}");
    }
    // Whoever is signed in already goes on to where the sign-in would have led.
    assert_eq!(ada.get("/sign-in").await.location(), "/console");
    assert_eq!(ada.get("/sign-in?next=/console/templates").await.location(), "/console/templates");
}

#[tokio::test(flavor = "multi_thread")]
async fn assets_are_cached_by_their_content_and_compressed() {
    let controller = Simulation::boot().await;
    person(&controller.store().await, ADA).await;
    let ada = Browser::signed_in(&controller.base, ADA).await;
    let shown = ada.get("/console").await.text;
    let (_, rest) = shown.split_once("src=\"/app/").unwrap_or_else(|| panic!("no script in {shown}"));
    let path = format!("/app/{}", rest.split('"').next().expect("an address"));
    // Assets are the same for everybody.
    let anybody = Browser::new(&controller.base);
    let load = async |encodings: &str| -> Response {
        let request = anybody.request(Method::GET, &path).header("accept-encoding", encodings);
        request.send().await.expect("an answer")
    };
    let plain = load("identity").await;
    let headers = plain.headers().clone();
    assert_eq!(plain.status(), 200, "{path}");
    for (name, value) in [
        ("cache-control", "public, max-age=31536000, immutable"),
        ("content-type", "text/javascript"),
        ("x-content-type-options", "nosniff"),
        ("vary", "accept-encoding"),
        ("content-encoding", ""),
    ] {
        assert_eq!(field(&headers, name), value, "{name}");
    }
    let plain = plain.bytes().await.expect("a body");
    let compressed = load("br, gzip;q=0.8").await;
    assert_eq!(field(compressed.headers(), "content-encoding"), "gzip");
    assert_eq!(field(compressed.headers(), "content-type"), "text/javascript");
    assert_eq!(field(compressed.headers(), "vary"), "accept-encoding");
    let compressed = compressed.bytes().await.expect("a body");
    let mut unpacked = Vec::new();
    GzDecoder::new(&*compressed).read_to_end(&mut unpacked).expect("gzip");
    assert!(unpacked == plain, "both are the same script");
    assert!(compressed.len() < plain.len(), "{} of {} bytes", compressed.len(), plain.len());

    for unknown in [
        "/app/",
        "/app/index.html",
        "/app/inputs",
        "/app/assets",
        "/app/assets/",
        "/app/assets/none.js",
        "/app/assets/..%2Findex.html",
        &format!("{path}.gz"),
    ] {
        assert_eq!(anybody.get(unknown).await.status, 404, "{unknown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_pages_have_their_own_assets() {
    let controller = Simulation::boot().await;
    let anybody = Browser::new(&controller.base);
    let shown = anybody.get("/sign-in").await.text;
    let (_, rest) = shown.split_once("href=\"/pages/").unwrap_or_else(|| panic!("no style sheet in {shown}"));
    let (release, _) = rest.split_once('/').expect("a release");
    for (name, kind) in [("pages.css", "text/css; charset=utf-8"), ("icon.svg", "image/svg+xml")] {
        let asset = anybody.get(&format!("/pages/{release}/{name}")).await;
        assert_eq!((asset.status, field(&asset.headers, "content-type")), (200, kind), "{name}");
        assert!(field(&asset.headers, "cache-control").ends_with("immutable"), "{name}");
    }
    assert_eq!(anybody.get(&format!("/pages/{release}/none.css")).await.status, 404);
    assert_eq!(anybody.get("/pages/0000/pages.css").await.status, 404);
}
