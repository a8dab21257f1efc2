//! The secrets of people: passwords, sessions, invitations, what a program is approved by, and a connection of MCP.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hotdesk::base::secret::Secret;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::look::Canaries;
use super::programs::{once, text};
use crate::harness::agent::answered;
use crate::harness::browser::{Browser, Page};
use crate::harness::caller::Caller;
use crate::oauth::{REDIRECT, asking, form, pair, said};

/// Characters of a person's password here.
const PASSWORD_LENGTH: usize = 24;

fn new_password(secrets: &mut Canaries, what: &'static str) -> String {
    secrets.keep(what, Secret::random(PASSWORD_LENGTH).reveal())
}

/// The operator sets up the house by its key, and changes the password.
pub async fn operator(house: &Caller, secrets: &mut Canaries) -> Browser {
    let mut browser = Browser::new(&house.base);
    let first = new_password(secrets, "a password");
    let fields =
        [("key", house.key.as_str()), ("email", "ada@x.example"), ("full_name", "Ada"), ("password", &first)];
    let entered = browser.send("/set-up", &fields).await;
    assert_eq!((entered.status, entered.location()), (303, "/settings"), "{}", entered.text);
    browser.keep(&entered).await;
    secrets.keep("a session's cookie", browser.session());
    secrets.keep("a form's token", &browser.csrf);
    let second = new_password(secrets, "a newer password");
    let changed = browser.post("/settings/password", &[("current", &first), ("password", &second)]).await;
    assert_eq!(changed.status, 303, "{}", changed.text);
    // A second browser, which leaves again.
    let mut other = Browser::new(&house.base);
    let entered = other.send("/sign-in", &[("email", "ada@x.example"), ("password", &second)]).await;
    assert_eq!(entered.status, 303, "{}", entered.text);
    other.keep(&entered).await;
    secrets.keep("the cookie of a session that ended", other.session());
    assert_eq!(other.post("/sign-out", &[]).await.status, 303);
    assert_eq!(browser.get("/settings").await.status, 200);
    browser
}

/// Somebody is invited, and makes an account by the link.
pub async fn guest(house: &Caller, secrets: &mut Canaries, workspace: &str) {
    let path = format!("/workspaces/{workspace}/invite");
    let asked = json!({"email": "new@x.example", "permission": "member"});
    let invited = once(house, &house.key, &path, &asked, 200).await;
    let token = secrets.keep("an invitation's token", text(&invited, "token"));
    let mut browser = Browser::new(&house.base);
    let opened = browser.get(&format!("/invitation?token={token}")).await;
    assert_eq!(opened.status, 200, "{}", opened.text);
    let password = new_password(secrets, "a guest's password");
    let fields = [("token", token.as_str()), ("full_name", "N"), ("password", password.as_str())];
    let entered = browser.send("/invitation/account", &fields).await;
    assert_eq!(entered.status, 303, "{}", entered.text);
    browser.keep(&entered).await;
    secrets.keep("a guest's cookie", browser.session());
}

/// A program gets a key by a person's approval.
pub async fn device(house: &Caller, secrets: &mut Canaries, person: &Browser) {
    let asked = json!({"client": "hotdesk", "hostname": "buildbox"});
    let started = answered(house.bare(Method::POST, "/api/cli/auth/start").json(&asked)).await.body;
    let device = secrets.keep("a device's code", text(&started, "device_code"));
    let user = secrets.keep("the code that a person compares", text(&started, "user_code"));
    secrets.keep("the same without its hyphen", &user.replace('-', ""));
    assert_eq!(person.get(&format!("/cli/approve?code={user}")).await.status, 200);
    assert_eq!(person.post("/cli/approve", &[("code", &user), ("decision", "approve")]).await.status, 200);
    let poll = || house.bare(Method::POST, "/api/cli/auth/poll").json(&json!({"device_code": device}));
    let approved = answered(poll()).await.body;
    let key = secrets.keep("an approved program's key", text(&approved, "api_key"));
    assert_eq!(answered(house.request_with(&key, Method::GET, "/workspaces")).await.status, 200);
    assert_eq!(answered(poll()).await.body["status"], "expired", "it was handed out");
}

