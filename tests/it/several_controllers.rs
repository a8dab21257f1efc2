//! Several controllers over one PostgreSQL database: forwarded requests, ends of access, the death of the leader, a leader
//! that stands still, and what they must have in common.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::HeaderMap;
use axum::routing::{any, get, put};
use futures_util::SinkExt;
use futures_util::future::join_all;
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use hotdesk::controller::config::{Config, StoreSettings};
use hotdesk::controller::relay::peers::Candidate;
use hotdesk::http::serve::{BoundListener, Listen, bind, serve};
use hotdesk_capability::postgres::PostgresServer;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::Message;

use crate::cli::person::Shell;
use crate::harness::browser::{Browser, PASSWORD};
use crate::harness::caller::Caller;
use crate::harness::controller::{RunningController, command};
use crate::harness::long_requests::REVOCATION_TIMEOUT;
use crate::harness::simulation::postgres_settings;
use crate::harness::socket::{Client, SocketEvent};
use crate::postgres::{names, server};

/// Longest time without writes after the death of the leader (docs/postgresql.md).
const MAX_GAP: Duration = Duration::from_secs(15);
/// Longest wait for another condition, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(40);
/// E-mail address of a person.
const ADA: &str = "ada@x.example";

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// Lines of the configuration file of a controller at an address.
fn configuration(server: &PostgresServer, url: &str, address: SocketAddr) -> String {
    let password_file = server.password_file();
    format!(
        "trusted_proxies = \"127.0.0.1\"\n[store]\nurl = \"{url}\"\npassword_file = \"{}\"\n\
         address = \"http://{address}\"\n",
        password_file.display()
    )
}

/// A folder for a further controller, with the key file and the stored files of the first one.
fn folder_beside(first: &RunningController) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a data folder");
    std::fs::copy(first.data_dir().join("hotdesk.key"), data.join("hotdesk.key")).expect("the key file");
    symlink(first.data_dir().join("blobs"), data.join("blobs")).expect("the stored files");
    folder
}

/// Two controllers; the first one leads.
struct Pair {
    // Dropped before the folder that it shares.
    follower: RunningController,
    leader: RunningController,
    url: String,
}

impl Pair {
    async fn start(server: &PostgresServer) -> Self {
        let url = server.create_database();
        let (one, other) = (free_address(), free_address());
        let folder = tempfile::tempdir().expect("a folder");
        let leader = RunningController::join(folder, one, &configuration(server, &url, one), None).await;
        let key = Some(leader.key().to_owned());
        let folder = folder_beside(&leader);
        let follower = RunningController::join(folder, other, &configuration(server, &url, other), key).await;
        let pair = Self { follower, leader, url };
        for (controller, role) in [(&pair.leader, "leader"), (&pair.follower, "follower")] {
            let health = controller.get("/health").await;
            assert_eq!((health.status, &health.body["role"]), (200, &json!(role)), "{}", health.body);
        }
        pair
    }

    /// Waits until the follower serves a write itself, and returns the time since `began`.
    async fn gap(&self, began: Instant) -> Duration {
        let served = wait::until(TIMEOUT, || async {
            let request = self.follower.request(Method::POST, "/workspaces").json(&json!({"name": "again"}));
            let answer = request.send().await.expect("the follower answers");
            if answer.status() != 201 {
                assert!([502, 503].contains(&answer.status().as_u16()), "{}", answer.status());
                return None;
            }
            Some(began.elapsed())
        });
        served.await.unwrap_or_else(|| panic!("no controller leads: {}", self.follower.log()))
    }
}

