//! Secrets of people: passwords, sessions, invitations, device codes, and an MCP connection.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hotdesk::base::secret::Secret;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::look::Canaries;
use super::programs::{post_twice, text};
use crate::harness::agent::fetch_json;
use crate::harness::browser::{Browser, Page};
use crate::harness::caller::Caller;
use crate::oauth::{REDIRECT, authorize_url, form, parameter, token_pair};
use crate::people::second_factors;

/// Length of a person's password in these tests.
const PASSWORD_LENGTH: usize = 24;

fn new_password(secrets: &mut Canaries, what: &'static str) -> String {
    secrets.record(what, Secret::random(PASSWORD_LENGTH).reveal())
}

/// The operator signs in for the first time with the first key, and changes the password.
pub async fn operator(controller: &Caller, secrets: &mut Canaries) -> Browser {
    let mut browser = Browser::new(&controller.base);
    let first = new_password(secrets, "a password");
    let fields = [
        ("key", controller.key.as_str()),
        ("email", "ada@x.example"),
        ("full_name", "Ada"),
        ("password", &first),
    ];
    let entered = browser.send("/set-up", &fields).await;
    assert_eq!((entered.status, entered.location()), (303, "/console"), "{}", entered.text);
    browser.adopt_session(&entered).await;
    secrets.record("a session's cookie", browser.session());
    secrets.record("a form's token", &browser.csrf);
    let second = new_password(secrets, "a newer password");
    let changed = browser.post("/settings/password", &[("current", &first), ("password", &second)]).await;
    assert_eq!(changed.status, 303, "{}", changed.text);
    // A second browser, which signs out again.
    let mut other = Browser::new(&controller.base);
    let entered = other.send("/sign-in", &[("email", "ada@x.example"), ("password", &second)]).await;
    assert_eq!(entered.status, 303, "{}", entered.text);
    other.adopt_session(&entered).await;
    secrets.record("the cookie of a session that ended", other.session());
    assert_eq!(other.post("/sign-out", &[]).await.status, 303);
    second_factor(&browser, secrets, &second).await;
    assert_eq!(browser.get("/settings").await.status, 200);
    let token = secrets.record("a token of the console", &browser.console_token().await);
    assert_eq!(fetch_json(controller.request_with(&token, Method::GET, "/workspaces")).await.status, 200);
    browser
}

/// An authenticator app, a sign-in with one of its codes, and one with a recovery code.
async fn second_factor(browser: &Browser, secrets: &mut Canaries, password: &str) {
    let (secret, codes) = second_factors::set_up(browser, password).await;
    secrets.record("the secret of an authenticator app", &secret);
    secrets.record("a recovery code", &codes[1]);
    let used = secrets.record("a used recovery code", &codes[0]);
    let fresh = browser.anonymous();
    for code in [&used, &used] {
        let asked = fresh.send("/sign-in", &[("email", "ada@x.example"), ("password", password)]).await;
        let token = secrets.record("the token of a second step", &asked.hidden("token"));
        fresh.send("/sign-in/code", &[("token", &token), ("code", code)]).await;
    }
}

/// A browser is signed in by a link, and another link is not used.
pub async fn sign_in_links(controller: &Caller, secrets: &mut Canaries) {
    let path = "/user/sign-in-links";
    let token = |link: &Value| text(link, "url").split_once("#token=").expect("a token").1.to_owned();
    let used = token(&post_twice(controller, &controller.key, path, &json!({}), 201).await);
    secrets.record("a sign-in link's token", &used);
    let unused = token(&controller.create(path, json!({})).await);
    secrets.record("the token of an unused sign-in link", &unused);
    let mut browser = Browser::new(&controller.base);
    assert_eq!(browser.send("/sign-in/link", &[("token", &used)]).await.status, 200);
    let entered = browser.send("/sign-in/link", &[("token", &used), ("sure", "true")]).await;
    assert_eq!(entered.status, 303, "{}", entered.text);
    browser.adopt_session(&entered).await;
    secrets.record("the cookie of a sign-in by a link", browser.session());
}

/// A person is invited and creates an account through the link.
pub async fn guest(controller: &Caller, secrets: &mut Canaries, workspace: &str) {
    let path = format!("/workspaces/{workspace}/invite");
    let invitation = json!({"email": "new@x.example", "permission": "member"});
    let invited = post_twice(controller, &controller.key, &path, &invitation, 200).await;
    let token = secrets.record("an invitation's token", text(&invited, "token"));
    let mut browser = Browser::new(&controller.base);
    let opened = browser.get(&format!("/invitation?token={token}")).await;
    assert_eq!(opened.status, 200, "{}", opened.text);
    let password = new_password(secrets, "a guest's password");
    let fields = [("token", token.as_str()), ("full_name", "N"), ("password", password.as_str())];
    let entered = browser.send("/invitation/account", &fields).await;
    assert_eq!(entered.status, 303, "{}", entered.text);
    browser.adopt_session(&entered).await;
    secrets.record("a guest's cookie", browser.session());
}

