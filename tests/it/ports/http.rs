//! HTTP and WebSocket to programs in a real computer.

use std::time::Duration;

use futures_util::SinkExt;
use hotdesk::base::hex::hex;
use hotdesk::base::wait;
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_tungstenite::tungstenite::Message;

use super::start_server;
use crate::harness;
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor};
use crate::harness::socket::{Client, SocketEvent};

/// Answers with the request that it received; streams an answer; speaks WebSocket; has a page that tries to reach the
/// service.
pub const PROGRAM: &str = r#"
import base64, hashlib, http.server, json, os, time
SCRIPT = b"""
(async () => {
  const service = new URLSearchParams(location.search).get("service"), seen = {origin: self.origin};
  const attempt = async (name, work) => { try { seen[name] = String(await work()); } catch (error) { seen[name] = error.name; } };
  const ask = async (url, options) => { const answer = await fetch(url, options); return answer.type + " " + answer.status; };
  await attempt("cookie", () => document.cookie);
  await attempt("storage", () => { localStorage.setItem("a", "b"); return localStorage.getItem("a"); });
  await attempt("own", () => ask("told"));
  await attempt("settings", () => ask(service + "/settings", {credentials: "include"}));
  await attempt("keys", () => ask(service + "/api/keys", {credentials: "include"}));
  await attempt("made", () => ask(service + "/api/keys", {method: "POST", credentials: "include", mode: "no-cors",
    headers: {"Content-Type": "text/plain"}, body: JSON.stringify({name: "stolen"})}));
  await attempt("frame", () => new Promise((resolve) => {
    const frame = document.createElement("iframe");
    frame.onload = () => { try { resolve(frame.contentDocument.body.innerText); } catch (error) { resolve(error.name); } };
    frame.src = service + "/settings";
    document.body.append(frame);
    setTimeout(() => resolve("nothing"), 3000);
  }));
  await attempt("socket", () => new Promise((resolve) => {
    const socket = new WebSocket(new URL("socket", location.href.replace(/^http/, "ws")));
    socket.onopen = () => socket.send("hi");
    socket.onmessage = (message) => resolve(message.data);
    socket.onerror = () => resolve("refused");
  }));
  document.body.innerText = JSON.stringify(seen);
})();
"""
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        whole = b""
        while size := int(self.rfile.readline(), 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole
    def answer(self, status, content, fields):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
    def stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nfirst\r\n")
        while not os.path.exists("/tmp/go"):
            time.sleep(0.05)
        self.wfile.write(b"4\r\nlast\r\n0\r\n\r\n")
    def socket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Set-Cookie", "a=b")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while head := self.rfile.read(2):
            length = head[1] & 127
            if length == 126:
                length = int.from_bytes(self.rfile.read(2), "big")
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(length)))
            size = bytes([length]) if length < 126 else bytes([126]) + length.to_bytes(2, "big")
            self.wfile.write(head[:1] + size + data)
            if head[0] & 15 == 8:
                return
    def serve(self):
        body = self.body()
        path = self.path.split("?")[0]
        if path == "/stream":
            return self.stream()
        if path == "/socket":
            return self.socket()
        if path == "/refused":
            return self.answer(401, b"own refusal", [("WWW-Authenticate", "Basic")])
        if path == "/page":
            return self.answer(200, b"<title>page</title><p>page</p><script src=script.js></script>", [("Content-Type", "text/html")])
        if path == "/script.js":
            return self.answer(200, SCRIPT, [("Content-Type", "text/javascript")])
        if path == "/moved":
            return self.answer(302, b"", [("Location", "/login?next=1")])
        told = {"method": self.command, "path": self.path, "fields": [[name.lower(), value] for name, value in self.headers.items()],
            "length": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        self.answer(200, json.dumps(told).encode(), [("Content-Type", "application/json"), ("Set-Cookie", "guest=1; Path=/"),
            ("Access-Control-Allow-Origin", "*"), ("Clear-Site-Data", '"*"'), ("X-Total-Count", "3"), ("X-Own", "yes")])
    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = serve
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Handler).serve_forever()
"#;

/// Answers with what is no HTTP.
const NO_HTTP: &str = r#"
import socket
listening = socket.create_server(("127.0.0.1", 3001))
while True:
    with listening.accept()[0] as connection:
        # The end of the first connection, which only asks whether it listens, is no request.
        if connection.recv(65536):
            connection.sendall(b"220 mail.example ESMTP\r\n")
"#;

/// A controller with the programs in its computer, and a client that follows no redirects.
struct Scene {
    controller: RunningController,
    id: String,
    client: reqwest::Client,
}

impl Scene {
    async fn boot() -> Option<Self> {
        let (controller, _, id) = RunningController::with_a_computer().await?;
        Some(Self::on(controller, id).await)
    }

    async fn on(controller: RunningController, id: String) -> Self {
        start_server(&controller, &id, 3000, PROGRAM).await;
        start_server(&controller, &id, 3001, NO_HTTP).await;
        let client = harness::client_builder().redirect(Policy::none()).build().expect("a client");
        Self { controller, id, client }
    }