fn signal(controller: &RunningController, signal: Signal) {
    kill(Pid::from_raw(controller.pid().cast_signed()), signal).expect("the controller runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_death_of_the_leader_the_other_one_serves_and_no_answered_write_is_lost() {
    let Some(server) = server() else { return };
    let mut pair = Pair::start(&server).await;
    pair.follower.workspace("forwarded").await;
    assert_eq!(names(&pair.leader).await, ["forwarded"]);

    let requests = (0..12).map(|number| {
        let name = format!("w{number}");
        let request = pair.follower.request(Method::POST, "/workspaces").json(&json!({ "name": name }));
        async move { (request.send().await.ok()?.status() == 201).then_some(name) }
    });
    let (answered, began) = tokio::join!(join_all(requests), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        signal(&pair.leader, Signal::SIGKILL);
        Instant::now()
    });
    pair.leader.reap();
    let gap = pair.gap(began).await;
    assert!(gap < MAX_GAP, "{gap:?} without writes: {}", pair.follower.log());
    let stored = names(&pair.follower).await;
    for name in answered.into_iter().flatten().chain(["forwarded".to_owned()]) {
        assert!(stored.contains(&name), "{name} was answered and is lost: {stored:?}");
    }
    assert_eq!(pair.follower.get("/health").await.body["role"], "leader");

    // The former leader comes back as a follower, and leads at once when the present one stops.
    pair.leader.start_again().await;
    assert_eq!(pair.leader.get("/health").await.body["role"], "follower");
    pair.leader.workspace("forwarded back").await;
    assert!(names(&pair.follower).await.contains(&"forwarded back".to_owned()));
    pair.follower.stop();
    let leads = wait::until(TIMEOUT, || async {
        (pair.leader.get("/health").await.body["role"] == "leader").then_some(())
    });
    assert!(leads.await.is_some(), "{}", pair.leader.log());
    pair.leader.workspace("last").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stood_still_writes_nothing_and_ends() {
    let Some(server) = server() else { return };
    let mut pair = Pair::start(&server).await;
    signal(&pair.leader, Signal::SIGSTOP);
    let gap = pair.gap(Instant::now()).await;
    assert!(gap < MAX_GAP, "{gap:?} without writes: {}", pair.follower.log());
    // The kernel accepts connections of the stopped process, which reads these requests when it continues.
    let late = join_all((0..8).map(|number| {
        let body = json!({ "name": format!("late {number}") });
        pair.leader.request(Method::POST, "/workspaces").json(&body).timeout(TIMEOUT).send()
    }));
    let (late, ()) = tokio::join!(late, async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        signal(&pair.leader, Signal::SIGCONT);
    });
    for answer in late.into_iter().flatten() {
        assert_ne!(answer.status(), 201, "a former leader has answered a write");
    }
    assert!(!pair.leader.ended(TIMEOUT).await.success());
    assert!(pair.leader.log().contains("its lease is lost"), "{}", pair.leader.log());
    let stored = names(&pair.follower).await;
    assert!(!stored.iter().any(|name| name.starts_with("late")), "{stored:?}");
    let gaps = "SELECT COUNT(*) FROM (SELECT seq - LAG(seq) OVER (ORDER BY seq) AS step FROM audit) a WHERE step <> 1";
    assert_eq!(server.sql(database_of(&pair.url), gaps), "0");
}

fn database_of(url: &str) -> &str {
    url.rsplit('/').next().expect("a name")
}

/// Opens the socket of the console's live records at the leader and at the follower.
async fn open_pages(pair: &Pair, browser: &Browser) -> Vec<Client> {
    let cookie = format!("hotdesk={}", browser.session());
    let mut pages = Vec::new();
    for controller in [&pair.leader, &pair.follower] {
        let fields = [("cookie", cookie.as_str()), ("origin", controller.base())];
        let opened = Client::open(controller.address(), "/console/live", &fields).await;
        let mut page = opened.expect("a socket");
        let first = page.next().await;
        assert!(matches!(&first, SocketEvent::Text(text) if text.contains("\"ready\"")), "{first:?}");
        pages.push(page);
    }
    pages
}

