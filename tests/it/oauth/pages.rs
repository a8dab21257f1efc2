//! CORS of the OAuth endpoints: browser-based clients can use them, and no site reads a person's pages. A65
//! (docs/authentication-rules.md).

use reqwest::Method;

use super::scene::{Scene, fetch_page, form};

const PAGE: &str = "https://inspector.example";

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_any_site_read_what_leads_a_client_in() {
    let scene = Scene::boot().await;
    let (get, post) = (Method::GET, Method::POST);
    for (method, path) in [
        (&get, "/.well-known/oauth-protected-resource"),
        (&get, "/.well-known/oauth-protected-resource/mcp"),
        (&get, "/.well-known/oauth-authorization-server"),
        (&get, "/.well-known/api-catalog"),
        (&get, "/llms.txt"),
        (&get, "/openapi.json"),
        (&post, "/oauth/token"),
        (&post, "/oauth/register"),
        (&post, "/oauth/revoke"),
    ] {
        let flight = scene.controller.bare(Method::OPTIONS, path).header("origin", PAGE);
        let flight = flight
            .header("access-control-request-method", method.as_str())
            .header("access-control-request-headers", "content-type,mcp-protocol-version");
        let flight = fetch_page(flight).await;
        assert_eq!(flight.status, 200, "{path}");
        assert_eq!(flight.headers["access-control-allow-headers"], "*", "{path}");
        let allowed = flight.headers["access-control-allow-methods"].to_str().expect("text");
        assert!(allowed.split(',').any(|one| one == method.as_str()), "{path}: {allowed}");
        // The actual request, and a refused one.
        let actual = fetch_page(scene.controller.bare(method.clone(), path).header("origin", PAGE)).await;
        let wrong = fetch_page(scene.controller.bare(Method::PUT, path).header("origin", PAGE)).await;
        assert_eq!(wrong.status, 405, "{path}");
        for answer in [&flight, &actual, &wrong] {
            assert_eq!(answer.headers["access-control-allow-origin"], "*", "{path}: {}", answer.status);
            assert!(!answer.headers.contains_key("access-control-allow-credentials"), "{path}");
            assert!(!answer.headers.contains_key("set-cookie"), "{path}");
        }
    }
    // A redemption of a code from a page.
    let code = scene.code().await;
    let fields = [
        ("grant_type", "authorization_code"),
        ("client_id", &*scene.client),
        ("code", &code),
        ("code_verifier", super::scene::VERIFIER),
    ];
    let redeemed = scene.controller.bare(Method::POST, "/oauth/token").header("origin", PAGE);
    let redeemed = fetch_page(form(redeemed, &fields)).await;
    assert_eq!(
        (redeemed.status, &redeemed.headers["access-control-allow-origin"]),
        (200, &"*".parse().unwrap())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a65_no_page_of_another_site_reads_what_is_a_person_s() {
    let scene = Scene::boot().await;
    let authorize_url = scene.authorize_url(&[]);
    for path in [
        authorize_url.as_str(),
        "/oauth/authorize",
        "/sign-in",
        "/sign-out",
        "/settings",
        "/settings/keys",
        "/settings/connections",
        "/cli/approve",
        "/set-up",
        "/console",
        "/console/token",
        "/docs",
        "/api/workspaces",
        "/api/keys",
    ] {
        for method in [Method::GET, Method::POST, Method::OPTIONS] {
            let request = scene.me.request(method.clone(), path).header("origin", PAGE);
            let answer = fetch_page(request.header("access-control-request-method", "POST")).await;
            let cors_header = answer.headers.keys().find(|name| name.as_str().starts_with("access-control"));
            assert_eq!(cors_header, None, "{method} {path}: {}", answer.status);
        }
    }
}