    fn path(&self, target: &str) -> String {
        format!("/api/computers/{}/ports/{target}", self.id)
    }

    fn ask(&self, method: Method, target: &str) -> RequestBuilder {
        let url = format!("{}{}", self.controller.base(), self.path(target));
        self.client.request(method, url).bearer_auth(self.controller.key())
    }

    /// Ends of established connections to the program on port 3000 (0BB8).
    async fn open_connections(&self) -> usize {
        let counted = self.controller.bash(&self.id, "grep -ci ':0BB8 .* 01 ' /proc/net/tcp || true").await;
        counted.trim().parse().expect("a number")
    }
}

async fn json_of(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.expect("an answer");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}

fn field<'a>(answer: &'a Response, name: &str) -> Option<&'a str> {
    answer.headers().get(name).map(|value| value.to_str().expect("a text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_a_program_is_reached_and_confined() {
    let Some(scene) = Scene::boot().await else { return };
    let request = scene.ask(Method::POST, "3000/a/b%2Fc?d=%2F&e").body("question");
    let request = request.header("cookie", "hotdesk_session=1").header("x-token", "own");
    let request = request.header("x-forwarded-for", "192.0.2.9").header("origin", "http://evil.example");
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let policy = "sandbox allow-scripts allow-forms allow-popups allow-downloads";
    for (name, expected) in [
        ("content-security-policy", Some(policy)),
        ("x-content-type-options", Some("nosniff")),
        ("cache-control", Some("private, no-store")),
        ("content-type", Some("application/json")),
        ("x-hotdesk-port", Some("3000")),
        ("x-total-count", Some("3")),
        ("x-own", None),
        ("set-cookie", None),
        ("clear-site-data", None),
        ("access-control-allow-origin", None),
    ] {
        assert_eq!(field(&answer, name), expected, "{name}");
    }
    let told: Value = answer.json().await.expect("JSON");
    assert_eq!((&told["method"], &told["path"]), (&json!("POST"), &json!("/a/b%2Fc?d=%2F&e")));
    assert_eq!(told["sha256"], hex(&Sha256::digest("question")));
    let received = |name: &str| {
        let fields = told["fields"].as_array().expect("fields").iter();
        let values: Vec<&Value> = fields.filter(|field| field[0] == name).map(|field| &field[1]).collect();
        values.into_iter().map(|value| value.as_str().expect("a text").to_owned()).collect::<Vec<_>>()
    };
    for hidden in ["authorization", "cookie", "origin"] {
        assert!(received(hidden).is_empty(), "{hidden} of {told}");
    }
    assert!(!told.to_string().contains(scene.controller.key()), "{told}");
    assert_eq!(received("x-token"), ["own"]);
    assert_eq!(received("host"), ["localhost:3000"]);
    assert_eq!(received("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(received("x-forwarded-host"), [scene.controller.address()]);
    assert_eq!(received("x-forwarded-proto"), ["http"]);
    assert_eq!(received("x-forwarded-prefix"), [scene.path("3000")]);

    // A body of unknown length, and every method.
    let pieces = (0..64).map(|number: u8| Ok::<_, std::io::Error>(vec![number; 64 * 1024]));
    let whole: Vec<u8> = (0..64).flat_map(|number: u8| vec![number; 64 * 1024]).collect();
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    let (status, told) = json_of(scene.ask(Method::PUT, "3000/large").body(body)).await;
    assert_eq!((status, &told["sha256"]), (200, &json!(hex(&Sha256::digest(&whole)))));
    for method in [Method::GET, Method::PATCH, Method::DELETE] {
        let (status, told) = json_of(scene.ask(method.clone(), "3000/")).await;
        assert_eq!((status, &told["method"], &told["path"]), (200, &json!(method.as_str()), &json!("/")));
    }
    let head = scene.ask(Method::HEAD, "3000/").send().await.expect("an answer");
    assert_eq!((head.status().as_u16(), field(&head, "x-hotdesk-port")), (200, Some("3000")));

    let slash = scene.ask(Method::GET, "3000?a=b").send().await.expect("an answer");
    assert_eq!((slash.status().as_u16(), field(&slash, "location")), (308, Some(&*scene.path("3000/?a=b"))));
    let moved = scene.ask(Method::GET, "3000/moved").send().await.expect("an answer");
    assert_eq!(
        (moved.status().as_u16(), field(&moved, "location")),
        (302, Some(&*scene.path("3000/login?next=1")))
    );
    let refused = scene.ask(Method::GET, "3000/refused").send().await.expect("an answer");
    assert_eq!((refused.status().as_u16(), field(&refused, "x-hotdesk-port")), (401, Some("3000")));
    assert_eq!(refused.text().await.expect("a text"), "own refusal");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_streams_and_python_s_own_server_works() {
    let Some(scene) = Scene::boot().await else { return };
    let mut stream = scene.ask(Method::GET, "3000/stream").send().await.expect("an answer");
    let chunk = stream.chunk().await.expect("a chunk").expect("the first chunk, before the last is written");
    assert_eq!(&*chunk, b"first");
    // A client that leaves ends its connection to the program, and no other.
    let open = scene.open_connections().await;
    let mut left = scene.ask(Method::GET, "3000/stream").send().await.expect("an answer");
    left.chunk().await.expect("a chunk").expect("the first chunk");
    assert!(scene.open_connections().await > open);
    drop(left);
    let ended = async || (scene.open_connections().await == open).then_some(());
    wait::until(Duration::from_secs(60), ended).await.expect("the connection of a client that left must end");
    scene.controller.bash(&scene.id, "touch /tmp/go").await;
    let chunk = stream.chunk().await.expect("a chunk").expect("the last chunk");
    assert_eq!(&*chunk, b"last");
    assert!(stream.chunk().await.expect("the end").is_none());

    let serve = "mkdir -p /tmp/pages && cd /tmp/pages && head -c 5000000 /dev/urandom >data.bin && sha256sum <data.bin && \
                 (setsid python3 -m http.server 3005 >/dev/null 2>&1 &); \
                 until (exec 3<>/dev/tcp/127.0.0.1/3005) 2>/dev/null; do sleep 0.1; done";
    let digest = scene.controller.bash(&scene.id, serve).await;
    let answer = scene.ask(Method::GET, "3005/data.bin?x=1").send().await.expect("an answer");
    assert_eq!((answer.status().as_u16(), field(&answer, "content-length")), (200, Some("5000000")));
    let content = answer.bytes().await.expect("a body");
    assert_eq!(format!("{}  -\n", hex(&Sha256::digest(&content))), digest);
    let listing =
        scene.ask(Method::GET, "3005/").send().await.expect("an answer").text().await.expect("a text");
    assert!(listing.contains("data.bin"), "{listing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_that_cannot_be_reached_say_why() {
    let Some(scene) = Scene::boot().await else { return };
    for (target, status, code, text) in [
        ("3999/", 502, "port_not_listening", "Nothing listens on port 3999"),
        ("3001/", 502, "port_broken", "port 3001"),
        ("8080/", 400, "", "the computer itself uses"),
        ("870/", 400, "", "the computer itself uses"),
        ("0/", 400, "", "1 to 65535"),
        ("65536/x", 400, "", "1 to 65535"),
        ("x/", 400, "", "must be a number"),
    ] {
        let (found, body) = json_of(scene.ask(Method::GET, target)).await;
        assert_eq!(found, status, "{target}: {body}");
        assert_eq!(body["code"].as_str().unwrap_or_default(), code, "{target}: {body}");
        assert!(body["error"].as_str().is_some_and(|error| error.contains(text)), "{target}: {body}");
        assert!(body["request_id"].is_string(), "{target}: {body}");
    }
    let (status, body) =
        json_of(scene.client.get(format!("{}{}", scene.controller.base(), scene.path("3000/")))).await;
    assert_eq!((status, &body["error"]), (401, &json!("Missing API key")));
    assert_eq!(scene.controller.act(&scene.id, "stop", json!({})).await.status, 200);
    let (status, body) = json_of(scene.ask(Method::GET, "3000/")).await;
    assert_eq!(status, 409, "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_passes_and_ends_with_its_key() {
    let Some(scene) = Scene::boot().await else { return };
    let created = scene.controller.create("/keys", json!({"name": "laptop"})).await;
    let bearer = format!("Bearer {}", created["key"].as_str().expect("a key"));
    let fields = [("authorization", bearer.as_str())];
    let open = async || Client::open(scene.controller.address(), &scene.path("3000/socket"), &fields).await;
    let mut socket = open().await.expect("an accepted socket");
    for text in ["hello", &"ä".repeat(20_000)] {
        socket.0.send(Message::text(text)).await.expect("an open socket");
        assert_eq!(socket.next().await, SocketEvent::Text(text.to_owned()));
    }
    socket.0.close(None).await.expect("an open socket");
    assert_eq!(socket.next().await, SocketEvent::Cut);

    let mut socket = open().await.expect("an accepted socket");
    socket.0.send(Message::binary(vec![1, 2, 3])).await.expect("an open socket");
    assert_eq!(socket.next().await, SocketEvent::Binary(vec![1, 2, 3]));
    assert_eq!(scene.controller.delete(&format!("/keys/{}", id_of(&created))).await.status, 200);
    assert_eq!(socket.next().await, SocketEvent::Cut);
    assert_eq!(open().await.err(), Some(401));
    // Everything that the requests opened in the computer has ended.
    let left = async || (scene.open_connections().await == 0).then_some(());
    wait::until(Duration::from_secs(60), left).await.expect("no connection to the program is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_wakes_a_computer_and_finds_its_program() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_with(&configuration).await;
    let workspace = controller.workspace("demo").await;
    let id = id_of(&controller.computer(&workspace, "one").await);
    let scene = Scene::on(controller, id).await;
    assert!(scene.controller.act(&scene.id, "suspend", json!({})).await.status < 300);
    scene.controller.until_status(&scene.id, "suspended").await;
    let (status, told) = json_of(scene.ask(Method::GET, "3000/woken")).await;
    assert_eq!((status, &told["path"]), (200, &json!("/woken")), "{told}");
}