/// Waits until the sockets of [`open_pages`] are closed because the sign-in has ended.
async fn expect_signed_out(pages: Vec<Client>, by: &str) {
    let began = Instant::now();
    let closed = join_all(pages.into_iter().map(Client::closed));
    let codes = tokio::time::timeout(REVOCATION_TIMEOUT, closed).await;
    let codes = codes.expect("the sockets close within the revocation timeout");
    assert!(codes.iter().all(|code| *code == 4401), "{by}: {codes:?}");
    println!("{by}: the sockets had closed after {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_that_ends_closes_sockets_at_each_controller_also_by_another_process() {
    let Some(server) = server() else { return };
    let pair = Pair::start(&server).await;
    let shell = Shell::new();
    let data = pair.follower.data_dir().display().to_string();
    let file = pair.follower.folder().join("hotdesk.toml").display().to_string();
    let admin = async |command: &str| {
        let line = ["admin", command, ADA, "--data-dir", &data, "--config", &file];
        shell.run_with_input(&line, PASSWORD).await.expect_success()
    };
    admin("add").await;

    let browser = Browser::signed_in(pair.follower.base(), ADA).await;
    let pages = open_pages(&pair, &browser).await;
    assert_eq!(browser.post("/sign-out", &[]).await.status, 303);
    expect_signed_out(pages, "a request to the follower").await;

    for are_sessions_ended in [false, true] {
        let browser = Browser::signed_in(pair.follower.base(), ADA).await;
        let pages = open_pages(&pair, &browser).await;
        if are_sessions_ended {
            // The leader connects to the database again, and misses nothing.
            server.end_sessions(&pair.url);
        }
        admin("password").await;
        expect_signed_out(pages, "another process").await;
    }
    assert_eq!(pair.leader.get("/health").await.body["role"], "leader");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_with_another_key_or_other_folders_is_refused() {
    let Some(server) = server() else { return };
    let url = server.create_database();
    let (one, other) = (free_address(), free_address());
    let folder = tempfile::tempdir().expect("a folder");
    let first = RunningController::join(folder, one, &configuration(&server, &url, one), None).await;
    let refusal = |prepare: &dyn Fn(&Path), lines: &str| {
        let beside = folder_beside(&first);
        prepare(&beside.path().join("data"));
        std::fs::write(beside.path().join("hotdesk.toml"), lines).expect("a configuration");
        let ended = command(beside.path()).output().expect("the program starts");
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
    };
    let lines = configuration(&server, &url, other);
    let without_address = lines.replace("address = ", "# ");
    let other_key = |data: &Path| {
        std::fs::write(data.join("hotdesk.key"), format!("{:064x}\n", 7)).expect("a key file");
    };
    let no_key = |data: &Path| std::fs::remove_file(data.join("hotdesk.key")).expect("a key file");
    let own_files = |data: &Path| std::fs::remove_file(data.join("blobs")).expect("a link");
    let nothing = |_: &Path| {};
    for (prepare, lines, reason) in [
        (&other_key as &dyn Fn(&Path), &lines, "does not hold the key"),
        (&no_key, &lines, "restore it from a backup"),
        (&own_files, &lines, "mount the file system"),
        (&nothing, &without_address, "in use by a controller"),
        (&nothing, &lines.replace("trusted_proxies = \"127.0.0.1\"", ""), "trusted_proxies"),
    ] {
        let printed = refusal(prepare, lines);
        assert!(printed.contains(reason), "{reason}: {printed}");
    }
    // None of them disturbed the leader.
    first.workspace("still").await;
}

/// Documented operations that a follower answers itself, with their statuses (docs/postgresql.md#who-answers).
const OF_FOLLOWERS: [(&str, u16); 2] = [("/health", 200), ("/metrics", 503)];
/// Field of an answer of the [`stand_in`].
const ANSWERED_BY: &str = "x-answered-by";

/// A server in the place of a leader: it shows what a forwarded request is.
fn stand_in() -> Router {
    let fields = async |headers: HeaderMap| {
        let shown: Vec<(String, String)> = headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
            .collect();
        ([("x-request-id", "of-the-leader"), ("x-hotdesk-may-pause", "1")], axum::Json(shown))
    };
    let echo = async |request: Request| Body::new(request.into_body());
    let socket = async |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async |mut socket| {
            while let Some(Ok(message)) = socket.recv().await {
                if socket.send(message).await.is_err() {
                    return;
                }
            }
        })
    };
    Router::new()
        .route("/fields", any(fields))
        .route("/echo", put(echo))
        .route("/socket", get(socket))
        .fallback(async || ([(ANSWERED_BY, "leader")], "of the leader"))
        .layer(DefaultBodyLimit::disable())
}

/// Methods and paths of the recorded OpenAPI document, with a text in place of each parameter.
fn documented_operations() -> Vec<(Method, String)> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/openapi.json");
    let recorded = std::fs::read_to_string(file).expect("the recorded document");
    let document: Value = serde_json::from_str(&recorded).expect("JSON");
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        let segments = path.split('/').map(|segment| if segment.starts_with('{') { "x" } else { segment });
        let path = segments.collect::<Vec<&str>>().join("/");
        for (name, operation) in item.as_object().expect("a path") {
            if operation["operationId"].is_string() {
                let method = name.to_uppercase().parse().expect("a method");
                operations.push((method, path.clone()));
            }
        }
    }
    operations
}

