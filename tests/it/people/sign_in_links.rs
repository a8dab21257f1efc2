//! Sign-in links: one browser, once, for a short time, while the key exists; and the viewer page of a person who
//! is signed in.

use std::time::Duration;

use hotdesk::controller::config::{AgentAccounts, Config};
use hotdesk::domain::desktop::channel::Channel;
use hotdesk::domain::identity::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use super::loss::{assert_closed, assert_refused, boot_controller, open_socket};
use crate::agent_accounts::create_agent;
use crate::harness::agent::fetch_json;
use crate::harness::browser::{Browser, PASSWORD, Page, page, person};
use crate::harness::caller::{HttpAnswer, id_of};
use crate::harness::simulation::Simulation;

/// Longest time until a session of a deleted key ends. The rule is one second; a busy machine gets more.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(10);

async fn request_link(controller: &Simulation, key: &str, body: Value) -> HttpAnswer {
    fetch_json(controller.request_with(key, Method::POST, "/user/sign-in-links").json(&body)).await
}

/// The token of a new link.
async fn new_token(controller: &Simulation, key: &str, body: Value) -> String {
    let link = request_link(controller, key, body).await;
    assert_eq!(link.status, 201, "{}", link.body);
    let url = link.body["url"].as_str().expect("a link");
    let (address, token) = url.split_once("#token=").expect("the token is in the fragment");
    assert_eq!(address, format!("{}/sign-in/link", controller.base));
    token.to_owned()
}