/// Loads the page of a form, and sends it as its person does.
async fn submit(person: &Browser, path: &str, fields: &[(&str, &str)]) -> Page {
    let page = person.get(path).await;
    let action = page
        .text
        .split_once("<form class=\"card\" method=\"post\" action=\"")
        .and_then(|(_, rest)| rest.split_once('"'));
    let action = action.unwrap_or_else(|| panic!("no form in {}", page.text)).0.replace("&amp;", "&");
    person.send(&action, &[fields, &[("csrf", &*page.hidden("csrf"))]].concat()).await
}

/// A client of MCP is let in, renews its tokens and loses its connection by using an old one.
pub async fn connection(house: &Caller, secrets: &mut Canaries, person: &Browser, workspace: &str) {
    let metadata = json!({"client_name": "Pilot", "redirect_uris": [REDIRECT]});
    let registered = answered(house.bare(Method::POST, "/oauth/register").json(&metadata)).await.body;
    assert!(registered["client_secret"].is_null(), "public clients have none: {registered}");
    let client = text(&registered, "client_id");
    // RFC 7636: 43 characters are the fewest that a verifier may have.
    let verifier = secrets.keep("a verifier", Secret::random(43).reveal());
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
    let asked = asking(&house.base, client, &[("code_challenge", Some(challenge.as_str()))]);
    let code = secrets.keep("an authorization code", &let_in(person, &asked, workspace).await);
    let ask = |fields: &[(&str, &str)]| answered(form(house.bare(Method::POST, "/oauth/token"), fields));
    let by_code = [
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("code", &*code),
        ("code_verifier", &*verifier),
    ];
    let (access, refresh) = pair(&ask(&by_code).await.body);
    let access = secrets.keep("an access token", &access);
    let refresh = secrets.keep("a refresh token", &refresh);
    assert_eq!(mcp(house, &access).await, 200);
    let renew = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", &*refresh)];
    let (newer, next) = pair(&ask(&renew).await.body);
    let newer = secrets.keep("a newer access token", &newer);
    secrets.keep("a newer refresh token", &next);
    assert_eq!((mcp(house, &access).await, mcp(house, &newer).await), (401, 200));
    // Mistakes too: a second use, which ends the connection and is told in the log.
    assert_eq!(ask(&renew).await.body["error"], "invalid_grant");
    assert_eq!(ask(&by_code).await.body["error"], "invalid_grant");
    assert_eq!(mcp(house, &newer).await, 401);
    secrets.keep("a code that nobody redeemed", &let_in(person, &asked, workspace).await);
}

/// Lets a client that asks have a workspace; the code that it is told.
async fn let_in(person: &Browser, asked: &str, workspace: &str) -> String {
    let answer = submit(person, asked, &[("decision", "allow"), ("workspace", workspace)]).await;
    assert_eq!(answer.status, 303, "{}", answer.text);
    let told = answer.location().strip_prefix(REDIRECT).expect("to the client").trim_start_matches('&');
    let told: Vec<(String, String)> = serde_urlencoded::from_str(told).expect("a query");
    said(&told, "code").expect("a code").to_owned()
}

/// How the MCP server answers a token.
async fn mcp(house: &Caller, token: &str) -> u16 {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let message: Value = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let request = house.bare(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
    request.bearer_auth(token).json(&message).send().await.expect("an answer").status().as_u16()
}

/// A person takes over what an agent's account holds: nothing, here.
pub async fn claim(person: &Browser, code: &str) {
    let path = format!("/claim/{code}");
    let taken = submit(person, &path, &[]).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    assert_eq!(person.get(&path).await.status, 404, "the link is used up");
}

/// The pages that a person sees afterwards: none shows again what was shown once.
pub async fn pages(person: &Browser, workspace: &str) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    let one = format!("/settings/workspaces/{workspace}");
    for path in ["/settings", "/settings/keys", "/settings/connections", "/settings/workspaces", &one] {
        let page = person.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        seen.push((path.to_owned(), page.text));
    }
    seen
}