/// Serves routes on a free port until the tasks end, and returns `ADDR:PORT`.
async fn serve_at_free_port(router: Router, tasks: &Tasks) -> String {
    let bound = bind(&Listen::Tcp(([127, 0, 0, 1], 0).into())).await.expect("a free port");
    let BoundListener::Tcp(listener) = &bound else { panic!("TCP was asked for") };
    let address = listener.local_addr().expect("an address").to_string();
    let group = tasks.clone();
    let _serving = tasks.spawn("serve", async move { serve(bound, router, &group).await });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_forwards_streams_and_sockets_and_never_in_a_circle() {
    let Some(server) = server() else { return };
    let (url, tasks, data) = (server.create_database(), Tasks::new(), tempfile::tempdir().expect("a folder"));
    let config = Config {
        data_dir: data.path().to_owned(),
        trusted_proxies: "127.0.0.1".to_owned(),
        store: StoreSettings { address: "http://127.0.0.1:1".to_owned(), ..postgres_settings(&server, &url) },
        ..Config::default()
    };
    let mut candidate = Candidate::open(&config, &tasks).await.expect("a database").expect("one of several");
    let follower = serve_at_free_port(candidate.router(), &tasks).await;
    let caller = Caller::new(format!("http://{follower}"), "", "key".to_owned());
    let nobody = caller.request(Method::GET, "/workspaces").send().await.expect("an answer");
    assert_eq!(
        (nobody.status().as_u16(), &nobody.headers()["retry-after"]),
        (503, &"2".parse().expect("a value"))
    );
    assert_eq!(caller.get("/health").await.status, 503);

    let leader = serve_at_free_port(stand_in(), &tasks).await;
    let database = database_of(&url);
    let lease = format!(
        "INSERT INTO leases (name, holder, epoch, until, address) VALUES ('controller', 'another', 1, 9000000000000, 'http://{leader}')"
    );
    server.sql(database, &lease);
    assert_eq!(candidate.request().await, None);
    assert_eq!(caller.get("/health").await.body["role"], "follower");
    assert_eq!(caller.get("/api/metrics").await.status, 503);

    let request = caller.request(Method::GET, "/fields?a=b").header("x-forwarded-for", "203.0.113.9");
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.headers()["x-request-id"], "of-the-leader");
    assert!(!answer.headers().contains_key("x-hotdesk-may-pause"), "{answer:?}");
    let fields: Vec<(String, String)> = answer.json().await.expect("JSON");
    for (name, value) in [
        ("host", follower.as_str()),
        ("authorization", "Bearer key"),
        ("x-forwarded-for", "203.0.113.9, 127.0.0.1"),
        ("x-hotdesk-forwarded", "1"),
    ] {
        assert!(fields.contains(&(name.to_owned(), value.to_owned())), "{name} is not {value}: {fields:?}");
    }
    assert!(!fields.iter().any(|(name, _)| name == "transfer-encoding"), "{fields:?}");

    let operations = documented_operations();
    assert!(operations.len() > 200, "{} operations", operations.len());
    for (path, _) in OF_FOLLOWERS {
        assert!(operations.iter().any(|(_, documented)| documented == path), "{path} is not documented");
    }
    for (method, path) in operations {
        let answer = caller.request(method.clone(), &path).send().await.expect("an answer");
        let own = OF_FOLLOWERS.iter().find(|(own, _)| *own == path).map(|(_, status)| *status);
        let is_of_leader = answer.headers().contains_key(ANSWERED_BY);
        let found = (answer.status().as_u16(), is_of_leader);
        assert_eq!(found, (own.unwrap_or(200), own.is_none()), "{method} {path}");
    }

    let pieces = (0..64).map(|number: u8| Ok::<_, std::io::Error>(vec![number; 64 * 1024]));
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    let echoed = caller.request(Method::PUT, "/echo").body(body).send().await.expect("an answer");
    let echoed = echoed.bytes().await.expect("the whole body");
    assert_eq!((echoed.len(), echoed[0], echoed[echoed.len() - 1]), (4 * 1024 * 1024, 0, 63));

    let mut socket = Client::open(&follower, "/socket", &[]).await.expect("a socket");
    for text in ["hello", &"ä".repeat(20_000)] {
        socket.0.send(Message::text(text)).await.expect("an open socket");
        assert_eq!(socket.next().await, SocketEvent::Text(text.to_owned()));
    }

    // Two followers that take each other for the leader, or one that takes itself for it.
    let itself = format!("UPDATE leases SET epoch = 2, address = 'http://{follower}'");
    server.sql(database, &itself);
    assert_eq!(candidate.request().await, None);
    assert_eq!(socket.next().await, SocketEvent::Cut, "the socket at the former leader ends");
    let circle = caller.request(Method::GET, "/fields").send().await.expect("an answer");
    assert_eq!(circle.status(), 503);
    let body: Value = circle.json().await.expect("JSON");
    assert_eq!(body["error"], "No controller leads at the moment");

    // The lease ends: this controller takes it.
    server.sql(database, "UPDATE leases SET until = 0");
    assert!(candidate.request().await.is_some());
    tasks.drain(Duration::from_secs(5)).await;
}
