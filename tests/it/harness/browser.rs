//! A person's browser: keeps its cookie, fills in what its pages' forms hide, and follows no redirect by itself.

use hotdesk::base::secret::Secret;
use hotdesk::controller::auth::session::hash_password;
use hotdesk::domain::email::Email;
use hotdesk::store::Store;
use hotdesk::store::people::Account;
use reqwest::{Method, RequestBuilder, redirect};

/// What everybody here signs in with.
pub const PASSWORD: &str = "correct horse battery staple";

pub struct Browser {
    client: reqwest::Client,
    base: String,
    /// `name=value`, once it is signed in.
    cookie: String,
    /// What its forms carry.
    pub csrf: String,
}

/// What a page came as.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

/// Makes a person's account.
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

    /// What its session is known by: the cookie's value.
    pub fn session(&self) -> &str {
        self.cookie.split_once('=').map_or("", |(_, value)| value)
    }

    /// The same browser where the server is now.
    pub fn at(self, base: &str) -> Self {
        Self { base: base.to_owned(), ..self }
    }

    /// A browser that somebody with an account signs in.
    pub async fn signed_in(base: &str, email: &str) -> Self {
        let mut browser = Self::new(base);
        let entered = browser.send("/sign-in", &[("email", email), ("password", PASSWORD)]).await;
        assert_eq!((entered.status, entered.location()), (303, "/settings"), "{}", entered.text);
        browser.keep(&entered).await;
        browser
    }

    /// Takes over the session that an answer began.
    pub async fn keep(&mut self, answer: &Page) {
        let cookie = answer.headers["set-cookie"].to_str().expect("text");
        self.cookie = cookie.split(';').next().expect("a cookie").to_owned();
        self.csrf = self.get("/settings").await.hidden("csrf");
    }

    /// A request as this browser makes it, to be completed.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        if self.cookie.is_empty() { request } else { request.header("cookie", &self.cookie) }
    }

    pub async fn get(&self, path: &str) -> Page {
        page(self.request(Method::GET, path)).await
    }

    /// Sends a form with what its page hides in it.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        self.send(path, &[&[("csrf", &*self.csrf)], fields].concat()).await
    }

    /// Sends a form as it is.
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

    /// What a hidden field of its forms holds.
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
