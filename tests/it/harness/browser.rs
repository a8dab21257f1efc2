//! Browser client for tests: it stores its session cookie, sends the CSRF token of forms, and follows no
//! redirect.

use hotdesk::base::secret::Secret;
use hotdesk::controller::identity::auth::session::hash_password;
use hotdesk::domain::identity::email::Email;
use hotdesk::store::Store;
use hotdesk::store::identity::people::Account;
use reqwest::{Method, RequestBuilder, redirect};

/// The password of every account in these tests.
pub const PASSWORD: &str = "correct horse battery staple";

pub struct Browser {
    client: reqwest::Client,
    base: String,
    /// `name=value` after the sign-in, else empty.
    cookie: String,
    /// The CSRF token for forms.
    pub csrf: String,
}

/// A response with a page.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

/// Adds an account of a person to the store.
pub async fn person(store: &Store, email: &str) -> Account {
    let hash = hash_password(Secret::new(PASSWORD)).await.expect("a password");
    let account = Account::person(&Email::parse(email).expect("an address"), "", Some(hash));
    store.add_account(&account).await.expect("a new account");
    account
}

impl Browser {
    pub fn new(base: &str) -> Self {
        let client = super::client_builder().redirect(redirect::Policy::none()).build().expect("a client");
        Self { client, base: base.to_owned(), cookie: String::new(), csrf: String::new() }
    }

    /// Another browser at the same service, without a session.
    pub fn anonymous(&self) -> Self {
        Self::new(&self.base)
    }

    /// The session id: the value of the cookie.
    pub fn session(&self) -> &str {
        self.cookie.split_once('=').map_or("", |(_, value)| value)
    }

    /// The same browser with the server's new base URL.
    pub fn at(self, base: &str) -> Self {
        Self { base: base.to_owned(), ..self }
    }

    /// A browser after the sign-in of an existing account.
    pub async fn signed_in(base: &str, email: &str) -> Self {
        let mut browser = Self::new(base);
        let entered = browser.send("/sign-in", &[("email", email), ("password", PASSWORD)]).await;
        assert_eq!((entered.status, entered.location()), (303, "/console"), "{}", entered.text);
        browser.adopt_session(&entered).await;
        browser
    }

    /// Adopts the session cookie of a response.
    pub async fn adopt_session(&mut self, answer: &Page) {
        let cookie = answer.headers["set-cookie"].to_str().expect("text");
        self.cookie = cookie.split(';').next().expect("a cookie").to_owned();
        self.csrf = self.get("/settings").await.hidden("csrf");
    }

    /// A request builder with the session cookie.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        if self.cookie.is_empty() { request } else { request.header("cookie", &self.cookie) }
    }

    pub async fn get(&self, path: &str) -> Page {
        page(self.request(Method::GET, path)).await
    }

    /// Sends a form with the CSRF token.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        self.send(path, &[&[("csrf", &*self.csrf)], fields].concat()).await
    }

    /// A new token of the console's pages for the API.
    pub async fn console_token(&self) -> String {
        let issued = self.post("/console/token", &[]).await;
        assert_eq!(issued.status, 200, "{}", issued.text);
        let issued: serde_json::Value = serde_json::from_str(&issued.text).expect("JSON");
        issued["token"].as_str().expect("a token").to_owned()
    }

    /// Sends a form without the CSRF token.
    pub async fn send(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let body = serde_urlencoded::to_string(fields).expect("a form");
        let kind = "application/x-www-form-urlencoded";
        page(self.request(Method::POST, path).header("content-type", kind).body(body)).await
    }
}

impl Page {
    pub fn location(&self) -> &str {
        self.headers.get("location").map_or("", |to| to.to_str().expect("text"))
    }

    /// The value of a hidden form field.
    #[track_caller]
    pub fn hidden(&self, name: &str) -> String {
        let before = format!("name=\"{name}\" value=\"");
        let value = self.text.split_once(&before).and_then(|(_, rest)| rest.split_once('"'));
        value.unwrap_or_else(|| panic!("no {name} in {}", self.text)).0.to_owned()
    }
}

pub async fn page(request: RequestBuilder) -> Page {
    let answer = request.send().await.expect("an answer");
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    Page { status, headers, text: answer.text().await.expect("text") }
}