/// A program gets a key through device authorization.
pub async fn device(controller: &Caller, secrets: &mut Canaries, person: &Browser) {
    let request = json!({"client": "hotdesk", "hostname": "buildbox"});
    let started = fetch_json(controller.bare(Method::POST, "/api/cli/auth/start").json(&request)).await.body;
    let device = secrets.record("a device's code", text(&started, "device_code"));
    let user = secrets.record("the code that a person compares", text(&started, "user_code"));
    secrets.record("the same without its hyphen", &user.replace('-', ""));
    assert_eq!(person.get(&format!("/cli/approve?code={user}")).await.status, 200);
    assert_eq!(person.post("/cli/approve", &[("code", &user), ("decision", "approve")]).await.status, 200);
    let poll = || controller.bare(Method::POST, "/api/cli/auth/poll").json(&json!({"device_code": device}));
    let approved = fetch_json(poll()).await.body;
    let key = secrets.record("an approved program's key", text(&approved, "api_key"));
    assert_eq!(fetch_json(controller.request_with(&key, Method::GET, "/workspaces")).await.status, 200);
    assert_eq!(fetch_json(poll()).await.body["status"], "expired", "the key is handed out once");
}

/// Loads a page with a form and submits the form.
async fn submit(person: &Browser, path: &str, fields: &[(&str, &str)]) -> Page {
    let page = person.get(path).await;
    let action = page
        .text
        .split_once("<form class=\"card\" method=\"post\" action=\"")
        .and_then(|(_, rest)| rest.split_once('"'));
    let action = action.unwrap_or_else(|| panic!("no form in {}", page.text)).0.replace("&amp;", "&");
    person.send(&action, &[fields, &[("csrf", &*page.hidden("csrf"))]].concat()).await
}

/// An MCP client is authorized, refreshes its tokens, and loses its connection by reusing an old one.
pub async fn connection(controller: &Caller, secrets: &mut Canaries, person: &Browser, workspace: &str) {
    let metadata = json!({"client_name": "Pilot", "redirect_uris": [REDIRECT]});
    let registered = fetch_json(controller.bare(Method::POST, "/oauth/register").json(&metadata)).await.body;
    assert!(registered["client_secret"].is_null(), "public clients have none: {registered}");
    let client = text(&registered, "client_id");
    // RFC 7636: a verifier has at least 43 characters.
    let verifier = secrets.record("a verifier", Secret::random(43).reveal());
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
    let authorize_path =
        authorize_url(&controller.base, client, &[("code_challenge", Some(challenge.as_str()))]);
    let code = secrets.record("an authorization code", &authorize(person, &authorize_path, workspace).await);
    let exchange =
        |fields: &[(&str, &str)]| fetch_json(form(controller.bare(Method::POST, "/oauth/token"), fields));
    let by_code = [
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("code", &*code),
        ("code_verifier", &*verifier),
    ];
    let (access, refresh) = token_pair(&exchange(&by_code).await.body);
    let access = secrets.record("an access token", &access);
    let refresh = secrets.record("a refresh token", &refresh);
    assert_eq!(mcp(controller, &access).await, 200);
    let renew = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", &*refresh)];
    let (newer, next) = token_pair(&exchange(&renew).await.body);
    let newer = secrets.record("a newer access token", &newer);
    secrets.record("a newer refresh token", &next);
    assert_eq!((mcp(controller, &access).await, mcp(controller, &newer).await), (401, 200));
    // Second uses, which end the connection and are logged.
    assert_eq!(exchange(&renew).await.body["error"], "invalid_grant");
    assert_eq!(exchange(&by_code).await.body["error"], "invalid_grant");
    assert_eq!(mcp(controller, &newer).await, 401);
    secrets.record("a code that nobody redeemed", &authorize(person, &authorize_path, workspace).await);
}

/// Authorizes the client for a workspace and returns the code.
async fn authorize(person: &Browser, path: &str, workspace: &str) -> String {
    let answer = submit(person, path, &[("decision", "allow"), ("workspace", workspace)]).await;
    assert_eq!(answer.status, 303, "{}", answer.text);
    let query =
        answer.location().strip_prefix(REDIRECT).expect("a redirect to the client").trim_start_matches('&');
    let parameters: Vec<(String, String)> = serde_urlencoded::from_str(query).expect("a query");
    parameter(&parameters, "code").expect("a code").to_owned()
}

/// The status of the MCP server's response to a token.
async fn mcp(controller: &Caller, token: &str) -> u16 {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let message: Value = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let request =
        controller.bare(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
    request.bearer_auth(token).json(&message).send().await.expect("an answer").status().as_u16()
}

/// A person claims an agent's account, which holds nothing here.
pub async fn claim(person: &Browser, code: &str) {
    let path = format!("/claim/{code}");
    let claimed = submit(person, &path, &[]).await;
    assert_eq!(claimed.status, 200, "{}", claimed.text);
    assert_eq!(person.get(&path).await.status, 404, "a claim link works once");
}

/// Pages that a person sees afterwards. None shows a secret again that is shown only once.
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
