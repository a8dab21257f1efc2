//! Does the page of keys make, show once and delete, for a signed-in person alone?

use reqwest::header::{COOKIE, HeaderMap};
use reqwest::{Client, Method, StatusCode};

use super::cast::{PASSWORD, add_account};
use crate::harness::agent::answered;
use crate::harness::client_builder;
use crate::harness::simulation::Simulation;

/// A browser: it follows nothing, so that a test sees what it is told.
struct Browser {
    client: Client,
    base: String,
    cookie: String,
}

impl Browser {
    async fn signed_in(house: &Simulation, email: &str) -> Self {
        let client = client_builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        let form = form(&[("email", email), ("password", PASSWORD)]);
        let request = client.post(format!("{}/sign-in", house.base)).headers(form_headers());
        let answer = request.body(form).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        let cookie = answer.headers()["set-cookie"].to_str().expect("text");
        let cookie = cookie.split(';').next().expect("a cookie").to_owned();
        Self { client, base: house.base.clone(), cookie }
    }

    async fn see(&self, path: &str) -> (StatusCode, String) {
        let request = self.client.get(format!("{}{path}", self.base)).header(COOKIE, &self.cookie);
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.headers()["cache-control"], "no-store");
        (answer.status(), answer.text().await.expect("a page"))
    }

    async fn send(&self, path: &str, fields: &[(&str, &str)]) -> (StatusCode, String) {
        let request = self.client.post(format!("{}{path}", self.base)).header(COOKIE, &self.cookie);
        let answer = request.headers(form_headers()).body(form(fields)).send().await.expect("an answer");
        (answer.status(), answer.text().await.expect("a page"))
    }
}

fn form_headers() -> HeaderMap {
    let kind = "application/x-www-form-urlencoded".parse().expect("a value");
    [(reqwest::header::CONTENT_TYPE, kind)].into_iter().collect()
}

fn form(fields: &[(&str, &str)]) -> String {
    serde_urlencoded::to_string(fields).expect("a form")
}

/// The value of the first field of this name.
fn field<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\"")).expect("a field");
    rest.split('"').next().expect("a value")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_makes_sees_once_and_deletes_a_key() {
    let house = Simulation::boot().await;
    add_account(&house.store().await, "person@example").await;
    let browser = Browser::signed_in(&house, "person@example").await;
    let (status, page) = browser.see("/settings/keys").await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("There are no keys yet."));
    let csrf = field(&page, "csrf").to_owned();

    let name = "<b>ci</b>";
    let (refused, _) = browser.send("/settings/keys", &[("name", name)]).await;
    assert_eq!(refused, StatusCode::FORBIDDEN, "a form without its token is somebody else's");
    let (made, shown) = browser.send("/settings/keys", &[("name", name), ("csrf", &csrf)]).await;
    assert_eq!(made, StatusCode::CREATED, "{shown}");
    let start = shown.find("sk_live_").expect("the key is shown");
    let key: String = shown[start..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    assert_eq!(answered(house.request_with(&key, Method::GET, "/workspaces")).await.status, 200);
    let (_, again) = browser.see("/settings/keys").await;
    assert!(!again.contains(&key) && again.contains(&key[key.len() - 4..]) && !again.contains(name));

    let id = field(&again, "id").to_owned();
    let (gone, _) = browser.send("/settings/keys/delete", &[("id", &id), ("csrf", &csrf)]).await;
    assert_eq!(gone, StatusCode::SEE_OTHER);
    assert_eq!(answered(house.request_with(&key, Method::GET, "/workspaces")).await.status, 401);
    // Nobody's browser is sent to the sign-in.
    let stranger = Browser { cookie: String::new(), ..browser };
    let sent = stranger.client.get(format!("{}/settings/keys", stranger.base)).send().await.expect("sent");
    assert_eq!(sent.headers()["location"], "/sign-in?next=%2Fsettings%2Fkeys");
}
