//! Controller, a person with a browser, and a client that requests access.

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use hotdesk::base::ids::AccountId;
use hotdesk::base::secret::Secret;
use hotdesk::base::time::UnixMillis;
use hotdesk::controller::config::Limits;
use hotdesk::controller::identity::auth::keys::digest;
use hotdesk::controller::identity::auth::session::hash_password;
use hotdesk::controller::identity::oauth::challenge::{TokenProblem, challenge};
use hotdesk::controller::web::origin::Origin;
use hotdesk::http::bearer::{self, Credentials};
use hotdesk::http::guarded_fetch::Trust;
use hotdesk::store::Store;
use hotdesk::store::identity::people::Account;
use reqwest::Method;
use reqwest::header::{HeaderMap, LOCATION};
use serde_json::{Value, json};

use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::client_builder;
use crate::harness::simulation::{Setup, Simulation};

/// RFC 7636 appendix B.
pub const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
pub const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
/// Redirect URI of the registered client.
pub const REDIRECT: &str = "https://app.example/cb?from=hotdesk";
/// Wrong codes and tokens per source and minute: of fifty concurrent redemptions of a code, up to 48 count as
/// wrong.
pub const MAX_WRONG: u32 = 60;
const PASSWORD: &str = "a long enough password";

/// A response to a browser.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Page {
    /// The `Location` header.
    pub fn location(&self) -> Option<&str> {
        self.headers.get(LOCATION).map(|value| value.to_str().expect("ASCII"))
    }

    /// The parameters of a redirect to `redirect`.
    pub fn redirect_parameters(&self, redirect: &str) -> Vec<(String, String)> {
        let target =
            self.location().unwrap_or_else(|| panic!("{} leads nowhere: {}", self.status, self.text));
        assert_eq!(self.status, 303, "{target}");
        let query = target.strip_prefix(redirect).unwrap_or_else(|| panic!("{target}"));
        let query = query.strip_prefix(if redirect.contains('?') { '&' } else { '?' }).expect("parameters");
        serde_urlencoded::from_str(query).expect("a query")
    }
}

/// The value of a redirect parameter, which must not occur twice.
pub fn parameter<'a>(parameters: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut values = parameters.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str());
    let value = values.next();
    assert_eq!(values.next(), None, "{name} twice in {parameters:?}");
    value
}

/// A browser with a signed-in session.
pub struct Browser {
    client: reqwest::Client,
    base: String,
    cookie: String,
}

impl Browser {
    pub async fn sign_in(base: &str, email: &str) -> Self {
        let client = client_builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        let signed_out = Self { client, base: base.to_owned(), cookie: String::new() };
        let signed_in = signed_out.post("/sign-in", &[("email", email), ("password", PASSWORD)]).await;
        assert_eq!(signed_in.status, 303, "{}", signed_in.text);
        let cookie = signed_in.headers["set-cookie"].to_str().expect("ASCII");
        Self { cookie: cookie.split(';').next().expect("a pair").to_owned(), ..signed_out }
    }

    /// The session cookie.
    pub fn cookie(&self) -> &str {
        &self.cookie
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base)).header("cookie", &self.cookie)
    }

    pub async fn get(&self, path: &str) -> Page {
        fetch_page(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        fetch_page(form(self.request(Method::POST, path), fields)).await
    }

    /// Loads a page, fills its form in and sends it to the form's action.
    pub async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let page = self.get(path).await;
        let action =
            attribute(&page.text, "<form class=\"card\" method=\"post\" action=\"").replace("&amp;", "&");
        self.post(&action, &[fields, &[("csrf", csrf(&page.text))]].concat()).await
    }
}

/// The text between `before` and the next quotation mark.
fn attribute<'a>(page: &'a str, before: &str) -> &'a str {
    let (_, rest) = page.split_once(before).unwrap_or_else(|| panic!("no {before} in {page}"));
    rest.split('"').next().expect("a value")
}

/// Sends a request and reads the page.
pub async fn fetch_page(request: reqwest::RequestBuilder) -> Page {
    let response = request.send().await.expect("an answer");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Page { status, headers, text: response.text().await.expect("text") }
}

pub fn form(request: reqwest::RequestBuilder, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
    let body = serde_urlencoded::to_string(fields).expect("a form");
    request.header("content-type", "application/x-www-form-urlencoded").body(body)
}

/// The CSRF token of a page's form.
pub fn csrf(page: &str) -> &str {
    attribute(page, "name=\"csrf\" value=\"")
}

pub struct Scene {
    pub controller: Simulation,
    pub me: Browser,
    pub account: AccountId,
    pub workspace: String,
    /// The id of the registered client.
    pub client: String,
}

impl Scene {
    pub async fn boot() -> Self {
        Self::boot_with_trust(None).await
    }

    /// A scene with this trust of document fetches.
    pub async fn boot_with_trust(trust: Option<Trust>) -> Self {
        let controller = simulation(trust).await;
        let account = operator(&controller.store().await).await;
        let workspace = controller.workspace("home").await;
        let me = Browser::sign_in(&controller.base, "me@desk.example").await;
        let mut scene = Self { controller, me, account, workspace, client: String::new() };
        let registered = scene.register(json!({"client_name": "Pilot", "redirect_uris": [REDIRECT]})).await;
        assert_eq!(registered.status, 201, "{}", registered.body);
        scene.client = registered.body["client_id"].as_str().expect("an id").to_owned();
        scene
    }

