//! Key management page: creation, one-time display and deletion by a signed-in person.

use reqwest::header::{COOKIE, HeaderMap};
use reqwest::{Client, Method, StatusCode};

use super::cast::{PASSWORD, add_account};
use crate::harness::agent::fetch_json;
use crate::harness::client_builder;
use crate::harness::simulation::Simulation;

/// A browser that does not follow redirects, so that tests see them.
struct Browser {
    client: Client,
    base: String,
    cookie: String,
}

impl Browser {
    async fn signed_in(controller: &Simulation, email: &str) -> Self {
        let client = client_builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        let form = form(&[("email", email), ("password", PASSWORD)]);
        let request = client.post(format!("{}/sign-in", controller.base)).headers(form_headers());
        let answer = request.body(form).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        let cookie = answer.headers()["set-cookie"].to_str().expect("text");
        let cookie = cookie.split(';').next().expect("a cookie").to_owned();
        Self { client, base: controller.base.clone(), cookie }
    }

    async fn get_page(&self, path: &str) -> (StatusCode, String) {
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

/// Value of the first form field of this name.
fn field<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, remainder) = page.split_once(&format!("name=\"{name}\" value=\"")).expect("a field");
    remainder.split('"').next().expect("a value")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_makes_sees_once_and_deletes_a_key() {
    let controller = Simulation::boot().await;
    add_account(&controller.store().await, "person@example").await;
    let browser = Browser::signed_in(&controller, "person@example").await;
    let (status, page) = browser.get_page("/settings/keys").await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("There are no keys yet."));
    let csrf = field(&page, "csrf").to_owned();

    let name = "<b>ci</b>";
    let (refused, _) = browser.send("/settings/keys", &[("name", name)]).await;
    assert_eq!(refused, StatusCode::FORBIDDEN, "a form without its CSRF token must be refused");
    let (created, shown) = browser.send("/settings/keys", &[("name", name), ("csrf", &csrf)]).await;
    assert_eq!(created, StatusCode::CREATED, "{shown}");
    let start = shown.find("sk_live_").expect("the key is shown");
    let key: String = shown[start..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    assert_eq!(fetch_json(controller.request_with(&key, Method::GET, "/workspaces")).await.status, 200);
    let (_, again) = browser.get_page("/settings/keys").await;
    assert!(!again.contains(&key) && again.contains(&key[key.len() - 4..]) && !again.contains(name));

    let id = field(&again, "id").to_owned();
    let (gone, _) = browser.send("/settings/keys/delete", &[("id", &id), ("csrf", &csrf)]).await;
    assert_eq!(gone, StatusCode::SEE_OTHER);
    assert_eq!(fetch_json(controller.request_with(&key, Method::GET, "/workspaces")).await.status, 401);
    // A browser without a session is redirected to the sign-in page.
    let stranger = Browser { cookie: String::new(), ..browser };
    let sent = stranger.client.get(format!("{}/settings/keys", stranger.base)).send().await.expect("sent");
    assert_eq!(sent.headers()["location"], "/sign-in?next=%2Fsettings%2Fkeys");
}
