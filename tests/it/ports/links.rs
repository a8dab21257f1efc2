//! Links that open a port in a browser (T2, docs/security.md).

use std::time::Duration;

use futures_util::SinkExt;
use hotdesk::base::wait;
use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::http::PROGRAM;
use super::start_server;
use crate::access::cast::{add_account, add_key};
use crate::harness;
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;
use crate::harness::simulation::Simulation;
use crate::harness::socket::{Client, SocketEvent};

/// Longest time until the end of a key takes effect; the rule is a second.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Asks for a link with a key.
pub async fn link(controller: &RunningController, key: &str, computer: &str, port: u16) -> String {
    let path = format!("/computers/{computer}/port-tickets");
    let asked = controller.request_with(key, Method::POST, &path).json(&json!({"port": port}));
    let made = fetch_json(asked).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.body["port"], port);
    made.body["url"].as_str().expect("a link").to_owned()
}

fn client() -> reqwest::Client {
    harness::client_builder().redirect(Policy::none()).build().expect("a client")
}

fn field<'a>(fields: &'a HeaderMap, name: &str) -> &'a str {
    fields.get(name).map_or("", |value| value.to_str().expect("a text"))
}

async fn get(url: &str) -> Response {
    client().get(url).send().await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn t2_a_link_opens_its_port_alone_and_ends_with_its_key() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    start_server(&controller, &id, 3000, PROGRAM).await;
    start_server(&controller, &id, 3001, &PROGRAM.replace("3000", "3001")).await;
    let created = controller.create("/keys", json!({"name": "laptop"})).await;
    let key = created["key"].as_str().expect("a key");
    let url = link(&controller, key, &id, 3000).await;
    assert!(url.starts_with(&format!("{}/port-links/", controller.base())) && !url.contains(key), "{url}");
    // A look at it spends nothing; then it opens once.
    assert_eq!(client().head(&url).send().await.expect("an answer").status(), 200);
    let entered = get(&url).await;
    let fields = entered.headers().clone();
    assert_eq!(entered.status(), 303);
    assert_eq!(
        (field(&fields, "cache-control"), field(&fields, "referrer-policy")),
        ("no-store", "no-referrer")
    );
    assert_eq!(get(&url).await.status(), 404);
    let root = field(&fields, "location").to_owned();
    let grant = root.trim_start_matches("/ports/").trim_end_matches('/');
    assert!(root.starts_with("/ports/") && grant.len() == 32, "{root}");

    let pages = format!("{}{root}", controller.base());
    let answer =
        client().get(format!("{pages}a/b?c")).header("cookie", "hotdesk=1").send().await.expect("an answer");
    let fields = answer.headers().clone();
    assert_eq!(answer.status(), 200);
    for (name, expected) in [
        ("content-security-policy", "sandbox allow-scripts allow-forms allow-popups allow-downloads"),
        ("referrer-policy", "no-referrer"),
        ("access-control-allow-origin", "*"),
        ("cache-control", "private, no-store"),
        ("x-hotdesk-port", "3000"),
        ("set-cookie", ""),
    ] {
        assert_eq!(field(&fields, name), expected, "{name}");
    }
    let told: Value = answer.json().await.expect("JSON");
    assert_eq!(told["path"], "/a/b?c");
    let sent = told["fields"].to_string();
    assert!(sent.contains(&format!("[\"x-forwarded-prefix\",\"/ports/{grant}\"]")), "{sent}");
    assert!(!sent.contains("cookie") && !sent.contains("authorization"), "{sent}");
    let moved = get(&format!("{pages}moved")).await;
    assert_eq!(field(moved.headers(), "location"), format!("{root}login?next=1"));
    let slash = get(pages.trim_end_matches('/')).await;
    assert_eq!((slash.status().as_u16(), field(slash.headers(), "location")), (308, &*root));
    let raw = controller.raw_request(&format!("GET {root}../../api/keys HTTP/1.1")).await;
    assert!(raw.0 == 200 && raw.1.contains("/../../api/keys"), "the path is the program's: {raw:?}");

    // It is no other credential, and no other credential is it.
    let other = link(&controller, key, &id, 3000).await;
    let ticket = other.rsplit('/').next().expect("a ticket").to_owned();
    let instance = controller.record(&id).await["instance_id"].as_str().expect("an id").to_owned();
    for secret in [grant, &*ticket] {
        for path in ["/computers".to_owned(), format!("/computers/{id}/ports/3001/")] {
            let refused = fetch_json(controller.request_with(secret, Method::GET, &path)).await;
            assert_eq!(refused.status, 401, "{path}: {}", refused.body);
        }
        let screen = format!("/desktops/{instance}/ws/websockify?ticket={secret}");
        let refused =
            Client::open(controller.address(), &screen, &[]).await.expect("a socket that is closed");
        assert_eq!(refused.closed().await, 4001, "{screen}");
    }
    assert_eq!(get(&format!("{}/ports/{ticket}/", controller.base())).await.status(), 401);
    assert_eq!(get(&format!("{}/port-links/{grant}", controller.base())).await.status(), 404);
    assert_eq!(get(&format!("{}/port-hosts/", controller.base())).await.status(), 404);

    // It ends with the key, also what is open.
    let mut socket =
        Client::open(controller.address(), &format!("{root}socket"), &[]).await.expect("a socket");
    socket.0.send(Message::text("hello")).await.expect("an open socket");
    assert_eq!(socket.next().await, SocketEvent::Text("hello".to_owned()));
    let mut stream = get(&format!("{pages}stream")).await;
    assert_eq!(&*stream.chunk().await.expect("a chunk").expect("the first one"), b"first");
    assert_eq!(controller.delete(&format!("/keys/{}", id_of(&created))).await.status, 200);
    assert_eq!(socket.next().await, SocketEvent::Cut);
    let cut = tokio::time::timeout(END_TIMEOUT, stream.chunk()).await.expect("an end");
    assert!(cut.is_err(), "{cut:?}");
    assert_eq!(get(&pages).await.status(), 401);
    assert_eq!(get(&other).await.status(), 303);

    // And with the run of the computer.
    let url = link(&controller, controller.key(), &id, 3001).await;
    let root = field(get(&url).await.headers(), "location").to_owned();
    let pages = format!("{}{root}", controller.base());
    assert_eq!(get(&pages).await.status(), 200);
    assert_eq!(controller.act(&id, "restart", json!({})).await.status, 200);
    let ended = async || (get(&pages).await.status() == 401).then_some(());
    wait::until(END_TIMEOUT, ended).await.expect("the address ends with the computer's run");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_for_ports_of_the_caller_s_computers() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("home").await;
    let id = controller.computer(&workspace, "desk").await;
    let store = controller.store().await;
    let stranger = add_account(&store, "other@localhost").await;
    let foreign = add_key(&store, stranger, None).await;
    let path = format!("/computers/{id}/port-tickets");
    let refused =
        fetch_json(controller.request_with(&foreign, Method::POST, &path).json(&json!({"port": 3000}))).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    for (body, text) in [
        (json!({"port": 8080}), "the computer itself uses"),
        (json!({"port": 870}), "the computer itself uses"),
        (json!({"port": 0}), "1 to 65535"),
        (json!({"port": 70000}), "1 to 65535"),
        (json!({"port": 3000, "ttl_seconds": 0}), "ttl_seconds must be 1 to 3600"),
        (json!({"port": 3000, "ttl_seconds": 3601}), "ttl_seconds must be 1 to 3600"),
        (json!({"port": 3000, "host": "x"}), "host"),
    ] {
        let refused = controller.post(&path, body.clone()).await;
        let error = refused.body["error"].as_str().unwrap_or_default();
        assert!(refused.status == 400 && error.contains(text), "{body}: {}", refused.body);
    }
    for _ in 0..64 {
        assert_eq!(controller.post(&path, json!({"port": 3000})).await.status, 201);
    }
    assert_eq!(controller.post(&path, json!({"port": 3000})).await.status, 429);
}
