//! A controller, a person with a browser, and a client that wants in.

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use hotdesk::base::ids::AccountId;
use hotdesk::base::secret::Secret;
use hotdesk::controller::auth::keys::digest;
use hotdesk::controller::auth::session::hash_password;
use hotdesk::controller::config::Limits;
use hotdesk::controller::oauth::challenge::{Why, challenge};
use hotdesk::controller::origin::Origin;
use hotdesk::http::bearer::{self, Shown};
use hotdesk::http::guarded::Trust;
use hotdesk::store::Store;
use hotdesk::store::people::Account;
use reqwest::Method;
use reqwest::header::{HeaderMap, LOCATION};
use serde_json::{Value, json};

use crate::harness::agent::{Answered, answered};
use crate::harness::client_builder;
use crate::harness::simulation::{Setup, Simulation};

/// RFC 7636 appendix B.
pub const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
pub const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
/// Where the client that registered itself wants its answers.
pub const REDIRECT: &str = "https://app.example/cb?from=hotdesk";
/// Wrong codes and tokens that one source may show in a minute: of fifty who race for one code all but two may come when it is dead.
pub const MOST_WRONG: u32 = 60;
const PASSWORD: &str = "a long enough password";

/// What a browser got.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Page {
    /// Where it leads to.
    pub fn location(&self) -> Option<&str> {
        self.headers.get(LOCATION).map(|value| value.to_str().expect("ASCII"))
    }

    /// The parameters with which it leads on to `redirect`.
    pub fn told(&self, redirect: &str) -> Vec<(String, String)> {
        let target =
            self.location().unwrap_or_else(|| panic!("{} leads nowhere: {}", self.status, self.text));
        assert_eq!(self.status, 303, "{target}");
        let said = target.strip_prefix(redirect).unwrap_or_else(|| panic!("{target}"));
        let said = said.strip_prefix(if redirect.contains('?') { '&' } else { '?' }).expect("parameters");
        serde_urlencoded::from_str(said).expect("a query")
    }
}

/// One of those parameters.
pub fn said<'a>(told: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut values = told.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str());
    let value = values.next();
    assert_eq!(values.next(), None, "{name} twice in {told:?}");
    value
}

/// A browser in which somebody has signed in.
pub struct Browser {
    client: reqwest::Client,
    base: String,
    cookie: String,
}

impl Browser {
    pub async fn sign_in(base: &str, email: &str) -> Self {
        let client = client_builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        let nobody = Self { client, base: base.to_owned(), cookie: String::new() };
        let signed_in = nobody.post("/sign-in", &[("email", email), ("password", PASSWORD)]).await;
        assert_eq!(signed_in.status, 303, "{}", signed_in.text);
        let cookie = signed_in.headers["set-cookie"].to_str().expect("ASCII");
        Self { cookie: cookie.split(';').next().expect("a pair").to_owned(), ..nobody }
    }

    /// What it sends with each request.
    pub fn cookie(&self) -> &str {
        &self.cookie
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base)).header("cookie", &self.cookie)
    }

    pub async fn get(&self, path: &str) -> Page {
        shown(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        shown(form(self.request(Method::POST, path), fields)).await
    }

    /// Loads a page, fills its form in and sends it to where it says.
    pub async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let page = self.get(path).await;
        let action =
            attribute(&page.text, "<form class=\"card\" method=\"post\" action=\"").replace("&amp;", "&");
        self.post(&action, &[fields, &[("csrf", csrf(&page.text))]].concat()).await
    }
}

/// What stands between these words and the next quotation mark.
fn attribute<'a>(page: &'a str, before: &str) -> &'a str {
    let (_, rest) = page.split_once(before).unwrap_or_else(|| panic!("no {before} in {page}"));
    rest.split('"').next().expect("a value")
}

pub async fn shown(request: reqwest::RequestBuilder) -> Page {
    let response = request.send().await.expect("an answer");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Page { status, headers, text: response.text().await.expect("text") }
}

pub fn form(request: reqwest::RequestBuilder, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
    let body = serde_urlencoded::to_string(fields).expect("a form");
    request.header("content-type", "application/x-www-form-urlencoded").body(body)
}

/// What the forms of a page carry.
pub fn csrf(page: &str) -> &str {
    attribute(page, "name=\"csrf\" value=\"")
}

pub struct Scene {
    pub house: Simulation,
    pub me: Browser,
    pub account: AccountId,
    pub workspace: String,
    /// The client that registered itself.
    pub client: String,
}

impl Scene {
    pub async fn set() -> Self {
        Self::trusting(None).await
    }

    /// A scene in which documents are fetched in another way.
    pub async fn trusting(trust: Option<Trust>) -> Self {
        let house = simulation(trust).await;
        let account = operator(&house.store().await).await;
        let workspace = house.workspace("home").await;
        let me = Browser::sign_in(&house.base, "me@desk.example").await;
        let mut scene = Self { house, me, account, workspace, client: String::new() };
        let registered = scene.register(json!({"client_name": "Pilot", "redirect_uris": [REDIRECT]})).await;
        assert_eq!(registered.status, 201, "{}", registered.body);
        scene.client = registered.body["client_id"].as_str().expect("an id").to_owned();
        scene
    }