/// Sends the form of a link's page.
async fn follow(browser: &Browser, token: &str) -> Page {
    browser.send("/sign-in/link", &[("token", token), ("sure", "true")]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_a_link_signs_one_browser_in_once() {
    let controller = Simulation::boot().await;
    let home = controller.workspace("home").await;
    let desk = controller.computer(&home, "desk").await;
    let instance = controller.get(&format!("/computers/{desk}")).await.body["instance_id"].clone();
    let token = new_token(&controller, controller.key(), json!({"computer_id": desk})).await;
    let mut browser = Browser::new(&controller.base);
    // The page has no token, and a look at it spends nothing.
    let shown = browser.get("/sign-in/link").await;
    assert_eq!((shown.status, &shown.headers["referrer-policy"]), (200, &"no-referrer".parse().unwrap()));
    assert!(shown.headers["content-security-policy"].to_str().unwrap().contains("frame-ancestors 'none'"));
    // Without the mark of a person's own navigation the form asks first.
    let asked = browser.send("/sign-in/link", &[("token", &token)]).await;
    assert!(asked.status == 200 && !asked.headers.contains_key("set-cookie"), "{asked:?}");
    assert!(asked.text.contains("operator@localhost") && asked.hidden("token") == token, "{}", asked.text);

    let others: Vec<Browser> = (0..5).map(|_| Browser::new(&controller.base)).collect();
    let followed = futures_util::future::join_all(others.iter().map(|other| follow(other, &token))).await;
    let mut entered: Vec<&Page> = followed.iter().filter(|page| page.status == 303).collect();
    let winner = entered.pop().expect("one browser is signed in");
    assert!(entered.is_empty(), "a link signs one browser in: {followed:?}");
    assert_eq!(winner.location(), format!("/desktops/{}/view", instance.as_str().expect("an id")));
    for refused in followed.iter().filter(|page| page.status != 303) {
        assert_eq!(refused.status, 404, "{}", refused.text);
        assert!(refused.text.contains("was used or has expired"), "{}", refused.text);
    }
    browser.adopt_session(winner).await;
    assert!(browser.get("/settings").await.text.contains("Signed in as"));
    assert_eq!(follow(&Browser::new(&controller.base), &token).await.status, 404);
    // The log has the sign-in with its account, and no token.
    let log = controller.get("/audit?limit=500").await.body;
    let done = |it: &&Value| it["action"] == "sign_in" && it["result"] == "done";
    let entries: Vec<&Value> = log["entries"].as_array().expect("entries").iter().filter(done).collect();
    assert!(matches!(entries[..], [entry] if entry["credential"] == "session"), "{log}");
    assert!(!log.to_string().contains(&token));
}

#[tokio::test(flavor = "multi_thread")]
async fn t29_a_link_ends_with_its_time_and_makes_place_for_newer_ones() {
    let controller = Simulation::boot().await;
    let (key, browser) = (controller.key(), Browser::new(&controller.base));
    let late = new_token(&controller, key, json!({})).await;
    controller.sql("UPDATE sign_in_links SET expires_at = 1").await;
    assert_eq!(follow(&browser, &late).await.status, 404);
    let mut tokens = Vec::new();
    for _ in 0..17 {
        tokens.push(new_token(&controller, key, json!({})).await);
    }
    assert_eq!(follow(&browser, &tokens[0]).await.status, 404, "an account has at most 16 unused links");
    assert_eq!(follow(&browser, &tokens[1]).await.location(), "/console");
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_tokens_are_not_guessed_without_end() {
    let controller = Simulation::boot().await;
    let browser = Browser::new(&controller.base);
    let token = new_token(&controller, controller.key(), json!({})).await;
    let mut statuses = Vec::new();
    for _ in 0..25 {
        statuses.push(follow(&browser, "guess").await.status);
    }
    assert_eq!((statuses[0], statuses[19], statuses[24]), (404, 404, 429), "{statuses:?}");
    assert_eq!(follow(&browser, &token).await.status, 303, "guesses shut nobody out");
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_a_deleted_key_ends_its_links_and_their_sessions() {
    let (controller, _, desk, _) = boot_controller().await;
    let exposed = controller.create("/keys", json!({"name": "exposed"})).await;
    let key = exposed["key"].as_str().expect("a key");
    let mut browser = Browser::new(&controller.base);
    let token = new_token(&controller, key, json!({})).await;
    browser.adopt_session(&follow(&browser, &token).await).await;
    let unused = new_token(&controller, key, json!({})).await;
    let viewer = open_socket(controller.address(), Channel::Websockify, &view(&browser, &desk).await).await;
    let ticket = view(&browser, &desk).await;

    assert_eq!(controller.delete(&format!("/keys/{}", id_of(&exposed))).await.status, 200);
    assert_eq!(follow(&Browser::new(&controller.base), &unused).await.status, 404);
    assert_eq!(browser.get("/settings").await.location(), "/sign-in?next=%2Fsettings");
    assert_closed(vec![(Channel::Websockify, viewer)], REVOCATION_TIMEOUT).await;
    assert_refused(controller.address(), &ticket, Channel::Websockify).await;
}

/// The path of the VNC socket with the ticket that the viewer page gets.
pub async fn view(browser: &Browser, desk: &str) -> String {
    let issued = browser.post(&format!("/desktops/{desk}/view/ticket"), &[]).await;
    assert_eq!(
        (issued.status, &issued.headers["cache-control"]),
        (200, &"no-store".parse().expect("a value"))
    );
    let issued: Value = serde_json::from_str(&issued.text).expect("JSON");
    format!("/desktops/{desk}/ws/websockify?ticket={}", issued["ticket"].as_str().expect("a ticket"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_in_member_views_without_a_password_and_nobody_else_does() {
    let (controller, home, desk, _) = boot_controller().await;
    let store = controller.store().await;
    let path = format!("/desktops/{desk}/view/ticket");
    for (email, role) in [("member@x.example", Role::Member), ("viewer@x.example", Role::Viewer)] {
        let account = person(&store, email).await.id;
        store.set_member(home.parse().expect("an id"), account, role).await.expect("a member");
    }
    person(&store, "stranger@x.example").await;
    for (email, view_only, expected) in [
        ("member@x.example", "false", Ok("control")),
        ("member@x.example", "true", Ok("view")),
        ("viewer@x.example", "false", Ok("view")),
        ("stranger@x.example", "false", Err(403)),
    ] {
        let browser = Browser::signed_in(&controller.base, email).await;
        let issued = browser.post(&path, &[("view_only", view_only)]).await;
        let body: Value = serde_json::from_str(&issued.text).expect("JSON");
        match expected {
            Ok(mode) => assert_eq!((issued.status, &body["mode"]), (200, &json!(mode)), "{email}: {body}"),
            Err(status) => assert_eq!((issued.status, &body["error"]), (status, &json!("Access denied"))),
        }
        let forged = browser.send(&path, &[("csrf", "0000")]).await;
        assert_eq!(forged.status, 403, "{}", forged.text);
        let page = browser.get(&format!("/desktops/{desk}/view")).await;
        assert!(page.text.contains(&format!("content=\"{}\"", browser.csrf)), "{}", page.text);
    }
    let anybody = Browser::new(&controller.base);
    assert!(anybody.send(&path, &[]).await.location().starts_with("/sign-in?"));
    let page = anybody.get(&format!("/desktops/{desk}/view")).await;
    assert!(page.text.contains("<meta name=\"form-token\" content=\"\">"), "{}", page.text);
    assert_eq!(page.headers["cache-control"], "no-store");

    // The viewer ends with the sign-in.
    let member = Browser::signed_in(&controller.base, "member@x.example").await;
    let viewer = open_socket(controller.address(), Channel::Websockify, &view(&member, &desk).await).await;
    assert_eq!(member.post("/sign-out", &[]).await.status, 303);
    assert_closed(vec![(Channel::Websockify, viewer)], REVOCATION_TIMEOUT).await;
    let missing = member.get("/desktops/00000000-0000-4000-8000-000000000000/view").await;
    assert_eq!(missing.status, 200, "the page does not reveal whether a computer exists");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_replaces_another_sign_in_only_after_a_question() {
    let controller = Simulation::boot().await;
    let store = controller.store().await;
    let ada = person(&store, "ada@x.example").await;
    let key = controller.key_of(ada.id, None).await;
    person(&store, "eve@x.example").await;
    for (email, site, sure) in
        [(None, "none", true), (None, "cross-site", false), (Some("eve@x.example"), "none", false)]
    {
        let browser = match email {
            Some(email) => Browser::signed_in(&controller.base, email).await,
            None => Browser::new(&controller.base),
        };
        let request = browser.request(Method::GET, "/sign-in/link").header("sec-fetch-site", site);
        assert_eq!(page(request).await.text.contains("name=\"sure\""), sure, "{email:?} {site}");
    }

    let mut browser = Browser::signed_in(&controller.base, "eve@x.example").await;
    let token = new_token(&controller, &key, json!({})).await;
    let asked = browser.send("/sign-in/link", &[("token", &token)]).await;
    assert!(asked.text.contains("ada@x.example") && asked.text.contains("present sign-in ends"), "{asked:?}");
    let previous = browser.session().to_owned();
    browser.adopt_session(&follow(&browser, &token).await).await;
    assert!(browser.get("/settings").await.text.contains("ada@x.example"));
    let url = format!("{}/settings", controller.base);
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("one");
    let ended = client.get(url).header("cookie", format!("hotdesk={previous}")).send().await;
    assert_eq!(ended.expect("an answer").status(), 303, "the replaced session has ended");
    // A further link to the same account is spent without a new session.
    let token = new_token(&controller, &key, json!({})).await;
    let again = browser.send("/sign-in/link", &[("token", &token)]).await;
    assert_eq!((again.status, again.headers.contains_key("set-cookie")), (303, false), "{again:?}");
    assert_eq!(follow(&Browser::new(&controller.base), &token).await.status, 404);
    // Another site's page sends no form.
    let token = new_token(&controller, &key, json!({})).await;
    let body = serde_urlencoded::to_string([("token", token.as_str()), ("sure", "true")]).expect("a form");
    let forged = Browser::new(&controller.base).request(Method::POST, "/sign-in/link").body(body);
    assert_eq!(page(forged.header("origin", "http://evil.example")).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_chooses_a_password_after_a_sign_in_by_a_link() {
    let controller = Simulation::boot().await;
    let mut browser = Browser::new(&controller.base);
    let token = new_token(&controller, controller.key(), json!({})).await;
    browser.adopt_session(&follow(&browser, &token).await).await;
    let settings = browser.get("/settings").await;
    assert!(settings.text.contains("href=\"/set-up\"") && !settings.text.contains("name=\"current\""));
    let set_up = browser.get("/set-up").await;
    assert!(!set_up.text.contains("name=\"key\""), "a signed-in operator needs no key: {}", set_up.text);
    browser.csrf = set_up.hidden("csrf");
    let person = |password| [("email", "ada@x.example"), ("full_name", "Ada"), ("password", password)];
    let forged = browser.send("/set-up/account", &person(PASSWORD)).await;
    assert_eq!(forged.status, 403, "{}", forged.text);
    let short = browser.post("/set-up/account", &person("short")).await;
    assert!(short.status == 400 && short.text.contains("action=\"/set-up/account\""), "{short:?}");
    let done = browser.post("/set-up/account", &person(PASSWORD)).await;
    assert_eq!((done.status, done.location()), (303, "/console"), "{}", done.text);
    Browser::signed_in(&controller.base, "ada@x.example").await;
    assert_eq!(browser.post("/set-up/account", &person(PASSWORD)).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_and_scoped_keys_sign_nobody_in() {
    let agent_accounts = AgentAccounts { enabled: true, ..AgentAccounts::default() };
    let controller = Simulation::boot_configured(Config { agent_accounts, ..Config::default() }).await;
    let home = controller.workspace("home").await;
    let scoped = controller.create("/keys", json!({"name": "scoped", "workspace_id": home})).await;
    let (_, agent) = create_agent(&controller).await;
    for (key, code) in
        [(scoped["key"].as_str().expect("a key"), "workspace_scope_mismatch"), (&agent, "UPGRADE_REQUIRED")]
    {
        let refused = request_link(&controller, key, json!({})).await;
        assert_eq!((refused.status, &refused.body["code"]), (403, &json!(code)), "{}", refused.body);
    }
    let unknown = json!({"computer_id": "00000000-0000-4000-8000-000000000000"});
    assert_eq!(request_link(&controller, controller.key(), unknown).await.status, 404);
}
