//! May an MCP client that runs in a browser find its way in, and does no page read what is a person's? (access.md A65)

use reqwest::Method;

use super::scene::{Scene, form, shown};

const PAGE: &str = "https://inspector.example";

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_any_site_read_what_leads_a_client_in() {
    let scene = Scene::set().await;
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
        let flight = scene.house.bare(Method::OPTIONS, path).header("origin", PAGE);
        let flight = flight
            .header("access-control-request-method", method.as_str())
            .header("access-control-request-headers", "content-type,mcp-protocol-version");
        let flight = shown(flight).await;
        assert_eq!(flight.status, 200, "{path}");
        assert_eq!(flight.headers["access-control-allow-headers"], "*", "{path}");
        let allowed = flight.headers["access-control-allow-methods"].to_str().expect("text");
        assert!(allowed.split(',').any(|one| one == method.as_str()), "{path}: {allowed}");
        // What is asked in earnest, refusals too.
        let asked = shown(scene.house.bare(method.clone(), path).header("origin", PAGE)).await;
        let wrong = shown(scene.house.bare(Method::PUT, path).header("origin", PAGE)).await;
        assert_eq!(wrong.status, 405, "{path}");
        for answer in [&flight, &asked, &wrong] {
            assert_eq!(answer.headers["access-control-allow-origin"], "*", "{path}: {}", answer.status);
            assert!(!answer.headers.contains_key("access-control-allow-credentials"), "{path}");
            assert!(!answer.headers.contains_key("set-cookie"), "{path}");
        }
    }
    // Tokens are had so.
    let code = scene.code().await;
    let fields = [
        ("grant_type", "authorization_code"),
        ("client_id", &*scene.client),
        ("code", &code),
        ("code_verifier", super::scene::VERIFIER),
    ];
    let redeemed = scene.house.bare(Method::POST, "/oauth/token").header("origin", PAGE);
    let redeemed = shown(form(redeemed, &fields)).await;
    assert_eq!(
        (redeemed.status, &redeemed.headers["access-control-allow-origin"]),
        (200, &"*".parse().unwrap())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a65_no_page_of_another_site_reads_what_is_a_person_s() {
    let scene = Scene::set().await;
    let asking = scene.asking(&[]);
    for path in [
        asking.as_str(),
        "/oauth/authorize",
        "/sign-in",
        "/sign-out",
        "/settings",
        "/settings/keys",
        "/settings/connections",
        "/cli/approve",
        "/set-up",
        "/api/workspaces",
        "/api/keys",
    ] {
        for method in [Method::GET, Method::POST, Method::OPTIONS] {
            let request = scene.me.request(method.clone(), path).header("origin", PAGE);
            let answer = shown(request.header("access-control-request-method", "POST")).await;
            let told = answer.headers.keys().find(|name| name.as_str().starts_with("access-control"));
            assert_eq!(told, None, "{method} {path}: {}", answer.status);
        }
    }
}