    /// Another person, with a workspace of its own.
    pub async fn somebody_else(&self) -> (AccountId, Browser) {
        let store = self.house.store().await;
        let account = Account {
            id: AccountId::random(),
            email: "other@desk.example".to_owned(),
            full_name: "Other".to_owned(),
            password_hash: Some(hash_password(Secret::new(PASSWORD)).await.expect("a hash")),
            kind: "person".to_owned(),
            plan: None,
            created_at: 1,
        };
        store.add_account(&account).await.expect("an account");
        (account.id, Browser::sign_in(&self.house.base, "other@desk.example").await)
    }

    pub async fn register(&self, metadata: Value) -> Answered {
        answered(self.house.bare(Method::POST, "/oauth/register").json(&metadata)).await
    }

    pub fn resource(&self) -> String {
        format!("{}/mcp", self.house.base)
    }

    /// The address of a sound request, changed in some parameters.
    pub fn asking(&self, changes: &[(&str, Option<&str>)]) -> String {
        asking(&self.house.base, &self.client, changes)
    }

    /// Lets the client in; the code.
    pub async fn code(&self) -> String {
        let allowed = [("decision", "allow"), ("workspace", self.workspace.as_str())];
        let told = self.me.submit(&self.asking(&[]), &allowed).await.told(REDIRECT);
        said(&told, "code").unwrap_or_else(|| panic!("{told:?}")).to_owned()
    }

    /// Asks the token endpoint.
    pub async fn exchange(&self, fields: &[(&str, &str)]) -> Answered {
        answered(form(self.house.bare(Method::POST, "/oauth/token"), fields)).await
    }

    pub async fn redeem(&self, code: &str) -> Answered {
        self.exchange(&[
            ("grant_type", "authorization_code"),
            ("client_id", &self.client),
            ("code", code),
            ("code_verifier", VERIFIER),
            ("redirect_uri", REDIRECT),
        ])
        .await
    }

    pub async fn refresh(&self, token: &str) -> Answered {
        self.exchange(&[
            ("grant_type", "refresh_token"),
            ("client_id", &self.client),
            ("refresh_token", token),
        ])
        .await
    }

    /// A connection's access token and refresh token.
    pub async fn connect(&self) -> (String, String) {
        let redeemed = self.redeem(&self.code().await).await;
        assert_eq!(redeemed.status, 200, "{}", redeemed.body);
        pair(&redeemed.body)
    }

    /// What the MCP endpoint says to a token.
    pub async fn mcp(&self, token: &str) -> Page {
        shown(self.house.bare(Method::POST, "/mcp").bearer_auth(token)).await
    }

    /// Makes the connections older: a statement about `oauth_grants`.
    pub async fn age(&self, statement: &'static str) {
        sqlx::any::install_default_drivers();
        let url = format!("sqlite://{}", self.house.store_file().display());
        let pool = sqlx::AnyPool::connect(&url).await.expect("the store");
        sqlx::query(statement).execute(&pool).await.expect("it is aged");
        pool.close().await;
    }
}

/// The address at which a client asks soundly, changed in some parameters.
pub fn asking(base: &str, client: &str, changes: &[(&str, Option<&str>)]) -> String {
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

/// Lets the operator of a store sign in.
pub async fn operator(store: &Store) -> AccountId {
    let account = store.operator().await.expect("the operator");
    let hash = hash_password(Secret::new(PASSWORD)).await.expect("a hash");
    let set = store.set_sign_in(account, "me@desk.example", "Me", &hash).await;
    assert!(set.expect("the store answers"), "nobody could sign in to it before");
    account
}

/// The two tokens of an answer.
pub fn pair(body: &Value) -> (String, String) {
    let text = |name: &str| body[name].as_str().unwrap_or_else(|| panic!("{name} in {body}")).to_owned();
    (text("access_token"), text("refresh_token"))
}

async fn simulation(trust: Option<Trust>) -> Simulation {
    let limits = Limits { wrong_keys_per_minute: MOST_WRONG, ..Limits::default() };
    let setup = Setup { trust, limits, dress: Some(with_a_resource), ..Setup::default() };
    Simulation::boot_of(std::sync::Arc::new(|_| Router::new()), setup).await
}

/// The endpoint that tokens are for, as far as this matters here: it tells whose a token is.
fn with_a_resource(router: Router, store: Store) -> Router {
    Router::new().route("/mcp", any(resource).with_state(store)).fallback_service(router)
}

async fn resource(State(store): State<Store>, request: Request) -> Response {
    let host = request.headers()["host"].to_str().expect("a host");
    let site = Origin(format!("http://{host}"));
    let token = match bearer::shown(request.headers()) {
        Shown::Nothing => return challenge(&site, Why::NoToken),
        Shown::Unusable => return challenge(&site, Why::BadToken),
        Shown::Bearer(token) => token,
    };
    match store.bearer(&digest(token)).await.expect("the store answers") {
        Some(bearer) => axum::Json(json!({
            "account": bearer.account.to_string(),
            "workspace": bearer.workspace.0.to_string(),
        }))
        .into_response(),
        None => challenge(&site, Why::BadToken),
    }
}
