//! Sub-domains of ports: each port of each computer has an origin of its own (T4, docs/security.md).

use futures_util::SinkExt;
use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::links::link;
use super::open::boot;
use crate::harness;
use crate::harness::controller::RunningController;
use crate::harness::socket::{Client, SocketEvent};

const CONFIGURATION: &str = "[web]\nports_host = \"*.computers.localhost\"\n";

struct Scene {
    controller: RunningController,
    computer: String,
    client: reqwest::Client,
}

impl Scene {
    /// The host of a port.
    fn host(&self, port: u16) -> String {
        let (_, listening) = self.controller.address().rsplit_once(':').expect("a port");
        format!("{port}-{}.computers.localhost:{listening}", self.computer)
    }

    fn ask(&self, method: Method, host: &str, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.controller.base())).header("host", host)
    }

    async fn get(&self, host: &str, path: &str, cookie: &str) -> Response {
        self.ask(Method::GET, host, path).header("cookie", cookie).send().await.expect("an answer")
    }
}

fn field<'a>(fields: &'a HeaderMap, name: &str) -> &'a str {
    fields.get(name).map_or("", |value| value.to_str().expect("a text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_a_port_has_a_host_of_its_own() {
    let Some((controller, computer)) = boot(CONFIGURATION).await else { return };
    let client = harness::client_builder().redirect(Policy::none()).build().expect("a client");
    let scene = Scene { controller, computer, client };
    let key = scene.controller.key().to_owned();
    let list = scene.controller.get(&format!("/computers/{}/ports", scene.computer)).await.body;
    let (open, keyed) = (scene.host(3000), scene.host(3001));
    assert_eq!(list["ports"][0]["url"], format!("http://{open}/"));
    assert_eq!(list["ports"][1]["url"], format!("http://{keyed}/"));

    // Every path is the program's, with its own cookies and no sandbox.
    let request =
        scene.ask(Method::POST, &open, "/api/keys?a").header("cookie", "guest=1; hotdesk-port=x").body("{}");
    let answer = request.send().await.expect("an answer");
    let fields = answer.headers().clone();
    assert_eq!((answer.status().as_u16(), field(&fields, "x-hotdesk-port")), (200, "3000"));
    assert_eq!(field(&fields, "set-cookie"), "guest=1; Path=/");
    assert!(!fields.contains_key("content-security-policy") && !fields.contains_key("clear-site-data"));
    let told: Value = answer.json().await.expect("JSON");
    assert_eq!((&told["method"], &told["path"]), (&json!("POST"), &json!("/api/keys?a")));
    let sent = told["fields"].to_string();
    for part in [r#"["cookie","guest=1"]"#, &format!(r#"["x-forwarded-host","{open}"]"#)] {
        assert!(sent.contains(part), "{part} is not in {sent}");
    }
    assert!(!sent.contains("x-forwarded-prefix") && !sent.contains("hotdesk-port"), "{sent}");
    for path in ["/health", "/desktops/x/view", "/mcp", "/port-hosts/x", "/computers"] {
        let answer = scene.get(&open, path, "").await;
        let found = field(answer.headers(), "x-hotdesk-port").to_owned();
        assert_eq!(found, "3000", "{path}: {}", answer.status());
    }
    // The other port needs a key.
    assert_eq!(scene.get(&keyed, "/", "").await.status(), 401);
    let by_key = scene.ask(Method::GET, &keyed, "/").bearer_auth(&key).send().await.expect("an answer");
    assert_eq!((by_key.status().as_u16(), field(by_key.headers(), "x-hotdesk-port")), (200, "3001"));
    for host in ["x.computers.localhost", "computers.localhost", "3000-x.computers.localhost"] {
        assert_eq!(scene.get(host, "/", "").await.status(), 403, "{host}");
    }
    let reserved =
        scene.ask(Method::GET, &scene.host(8080), "/").bearer_auth(&key).send().await.expect("an answer");
    assert_eq!(reserved.status(), 400);

    // A link sets a cookie of this host.
    let url = link(&scene.controller, &key, &scene.computer, 3001).await;
    let path = url.strip_prefix(&format!("http://{keyed}")).expect("a link to the host");
    assert!(path.starts_with("/.well-known/hotdesk-port/"), "{path}");
    assert_eq!(scene.get(&open, path, "").await.status(), 404, "a ticket of another port");
    let entered = scene.get(&keyed, path, "").await;
    assert_eq!((entered.status().as_u16(), field(entered.headers(), "location")), (303, "/"));
    let set = field(entered.headers(), "set-cookie").to_owned();
    for part in ["hotdesk-port=", "HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=43200"] {
        assert!(set.contains(part), "{part} is not in {set}");
    }
    assert!(!set.contains("Domain"), "{set}");
    assert_eq!(scene.get(&keyed, path, "").await.status(), 404);
    let cookie = set.split(';').next().expect("a cookie").to_owned();
    let answer = scene.get(&keyed, "/a", &cookie).await;
    assert_eq!(answer.status(), 200);
    let told: Value = answer.json().await.expect("JSON");
    assert!(told["path"] == "/a" && !told.to_string().contains("hotdesk-port"), "{told}");
    let socket_fields = [("host", &*keyed), ("cookie", &*cookie)];
    let mut socket =
        Client::open(scene.controller.address(), "/socket", &socket_fields).await.expect("a socket");
    socket.0.send(Message::text("hello")).await.expect("an open socket");
    assert_eq!(socket.next().await, SocketEvent::Text("hello".to_owned()));

    // Pages of other origins use it not, and it opens nothing else.
    for (name, value) in [
        ("origin", format!("http://{open}")),
        ("origin", scene.controller.base().to_owned()),
        ("origin", "null".to_owned()),
        ("sec-fetch-site", "same-site".to_owned()),
        ("sec-fetch-site", "cross-site".to_owned()),
    ] {
        let request = scene.ask(Method::GET, &keyed, "/a").header("cookie", &cookie).header(name, &value);
        assert_eq!(request.send().await.expect("an answer").status(), 403, "{name}: {value}");
        let fields = [("host", &*keyed), ("cookie", &*cookie), (name, &*value)];
        let refused = Client::open(scene.controller.address(), "/socket", &fields).await;
        assert_eq!(refused.err(), Some(403), "{name}: {value}");
    }
    let own = scene.ask(Method::POST, &keyed, "/a").header("cookie", &cookie);
    let own = own.header("origin", format!("http://{keyed}")).send().await.expect("an answer");
    assert_eq!(own.status(), 200);
    assert_eq!(scene.get(&scene.host(3002), "/", &cookie).await.status(), 401);
    let as_key = cookie.trim_start_matches("hotdesk-port=");
    let refused =
        scene.controller.request_with(as_key, Method::GET, "/computers").send().await.expect("an answer");
    assert_eq!(refused.status(), 401);
}
