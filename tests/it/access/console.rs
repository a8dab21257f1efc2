//! Token of the console's pages: it acts as its person, for a short time, while the browser is signed in. A91
//! (docs/authentication-rules.md).

use std::sync::Arc;

use hotdesk::domain::desktop::channel::Channel;
use hotdesk::domain::identity::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::fetch_json;
use crate::harness::browser::{Browser, page, person};
use crate::harness::caller::{Caller, HttpAnswer};
use crate::harness::long_requests::{REVOCATION_TIMEOUT, Streams, hanging_agent, until};
use crate::harness::simulation::Simulation;
use crate::people::loss::{assert_refused, ticket_path};

const ADA: &str = "ada@x.example";

async fn ask(controller: &Simulation, token: &str, method: Method, path: &str, body: Value) -> HttpAnswer {
    fetch_json(controller.request_with(token, method, path).json(&body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a91_a_page_of_the_console_acts_as_its_person() {
    let controller = Simulation::boot().await;
    let ada = person(&controller.store().await, ADA).await.id;
    let browser = Browser::signed_in(&controller.base, ADA).await;
    let issued = browser.post("/console/token", &[]).await;
    assert_eq!(
        (issued.status, &issued.headers["cache-control"]),
        (200, &"no-store".parse().expect("a value")),
        "{}",
        issued.text
    );
    let issued: Value = serde_json::from_str(&issued.text).expect("JSON");
    let own = json!({"id": ada.to_string(), "email": ADA, "full_name": "", "is_operator": false});
    assert_eq!((&issued["expires_in"], &issued["person"]), (&json!(600), &own));
    let token = issued["token"].as_str().expect("a token");
    assert!(token.starts_with("hdc_"), "it can be told from a key");

    let profile = controller.request_with(token, Method::GET, "/user/profile").send().await.expect("sent");
    assert!(profile.headers().contains_key("ratelimit"), "the rate limit of the session applies");
    assert_eq!(profile.json::<Value>().await.expect("JSON")["email"], ADA);
    let made = ask(&controller, token, Method::POST, "/workspaces", json!({"name": "home"})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let key = ask(&controller, token, Method::POST, "/keys", json!({"name": "agent"})).await;
    assert_eq!(key.status, 201, "{}", key.body);
    let text = key.body["key"].as_str().expect("a key");
    assert_eq!(ask(&controller, text, Method::GET, "/workspaces", json!({})).await.status, 200);
    // The operation whose 401 has its own text knows the token too.
    let suspend = "/computers/00000000-0000-4000-8000-000000000000/suspend";
    assert_eq!(ask(&controller, token, Method::POST, suspend, json!({})).await.status, 404);
    // A link would outlive the session.
    let link = ask(&controller, token, Method::POST, "/user/sign-in-links", json!({})).await;
    assert_eq!(link.status, 403, "{}", link.body);

    // The log says by what the person acted; a page that renews its token is no event.
    let log = ask(&controller, token, Method::GET, "/audit?limit=500", json!({})).await.body;
    let entries = log["entries"].as_array().expect("entries");
    let change = entries.iter().find(|it| it["route"] == "/workspaces").expect("the change is recorded");
    assert_eq!(
        (&change["credential"], &change["client"], &change["account_id"]),
        (&json!("session"), &json!("console"), &json!(ada.to_string())),
        "{change}"
    );
    assert!(!log.to_string().contains("/console/token") && !log.to_string().contains(token), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a91_a_token_ends_with_its_session_and_so_does_what_it_has_open() {
    let started = Arc::default();
    let controller = Simulation::boot_with(hanging_agent(&started)).await;
    let home = controller.workspace("home").await;
    let computer = controller.computer(&home, "desk").await;
    let store = controller.store().await;
    let ada = person(&store, ADA).await.id;
    store.set_member(home.parse().expect("an id"), ada, Role::Member).await.expect("a member");
    let (here, other) =
        (Browser::signed_in(&controller.base, ADA).await, Browser::signed_in(&controller.base, ADA).await);
    let (token, second) = (here.console_token().await, here.console_token().await);
    let kept = other.console_token().await;
    assert_ne!(token, second, "each page has its own");
    let streams = Streams::open(&controller, &token, &computer).await;
    let mut others = Streams::open(&controller, &kept, &computer).await;
    until(&started, 4).await;
    let by_token = Caller::new(controller.base.clone(), "/api", token.clone());
    let unused = ticket_path(&by_token, &computer, "view").await;

    assert_eq!(here.post("/sign-out", &[]).await.status, 303);
    for ended in [&token, &second] {
        let refused = ask(&controller, ended, Method::GET, "/workspaces", json!({})).await;
        assert_eq!(refused.status, 401, "{}", refused.body);
        assert!(refused.body["error"].as_str().is_some_and(|text| text.starts_with("Invalid API key")));
    }
    let ended = tokio::time::timeout(REVOCATION_TIMEOUT, streams.end()).await;
    for answer in ended.expect("every stream ends within the revocation timeout") {
        assert_eq!(answer.status(), 401);
    }
    assert_refused(controller.address(), &unused, Channel::Websockify).await;
    others.flow().await;
    assert_eq!(ask(&controller, &kept, Method::GET, "/workspaces", json!({})).await.status, 200);

    // A session that another process ends, as a command of the operator does.
    store.remove_sessions(ada, None).await.expect("ended");
    assert_eq!(ask(&controller, &kept, Method::GET, "/workspaces", json!({})).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a91_a_restart_forgets_tokens_and_keeps_people_signed_in() {
    let mut controller = Simulation::boot().await;
    person(&controller.store().await, ADA).await;
    let browser = Browser::signed_in(&controller.base, ADA).await;
    let token = browser.console_token().await;
    controller.restart().await;
    let browser = browser.at(&controller.base);
    assert_eq!(ask(&controller, &token, Method::GET, "/workspaces", json!({})).await.status, 401);
    let fresh = browser.console_token().await;
    assert_eq!(ask(&controller, &fresh, Method::GET, "/workspaces", json!({})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a91_only_a_page_of_the_service_gets_a_token() {
    let controller = Simulation::boot().await;
    person(&controller.store().await, ADA).await;
    let browser = Browser::signed_in(&controller.base, ADA).await;
    let post = |headers: &[(&str, &str)], csrf: &str| {
        let body = serde_urlencoded::to_string([("csrf", csrf)]).expect("a form");
        let request = browser.request(Method::POST, "/console/token").body(body);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    };
    let csrf = browser.csrf.as_str();
    let cases: [(&[(&str, &str)], &str); 6] = [
        (&[], ""),
        (&[], "0000"),
        (&[("origin", "http://evil.example")], csrf),
        (&[("origin", "null"), ("sec-fetch-site", "cross-site")], csrf),
        (&[("sec-fetch-site", "cross-site")], csrf),
        (&[("sec-fetch-site", "same-site")], csrf),
    ];
    for (headers, csrf) in cases {
        let refused = page(post(headers, csrf)).await;
        assert_eq!(refused.status, 403, "{headers:?} {csrf:?}");
        assert!(!refused.text.contains("hdc_"), "{}", refused.text);
    }
    let own = [("origin", &*controller.base), ("sec-fetch-site", "same-origin")];
    assert_eq!(page(post(&own, csrf)).await.status, 200, "the page's own script");
    assert_eq!(browser.get("/console/token").await.status, 405, "an address gives none");
    let anybody = Browser::new(&controller.base).send("/console/token", &[("csrf", csrf)]).await;
    assert!(anybody.status == 303 && anybody.location().starts_with("/sign-in?"), "{anybody:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_guessed_tokens_count_as_wrong_keys() {
    let controller = Simulation::boot().await;
    let mut statuses = Vec::new();
    for _ in 0..25 {
        let guess = controller.request_with("hdc_guess", Method::GET, "/workspaces");
        statuses.push(fetch_json(guess).await.status);
    }
    assert_eq!((statuses[0], statuses[19], statuses[24]), (401, 401, 429), "{statuses:?}");
}