    /// Another person with an account of their own.
    pub async fn add_account(&self) -> (AccountId, Browser) {
        let store = self.controller.store().await;
        let account = Account {
            id: AccountId::random(),
            email: "other@desk.example".to_owned(),
            email_verified: false,
            full_name: "Other".to_owned(),
            password_hash: Some(hash_password(Secret::new(PASSWORD)).await.expect("a hash")),
            kind: "person".to_owned(),
            plan: None,
            created_at: UnixMillis::EPOCH,
        };
        store.add_account(&account).await.expect("an account");
        (account.id, Browser::sign_in(&self.controller.base, "other@desk.example").await)
    }

    pub async fn register(&self, metadata: Value) -> HttpAnswer {
        fetch_json(self.controller.bare(Method::POST, "/oauth/register").json(&metadata)).await
    }

    pub fn resource(&self) -> String {
        format!("{}/mcp", self.controller.base)
    }

    /// The URL of a valid authorization request with some parameters changed.
    pub fn authorize_url(&self, changes: &[(&str, Option<&str>)]) -> String {
        authorize_url(&self.controller.base, &self.client, changes)
    }

    /// Authorizes the client and returns the code.
    pub async fn code(&self) -> String {
        let allowed = [("decision", "allow"), ("workspace", self.workspace.as_str())];
        let parameters =
            self.me.submit(&self.authorize_url(&[]), &allowed).await.redirect_parameters(REDIRECT);
        parameter(&parameters, "code").unwrap_or_else(|| panic!("{parameters:?}")).to_owned()
    }

    /// Sends a request to the token endpoint.
    pub async fn exchange(&self, fields: &[(&str, &str)]) -> HttpAnswer {
        fetch_json(form(self.controller.bare(Method::POST, "/oauth/token"), fields)).await
    }

    pub async fn redeem(&self, code: &str) -> HttpAnswer {
        self.exchange(&[
            ("grant_type", "authorization_code"),
            ("client_id", &self.client),
            ("code", code),
            ("code_verifier", VERIFIER),
            ("redirect_uri", REDIRECT),
        ])
        .await
    }

    pub async fn refresh(&self, token: &str) -> HttpAnswer {
        self.exchange(&[
            ("grant_type", "refresh_token"),
            ("client_id", &self.client),
            ("refresh_token", token),
        ])
        .await
    }

    /// The access token and the refresh token of a new connection.
    pub async fn connect(&self) -> (String, String) {
        let redeemed = self.redeem(&self.code().await).await;
        assert_eq!(redeemed.status, 200, "{}", redeemed.body);
        token_pair(&redeemed.body)
    }

    /// The response of the MCP endpoint to a token.
    pub async fn mcp(&self, token: &str) -> Page {
        fetch_page(self.controller.bare(Method::POST, "/mcp").bearer_auth(token)).await
    }

    /// Runs a statement on the store, to make records older.
    pub async fn age(&self, statement: &'static str) {
        let pool = self.controller.store_pool().await;
        sqlx::query(statement).execute(&pool).await.expect("a statement");
        pool.close().await;
    }
}

/// The URL of a valid authorization request with some parameters changed.
pub fn authorize_url(base: &str, client: &str, changes: &[(&str, Option<&str>)]) -> String {
    let resource = format!("{base}/mcp");
    let mut all = vec![
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", REDIRECT),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("scope", "mcp:tools"),
        ("state", "a state"),
        ("resource", &resource),
    ];
    for (name, value) in changes {
        all.retain(|(given, _)| given != name);
        all.extend(value.map(|value| (*name, value)));
    }
    format!("/oauth/authorize?{}", serde_urlencoded::to_string(all).expect("a query"))
}

/// Sets a sign-in for the operator of a store.
pub async fn operator(store: &Store) -> AccountId {
    let account = store.operator_account().await.expect("the operator");
    let hash = hash_password(Secret::new(PASSWORD)).await.expect("a hash");
    let set = store.set_sign_in(account, "me@desk.example", "Me", &hash).await;
    assert!(set.expect("the store answers"), "the operator had no sign-in");
    account
}

/// The access token and the refresh token of a response.
pub fn token_pair(body: &Value) -> (String, String) {
    let text = |name: &str| body[name].as_str().unwrap_or_else(|| panic!("{name} in {body}")).to_owned();
    (text("access_token"), text("refresh_token"))
}

async fn simulation(trust: Option<Trust>) -> Simulation {
    let limits = Limits { wrong_keys_per_minute: MAX_WRONG, ..Limits::default() };
    let setup = Setup { trust, limits, wrap_router: Some(with_a_resource), ..Setup::default() };
    Simulation::boot_with_agent(std::sync::Arc::new(|_| Router::new()), setup).await
}

/// Adds a stand-in for the MCP endpoint that returns the account and the workspace of a token.
fn with_a_resource(router: Router, store: Store) -> Router {
    Router::new().route("/mcp", any(resource).with_state(store)).fallback_service(router)
}

async fn resource(State(store): State<Store>, request: Request) -> Response {
    let host = request.headers()["host"].to_str().expect("a host");
    let site = Origin(format!("http://{host}"));
    let token = match bearer::credentials(request.headers()) {
        Credentials::Missing => return challenge(&site, TokenProblem::NoToken),
        Credentials::Invalid => return challenge(&site, TokenProblem::BadToken),
        Credentials::Bearer(token) => token,
    };
    match store.token_owner(&digest(token)).await.expect("the store answers") {
        Some(bearer) => axum::Json(json!({
            "account": bearer.account.to_string(),
            "workspace": bearer.workspace.0.to_string(),
        }))
        .into_response(),
        None => challenge(&site, TokenProblem::BadToken),
    }
}
