//! Web pages of the origins in `web.allowed_origins`: CORS of the API, frames of the viewer, and sockets.

use hotdesk::controller::config::{Config, Web};
use hotdesk::domain::desktop::channel::Channel;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::json;

use crate::harness::simulation::Simulation;
use crate::harness::socket::{Client, SocketEvent};

const PAGE: &str = "https://app.example";
const EVIL: &str = "https://evil.example";

async fn boot() -> Simulation {
    let web = Web { allowed_origins: format!("{PAGE}, http://localhost:3000"), ..Web::default() };
    Simulation::boot_configured(Config { web, ..Config::default() }).await
}

fn has_cors(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with("access-control"))
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_listed_origins_read_the_api_with_a_key_in_a_header() {
    let controller = boot().await;
    let cases = [
        (Method::GET, "/api/workspaces", Some(controller.key()), 200),
        (Method::POST, "/api/projects", Some(controller.key()), 400),
        (Method::GET, "/workspaces", None, 401),
        (Method::GET, "/api/computers/none", Some(controller.key()), 404),
        (Method::PUT, "/api/workspaces", Some(controller.key()), 405),
        (Method::GET, "/storage/files/none/x", None, 400),
        (Method::GET, "/desktops/none/proxy/health", Some(controller.key()), 404),
    ];
    for (method, path, key, status) in cases {
        for page in [PAGE, "http://localhost:3000", EVIL, "https://app.example.evil", "null"] {
            let allowed = page == PAGE || page == "http://localhost:3000";
            let flight = controller.bare(Method::OPTIONS, path).header("origin", page);
            let flight = flight
                .header("access-control-request-method", method.as_str())
                .header("access-control-request-headers", "authorization,content-type");
            let flight = flight.send().await.expect("an answer");
            let mut request = controller.bare(method.clone(), path).header("origin", page).json(&json!({}));
            if let Some(key) = key {
                request = request.bearer_auth(key);
            }
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), status, "{method} {path} from {page}");
            assert_eq!(answer.headers()["vary"], "origin", "{method} {path} from {page}");
            for headers in [flight.headers(), answer.headers()] {
                assert!(!headers.contains_key("access-control-allow-credentials"), "{path}");
                if !allowed {
                    assert!(!has_cors(headers), "{method} {path} from {page}: {headers:?}");
                    continue;
                }
                assert_eq!(headers["access-control-allow-origin"], page, "{method} {path}");
            }
            if allowed {
                assert_eq!(flight.status(), 204, "{method} {path} from {page}");
                let methods = flight.headers()["access-control-allow-methods"].to_str().expect("text");
                assert!(methods.split(", ").any(|one| one == method.as_str()), "{methods}");
                assert_eq!(flight.headers()["access-control-allow-headers"], "authorization, *");
            }
        }
    }
    let without_origin = controller.get("/workspaces").await;
    assert_eq!(without_origin.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a65_pages_of_people_stay_closed_to_listed_origins() {
    let controller = boot().await;
    for path in [
        "/oauth/authorize",
        "/api/oauth/authorize",
        "/sign-in",
        "/settings",
        "/set-up",
        "/cli/approve",
        "/console",
        "/console/token",
        "/docs",
    ] {
        for method in [Method::GET, Method::OPTIONS] {
            let request = controller.bare(method.clone(), path).header("origin", PAGE);
            let request = request.header("access-control-request-method", "POST");
            let answer = request.send().await.expect("an answer");
            assert!(!has_cors(answer.headers()), "{method} {path}");
            assert_ne!(answer.status(), 204, "{method} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_listed_origins_may_frame_the_viewer_and_nothing_else() {
    let controller = boot().await;
    let field = async |path: &str, name: &str| {
        let answer = controller.bare(Method::GET, path).send().await.expect("an answer");
        answer.headers().get(name).map(|value| value.to_str().expect("text").to_owned())
    };
    let policy = field("/desktops/any/view", "content-security-policy").await.expect("a policy");
    assert!(policy.ends_with("frame-ancestors https://app.example http://localhost:3000"), "{policy}");
    assert_eq!(field("/desktops/any/view", "x-frame-options").await, None);
    let policy = field("/sign-in", "content-security-policy").await.expect("a policy");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(field("/sign-in", "x-frame-options").await.as_deref(), Some("DENY"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a79_sockets_of_other_origins_close_with_a_code_that_their_page_can_read() {
    let controller = boot().await;
    for channel in Channel::BY_PASSWORD {
        let path = format!("/desktops/none/ws/{}?token=x", channel.name());
        for (page, refused) in [(PAGE, false), ("http://localhost:3000", false), (EVIL, true), ("null", true)]
        {
            let opened = Client::open(controller.address(), &path, &[("origin", page)]).await;
            let closed = opened.expect("accepted").next().await;
            let SocketEvent::Closed(code, reason) = closed else { panic!("{page}: {closed:?}") };
            assert_eq!(code == 1008, refused, "{channel:?} from {page}: {code} {reason}");
            assert!(!refused || reason.contains(page), "{reason}");
        }
    }
}
