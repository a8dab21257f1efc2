//! Live records: the socket that tells a page of the console what changed (docs/console.md#live-records).

use std::collections::BTreeSet;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use hotdesk::domain::desktop::event::EventKind;
use hotdesk::domain::identity::access::Role;
use hotdesk::domain::identity::access::actor::Actor;
use hotdesk::wire::desktop::event::{Event, EventData};
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::chat::fake_control::FakeControl;
use crate::chat::scene;
use crate::events::source::{EventSource, JsonMessages, wait_for};
use crate::harness::agent::fetch_json;
use crate::harness::browser::{Browser, person};
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::RunningController;
use crate::harness::models::Turn;
use crate::harness::picture::PNG_HEADER;
use crate::harness::simulation::Simulation;
use crate::harness::socket::{Client, SocketEvent};
use crate::mcp::resources::PaintedScreen;
use crate::people::members::wide_key;

const PATH: &str = "/console/live";

/// A browser in which the owner of a key is signed in.
async fn signed_in(caller: &Caller) -> Browser {
    let link = caller.create("/user/sign-in-links", json!({})).await;
    let (_, token) = link["url"].as_str().expect("a link").split_once("#token=").expect("a token");
    let mut browser = Browser::new(&caller.base);
    let entered = browser.send("/sign-in/link", &[("token", token), ("sure", "true")]).await;
    assert_eq!(entered.status, 303, "{}", entered.text);
    browser.adopt_session(&entered).await;
    browser
}

/// A person with a key, and a browser in which this person is signed in.
async fn newcomer(controller: &Simulation, email: &str) -> (Caller, Browser, String) {
    let store = controller.store().await;
    let account = person(&store, email).await.id;
    let caller = Caller::new(controller.base.clone(), "/api", wide_key(&store, account).await);
    let browser = Browser::signed_in(&controller.base, email).await;
    (caller, browser, account.to_string())
}

/// Opens the socket as a page of this origin does in a browser with this cookie.
async fn open(caller: &Caller, cookie: &str, origin: Option<&str>) -> Client {
    let mut fields = vec![("cookie", cookie)];
    fields.extend(origin.map(|origin| ("origin", origin)));
    Client::open(caller.address(), PATH, &fields).await.expect("accepted")
}

/// A page of the console.
struct Page(Client);

impl Page {
    async fn open(caller: &Caller, browser: &Browser) -> Self {
        let cookie = format!("hotdesk={}", browser.session());
        Self(open(caller, &cookie, Some(&caller.base)).await)
    }

    /// Opens a page and reads what it is told first: its computers.
    async fn list(caller: &Caller, browser: &Browser) -> (Self, Vec<Value>) {
        let mut page = Self::open(caller, browser).await;
        let mut computers = Vec::new();
        loop {
            let mut message = page.next().await;
            match message["type"].as_str() {
                Some("computer") => computers.push(message["computer"].take()),
                Some("ready") => return (page, computers),
                _ => panic!("{message}"),
            }
        }
    }

    async fn next(&mut self) -> Value {
        self.0.next_json().await
    }

    /// Reads until a message of this type that fits.
    async fn until(&mut self, kind: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().await;
            if message["type"] == kind && fits(&message) {
                return message;
            }
        }
    }

    /// Reads until a computer has a status; returns its record.
    async fn until_status(&mut self, id: &str, status: &str) -> Value {
        let fits =
            |message: &Value| message["computer"]["id"] == id && message["computer"]["status"] == status;
        self.until("computer", fits).await["computer"].take()
    }

    /// Reads until a picture, with the id of its computer before it.
    async fn until_picture(&mut self) -> Vec<u8> {
        loop {
            match self.0.next().await {
                SocketEvent::Binary(picture) => return picture,
                SocketEvent::Text(_) => {}
                end @ (SocketEvent::Closed(..) | SocketEvent::Cut) => panic!("{end:?}"),
            }
        }
    }

    async fn until_gone(&mut self, id: &str) {
        self.until("gone", |message| message["id"] == id).await;
    }

    async fn send(&mut self, message: Value) {
        use futures_util::SinkExt;
        self.0.0.send(Message::text(message.to_string())).await.expect("sent");
    }

    async fn watch(&mut self, ids: &[&str]) {
        self.send(json!({"type": "watch", "ids": ids})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_a_computer_reaches_every_page() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let first = controller.computer(&home, "one").await;
    let browser = signed_in(&controller).await;
    let (mut page, listed) = Page::list(&controller, &browser).await;
    let (mut other, again) = Page::list(&controller, &browser).await;
    let records = controller.get("/computers").await.body["computers"].take();
    assert_eq!((json!(listed), json!(again)), (records.clone(), records), "the record is that of lists");
    let second = controller.computer(&home, "two").await;
    for page in [&mut page, &mut other] {
        assert_eq!(page.until_status(&second, "running").await["name"], "two");
    }
    let renamed = controller.patch(&format!("/computers/{first}"), json!({"name": "uno"})).await;
    assert_eq!(renamed.status, 200, "{}", renamed.body);
    for page in [&mut page, &mut other] {
        page.until("computer", |message| message["computer"]["name"] == "uno").await;
    }
    let workspace = controller.patch(&format!("/workspaces/{home}"), json!({"name": "hall"})).await;
    assert_eq!(workspace.status, 200, "{}", workspace.body);
    for page in [&mut page, &mut other] {
        let mut left = BTreeSet::from([first.clone(), second.clone()]);
        while !left.is_empty() {
            let told = page.until("computer", |it| it["computer"]["project_name"] == "hall").await;
            left.remove(told["computer"]["id"].as_str().expect("an id"));
        }
    }
    assert_eq!(controller.command(format!("/computers/{first}/stop")).await.status, 200);
    for page in [&mut page, &mut other] {
        page.until_status(&first, "stopped").await;
    }
    assert_eq!(controller.delete(&format!("/computers/{first}")).await.status, 200);
    for page in [&mut page, &mut other] {
        page.until_gone(&first).await;
    }
    let (_page, listed) = Page::list(&controller, &browser).await;
    assert!(matches!(&listed[..], [one] if one["id"] == second.as_str()), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_hears_of_no_other_account_s_computers() {
    let screen = PaintedScreen::default();
    let controller = Simulation::boot_with(screen.router()).await;
    let home = controller.workspace("home").await;
    let own = controller.computer(&home, "own").await;
    let (eve, browser, _) = newcomer(&controller, "eve@x.example").await;
    let (mut page, listed) = Page::list(&eve, &browser).await;
    assert!(listed.is_empty(), "{listed:?}");
    page.send(json!({"type": "watch", "ids": [&own], "pixels": 50_000})).await;
    let mine = signed_in(&controller).await;
    let (mut mine, _) = Page::list(&controller, &mine).await;
    mine.watch(&[&own]).await;
    mine.until("screen", |message| message["id"] == own.as_str()).await;
    screen.paint();
    mine.until("screen", |message| message["id"] == own.as_str()).await;
    let renamed = controller.patch(&format!("/computers/{own}"), json!({"name": "mine"})).await;
    assert_eq!(renamed.status, 200, "{}", renamed.body);
    mine.until("computer", |message| message["computer"]["name"] == "mine").await;
    // Messages come in order: hers is the first.
    let hers = id_of(&eve.create("/workspaces", json!({"name": "hers"})).await);
    let desk = id_of(&eve.create("/computers", json!({"workspace_id": hers, "name": "desk"})).await);
    let told = page.next().await;
    assert_eq!((&told["type"], &told["computer"]["id"]), (&json!("computer"), &json!(desk)), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_is_gone_with_the_membership() {
    let screen = PaintedScreen::default();
    let controller = Simulation::boot_with(screen.router()).await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    let (bob, browser, account) = newcomer(&controller, "bob@x.example").await;
    let id = account.parse().expect("an id");
    let workspace = home.parse().expect("an id");
    controller.store().await.set_member(workspace, id, Role::Viewer).await.expect("a member");
    let (mut page, listed) = Page::list(&bob, &browser).await;
    assert!(matches!(&listed[..], [one] if one["id"] == desk.as_str()), "{listed:?}");
    assert_eq!(listed[0]["vnc_password"], Value::Null, "the list has no password");
    page.send(json!({"type": "watch", "ids": [&desk], "pixels": 50_000})).await;
    assert!(page.until_picture().await.starts_with(desk.as_bytes()));
    let second = controller.computer(&home, "second").await;
    page.until_status(&second, "running").await;
    let members = format!("/workspaces/{home}/members");
    let removed = controller.request(Method::DELETE, &members).json(&json!({ "memberId": account }));
    assert_eq!(fetch_json(removed).await.status, 200);
    let mut left = BTreeSet::from([desk.clone(), second]);
    while !left.is_empty() {
        let gone = page.until("gone", |_| true).await;
        assert!(left.remove(gone["id"].as_str().expect("an id")), "{gone}");
    }
    // Later changes and pictures reach only those who are still members.
    screen.paint();
    screen.until_unwatched().await;
    let renamed = controller.patch(&format!("/computers/{desk}"), json!({"name": "new"})).await;
    assert_eq!(renamed.status, 200, "{}", renamed.body);
    let hers = id_of(&bob.create("/workspaces", json!({"name": "hers"})).await);
    let own = id_of(&bob.create("/computers", json!({"workspace_id": hers, "name": "own"})).await);
    let told = page.next().await;
    assert_eq!((&told["type"], &told["computer"]["id"]), (&json!("computer"), &json!(own)), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_own_pages_of_signed_in_people_open_the_socket() {
    let controller = Simulation::boot().await;
    let browser = signed_in(&controller).await;
    let cookie = format!("hotdesk={}", browser.session());
    let own = controller.base.clone();
    let localhost = own.replace("127.0.0.1", "localhost");
    for (cookie, origin, code) in [
        (cookie.as_str(), Some("https://evil.example"), 1008),
        (&cookie, Some(localhost.as_str()), 1008),
        (&cookie, Some("null"), 1008),
        (&cookie, None, 1008),
        ("other=1", Some(own.as_str()), 4401),
        ("hotdesk=guess", Some(own.as_str()), 4401),
    ] {
        assert_eq!(open(&controller, cookie, origin).await.closed().await, code, "{cookie} {origin:?}");
    }
    for bad in [json!({"type": "ping"}), json!({"type": "watch"}), json!([1])] {
        let mut page = Page::open(&controller, &browser).await;
        page.send(bad.clone()).await;
        assert_eq!(page.0.closed().await, 1008, "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a81_the_socket_ends_with_the_sign_in() {
    let controller = Simulation::boot().await;
    let (here, other) = (signed_in(&controller).await, signed_in(&controller).await);
    let (page, _) = Page::list(&controller, &here).await;
    let (mut stays, _) = Page::list(&controller, &other).await;
    assert_eq!(here.post("/sign-out", &[]).await.status, 303);
    assert_eq!(page.0.closed().await, 4401);
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    stays.until_status(&desk, "running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn screens_in_view_are_told_when_they_change_and_nothing_else_is_looked_at() {
    let screen = PaintedScreen::default();
    let controller = Simulation::boot_with(screen.router()).await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    let browser = signed_in(&controller).await;
    let (mut page, _) = Page::list(&controller, &browser).await;
    let (mut other, _) = Page::list(&controller, &browser).await;
    assert_eq!(screen.looks(), 0, "nothing is in view");
    page.watch(&["no id", &desk]).await;
    let told = json!({"type": "screen", "id": desk, "screen": "default"});
    // The page may have an older picture.
    assert_eq!(page.next().await, told);
    other.watch(&[&desk]).await;
    for _ in 0..2 {
        screen.paint();
        assert_eq!(page.next().await, told);
    }
    let looks = screen.looks();
    wait_for("the screen is looked at", || screen.looks() > looks + 2).await;
    let renamed = controller.patch(&format!("/computers/{desk}"), json!({"name": "new"})).await;
    assert_eq!(renamed.status, 200, "{}", renamed.body);
    let next = page.next().await;
    assert_eq!(next["type"], "computer", "nothing was painted meanwhile: {next}");
    // What is out of view is not looked at, and neither does a suspended computer wake.
    page.watch(&[]).await;
    assert_eq!(controller.command(format!("/computers/{desk}/suspend")).await.status, 200);
    for page in [&mut page, &mut other] {
        page.until_status(&desk, "suspended").await;
    }
    screen.until_unwatched().await;
    assert_eq!(controller.status(&desk).await, "suspended");
    assert_eq!(controller.command(format!("/computers/{desk}/resume")).await.status, 200);
    page.until_status(&desk, "running").await;
    screen.paint();
    other.until("screen", |_| true).await;
    drop(other);
    screen.until_unwatched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_shows_pictures_is_sent_them_with_the_changes() {
    let screen = PaintedScreen::default();
    let controller = Simulation::boot_with(screen.router()).await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    let browser = signed_in(&controller).await;
    let (mut page, _) = Page::list(&controller, &browser).await;
    let (mut plain, _) = Page::list(&controller, &browser).await;
    let (mut other, _) = Page::list(&controller, &browser).await;
    let (mut late, _) = Page::list(&controller, &browser).await;
    let changed = json!({"type": "screen", "id": desk, "screen": "default"});
    plain.watch(&[&desk]).await;
    assert_eq!(plain.next().await, changed);
    let shows = json!({"type": "watch", "ids": [&desk], "pixels": 50_000});
    let picture = SocketEvent::Binary([desk.as_bytes(), PNG_HEADER].concat());
    page.send(shows.clone()).await;
    // The first look at so many pixels may still be to come.
    let mut first = page.0.next().await;
    if let SocketEvent::Text(text) = &first {
        assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), changed);
        first = page.0.next().await;
    }
    assert_eq!(first, picture);
    assert_eq!(plain.next().await, changed, "a look at other pixels is a change");
    // Another page is sent at once what is known.
    other.send(shows.clone()).await;
    assert_eq!(other.0.next().await, picture);
    screen.paint();
    for page in [&mut page, &mut other] {
        assert_eq!(page.0.next().await, picture);
    }
    assert_eq!(plain.next().await, changed);
    // The next look may find the same frame, of which the service has no picture any more.
    drop((page, other));
    late.send(shows).await;
    assert_eq!(SocketEvent::Binary(late.until_picture().await), picture);
    drop((plain, late));
    screen.until_unwatched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_shows_pictures_is_told_why_there_is_none() {
    let refused = Router::new().route("/screenshot", get(async || StatusCode::SERVICE_UNAVAILABLE));
    let controller = Simulation::boot_with(refused).await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    let browser = signed_in(&controller).await;
    let (mut page, _) = Page::list(&controller, &browser).await;
    page.send(json!({"type": "watch", "ids": [&desk], "pixels": 50_000})).await;
    let told = page.until("no_picture", |_| true).await;
    assert_eq!(told["id"], json!(desk), "{told}");
    assert!(told["error"].as_str().is_some_and(|why| !why.is_empty()), "{told}");
    // Also when the first look found a computer that did not run.
    let second = controller.computer(&home, "second").await;
    assert_eq!(controller.command(format!("/computers/{second}/stop")).await.status, 200);
    page.until_status(&second, "stopped").await;
    page.send(json!({"type": "watch", "ids": [&second], "pixels": 50_000})).await;
    page.until("screen", |message| message["id"] == second.as_str()).await;
    assert_eq!(controller.command(format!("/computers/{second}/start")).await.status, 200);
    page.until("no_picture", |message| message["id"] == second.as_str()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_a_page_is_sent_no_picture_that_claims_more_pixels_than_it_shows() {
    // A PNG of 300 x 200 pixels without its data.
    let claim = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\x2c\0\0\0\xc8\x08\x02\0\0\0";
    let marks = [
        ("x-hotdesk-frame", "f-1"),
        ("x-hotdesk-screen", "default"),
        ("x-hotdesk-scale", "1"),
        ("x-hotdesk-width", "1"),
        ("x-hotdesk-height", "1"),
        ("connection", "close"),
    ];
    let agent = Router::new().route("/screenshot", get(async move || (marks, claim.to_vec())));
    let controller = Simulation::boot_with(agent).await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    let browser = signed_in(&controller).await;
    let (mut page, _) = Page::list(&controller, &browser).await;
    page.send(json!({"type": "watch", "ids": [&desk], "pixels": 59_999})).await;
    let told = page.until("no_picture", |_| true).await;
    assert_eq!(told["error"], "The computer's agent sent an invalid answer", "{told}");
    page.send(json!({"type": "watch", "ids": [&desk], "pixels": 60_000})).await;
    assert!(page.until_picture().await.ends_with(claim));
}

fn changed(screen: &str) -> Event {
    Event::now(EventData::ControlChanged { screen: screen.to_owned(), holder: None, note: None })
}

#[tokio::test(flavor = "multi_thread")]
async fn control_of_a_screen_is_told_when_it_changes_and_at_the_start() {
    let (control, source) = (FakeControl::default(), EventSource::new());
    let routes = Router::new().merge(control.routes()).merge(source.router());
    let controller = Simulation::boot_with(routes).await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    let browser = signed_in(&controller).await;
    assert_eq!(source.opened_count(), 0, "no page is open");
    let (mut page, _) = Page::list(&controller, &browser).await;
    source.wait_for_subscriptions([EventKind::ControlChanged, EventKind::HelpRequested]).await;
    control.hold(Actor::Template);
    source.feed.publish(changed("default"));
    let held = page.until("control", |_| true).await;
    let expected = json!({"screen": "default", "revision": 2, "holder": {"kind": "template"}});
    let message = json!({"type": "control", "id": desk, "screen": "default", "control": expected});
    assert_eq!(held, message);
    // Another page hears of it at its start, and the agent has no second connection.
    let (mut other, _) = Page::list(&controller, &browser).await;
    assert_eq!(other.until("control", |_| true).await, message);
    control.hand_back(Actor::Template, "Go on.");
    source.feed.publish(changed("default"));
    for page in [&mut page, &mut other] {
        let free = page.until("control", |_| true).await["control"].take();
        assert_eq!((&free["holder"], &free["last_hand_back"]["note"]), (&Value::Null, &json!("Go on.")));
    }
    assert_eq!((source.opened_count(), source.open_count()), (1, 1));
    // A change without an event, as while the connection is broken, is found by the next one.
    control.hold(Actor::Password);
    source.end_all();
    let held = page.until("control", |_| true).await["control"].take();
    assert_eq!(held["holder"], json!({"kind": "password"}));
    drop((page, other));
    wait_for("the connection to the agent ends", || source.open_count() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_is_told() {
    let scene = scene::Scene::new(vec![Turn::text("Done.")]).await;
    let browser = signed_in(&scene.controller).await;
    let (mut page, _) = Page::list(&scene.controller, &browser).await;
    let answer = scene.ask("look", json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let told = page.until("thread", |message| message["status"] != "running").await;
    assert_eq!((&told["status"], &told["computer_id"]), (&json!("done"), &json!(scene.computer)));
    assert_eq!(scene.thread(told["id"].as_str().expect("an id")).await["run"], "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_screen_is_told_when_a_window_opens_and_when_it_is_taken() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let browser = signed_in(&controller).await;
    let (mut page, listed) = Page::list(&controller, &browser).await;
    assert!(matches!(&listed[..], [one] if one["id"] == id.as_str()), "{listed:?}");
    page.watch(&[&id]).await;
    page.until("screen", |message| message["id"] == id.as_str()).await;
    controller.bash(&id, "DISPLAY=:99 xterm -bg '#00ff00' >/dev/null 2>&1 &").await;
    page.until("screen", |message| message["id"] == id.as_str()).await;
    let control = format!("/computers/{id}/screens/default/control");
    let taken = controller.post(&control, json!({"seconds": 600, "note": "mine"})).await;
    assert_eq!(taken.status, 200, "{}", taken.body);
    let held = page.until("control", |message| message["id"] == id.as_str()).await;
    assert_eq!((&held["screen"], &held["control"]["note"]), (&json!("default"), &json!("mine")), "{held}");
    let asked = controller.post(&format!("{control}/hand_back"), json!({"note": "yours"})).await;
    assert_eq!(asked.status, 200, "{}", asked.body);
    let free = page.until("control", |message| message["control"]["holder"].is_null()).await;
    assert_eq!(free["control"]["last_hand_back"]["note"], "yours", "{free}");
    let help = json!({"message": "Which one?", "seconds": 60});
    assert_eq!(controller.post(&format!("{control}/help"), help).await.status, 200);
    let asks = page.until("control", |message| !message["control"]["help"].is_null()).await;
    assert_eq!(asks["control"]["help"]["message"], "Which one?", "{asks}");
}
