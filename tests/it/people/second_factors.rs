//! Authenticator apps and recovery codes: set-up, sign-in, replay, guesses, loss. A82, A83 (docs/authentication-rules.md).

use hotdesk::base::clock;
use hotdesk::base::secret::Secret;
use hotdesk::domain::identity::totp;
use reqwest::Method;
use serde_json::json;

use crate::harness::agent::fetch_json;
use crate::harness::browser::{Browser, PASSWORD, Page, page, person};
use crate::harness::simulation::Simulation;

const EMAIL: &str = "ada@x.example";
const SET_UP: &str = "/settings/sign-in/authenticator";

/// The code that the app shows now, or `ahead` steps of 30 seconds later.
pub fn code(secret: &str, ahead: i64) -> String {
    let step = totp::step_at(clock::now()) + ahead;
    totp::code(&Secret::new(secret), step).expect("a secret").reveal().to_owned()
}

/// A code that is wrong around this time.
fn wrong_code(secret: &str) -> String {
    let right: Vec<String> = (-3..=3).map(|ahead| code(secret, ahead)).collect();
    let mut wrong = (0..).map(|number| format!("{number:06}")).filter(|text| !right.contains(text));
    wrong.next().expect("one of a million")
}

/// The recovery codes on a page.
pub fn recovery_codes(page: &Page) -> Vec<String> {
    let items = page.text.split("<li class=\"code\">").skip(1);
    items.map(|rest| rest.split('<').next().expect("text").to_owned()).collect()
}

/// Sets an app up; returns its secret and the recovery codes.
pub async fn set_up(browser: &Browser, password: &str) -> (String, Vec<String>) {
    let secret = browser.get(SET_UP).await.hidden("secret");
    let fields = [("secret", &*secret), ("code", &code(&secret, 0)), ("password", password)];
    let done = browser.post(SET_UP, &fields).await;
    assert_eq!(done.status, 201, "{}", done.text);
    let codes = recovery_codes(&done);
    assert_eq!(codes.len(), 10, "{}", done.text);
    (secret, codes)
}

/// Shows the password; returns the token of the second step.
async fn show_password(browser: &Browser) -> String {
    let asked = browser.send("/sign-in", &[("email", EMAIL), ("password", PASSWORD)]).await;
    assert!(asked.status == 200 && !asked.headers.contains_key("set-cookie"), "{asked:?}");
    asked.hidden("token")
}

async fn show_code(browser: &Browser, token: &str, code: &str) -> Page {
    browser.send("/sign-in/code", &[("token", token), ("code", code), ("next", "/settings/keys")]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a82_a_code_is_needed_after_the_password_and_works_once() {
    let controller = Simulation::boot().await;
    let ada = person(&controller.store().await, EMAIL).await;
    let key = controller.key_of(ada.id, None).await;
    let mut browser = Browser::signed_in(&controller.base, EMAIL).await;
    let elsewhere = Browser::signed_in(&controller.base, EMAIL).await;

    let shown = browser.get(SET_UP).await;
    let secret = shown.hidden("secret");
    assert!(
        shown.text.contains("<svg class=\"qr\"") && shown.text.matches(&secret).count() == 2,
        "{shown:?}"
    );
    assert_eq!(shown.headers["cache-control"], "no-store");
    let right = code(&secret, 0);
    for (fields, status, why) in [
        (
            [("secret", &*secret), ("code", &*wrong_code(&secret)), ("password", PASSWORD)],
            400,
            "code is not right",
        ),
        ([("secret", &secret), ("code", &right), ("password", "wrong")], 403, "not the current password"),
        ([("secret", "short"), ("code", &right), ("password", PASSWORD)], 400, "not the secret"),
    ] {
        let refused = browser.post(SET_UP, &fields).await;
        assert!(refused.status == status && refused.text.contains(why), "{why}: {}", refused.text);
    }
    let fields = [("secret", &*secret), ("code", &*right), ("password", PASSWORD)];
    assert_eq!(browser.send(SET_UP, &fields).await.status, 403, "a forged form");
    assert!(controller.store().await.second_factor(ada.id).await.expect("read").is_none());
    let done = browser.post(SET_UP, &fields).await;
    assert_eq!((done.status, recovery_codes(&done).len()), (201, 10), "{}", done.text);
    assert_eq!(browser.post(SET_UP, &fields).await.status, 409, "there is one app");
    assert_eq!(elsewhere.get("/settings").await.status, 303, "other browsers are signed out");
    assert!(!browser.get("/settings/sign-in").await.text.contains(&secret), "the secret is not shown again");

    let fresh = Browser::new(&controller.base);
    let token = show_password(&fresh).await;
    assert_eq!(fresh.get("/settings").await.status, 303, "a password alone signs nobody in");
    for wrong in [&*wrong_code(&secret), &right, "", "abcd-efgh-ijkl-mnop"] {
        let refused = show_code(&fresh, &token, wrong).await;
        assert_eq!(refused.status, 401, "{wrong}: the code of the set-up was used: {}", refused.text);
        assert!(refused.hidden("token") == token && refused.hidden("next") == "/settings/keys");
    }
    assert_eq!(show_code(&fresh, "no token", &code(&secret, 1)).await.status, 401);
    let next = code(&secret, 1);
    let entered = show_code(&fresh, &token, &next).await;
    assert_eq!((entered.status, entered.location()), (303, "/settings/keys"), "{}", entered.text);
    browser.adopt_session(&entered).await;
    // Neither the token nor the code work again.
    assert_eq!(show_code(&fresh, &token, &next).await.status, 401);
    let token = show_password(&fresh).await;
    assert_eq!(show_code(&fresh, &token, &next).await.status, 401, "a replay");
    // Of parallel attempts with one code, one signs in.
    controller.sql("UPDATE second_factors SET last_step = 0").await;
    let mut tokens = Vec::new();
    for _ in 0..4 {
        tokens.push(show_password(&fresh).await);
    }
    let now = code(&secret, 0);
    let tries = tokens.iter().map(|token| show_code(&fresh, token, &now));
    let entered = futures_util::future::join_all(tries).await;
    assert_eq!(entered.iter().filter(|page| page.status == 303).count(), 1, "{entered:?}");

    // The key needs no code, nor does a link of it.
    let link =
        fetch_json(controller.request_with(&key, Method::POST, "/user/sign-in-links").json(&json!({})));
    let link = link.await.body["url"].as_str().expect("a link").to_owned();
    let token = link.split_once("#token=").expect("a token").1;
    let followed = fresh.send("/sign-in/link", &[("token", token), ("sure", "true")]).await;
    assert_eq!((followed.status, followed.location()), (303, "/console"), "{}", followed.text);
    // A password that changes meanwhile ends a sign-in under way.
    let token = show_password(&fresh).await;
    let changed = [("current", PASSWORD), ("password", "a longer password")];
    assert_eq!(browser.post("/settings/password", &changed).await.status, 303);
    controller.sql("UPDATE second_factors SET last_step = 0").await;
    assert_eq!(show_code(&fresh, &token, &code(&secret, 0)).await.status, 401);

    // The log says what happened, and has no code.
    let log = fetch_json(controller.request_with(&key, Method::GET, "/audit?limit=500")).await.body;
    for action in ["second_factor_added", "second_factor_asked"] {
        let done = |it: &&serde_json::Value| it["action"] == action && it["result"] == "done";
        let entries = log["entries"].as_array().expect("entries").iter();
        assert!(entries.filter(done).count() > 0, "{action}: {log}");
    }
    assert!(!log.to_string().contains(&secret), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a82_codes_are_not_guessed_without_end() {
    let controller = Simulation::boot_behind_a_proxy().await;
    person(&controller.store().await, EMAIL).await;
    let browser = Browser::signed_in(&controller.base, EMAIL).await;
    let (secret, codes) = set_up(&browser, PASSWORD).await;
    let try_from = async |address: &str, token: &str, code: &str| {
        let body = serde_urlencoded::to_string([("token", token), ("code", code)]).expect("a form");
        let request = browser.request(Method::POST, "/sign-in/code").header("x-forwarded-for", address);
        page(request.body(body)).await
    };
    let fresh = Browser::new(&controller.base);
    for guess in 0..5 {
        // A right password between the guesses does not forget them.
        let token = show_password(&fresh).await;
        let refused = try_from("192.0.2.1", &token, &wrong_code(&secret)).await;
        assert_eq!(refused.status, 401, "guess {guess}: {}", refused.text);
    }
    let token = show_password(&fresh).await;
    let waits = try_from("192.0.2.1", &token, &codes[0]).await;
    assert!(waits.status == 429 && waits.headers.contains_key("retry-after"), "{waits:?}");
    assert!(waits.text.contains("Too many wrong codes"), "{}", waits.text);
    // The owner signs in from elsewhere, also while the address waits.
    let entered = try_from("192.0.2.2", &token, &codes[0]).await;
    assert_eq!(entered.status, 303, "{}", entered.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a83_recovery_codes_replace_the_app_once_and_the_app_can_be_removed() {
    let controller = Simulation::boot().await;
    let ada = person(&controller.store().await, EMAIL).await;
    let browser = Browser::signed_in(&controller.base, EMAIL).await;
    let (_, codes) = set_up(&browser, PASSWORD).await;
    let fresh = Browser::new(&controller.base);
    let enter = async |code: &str| show_code(&fresh, &show_password(&fresh).await, code).await.status;
    assert_eq!(enter(&codes[0].to_uppercase().replace('-', " ")).await, 303);
    assert_eq!(enter(&codes[0]).await, 401, "a recovery code works once");
    let settings = browser.get("/settings/sign-in").await.text;
    assert!(settings.contains("that are left: <strong>9</strong>"), "{settings}");

    let path = |what: &str| format!("{SET_UP}/{what}");
    let wrong = browser.post(&path("codes"), &[("password", "wrong")]).await;
    assert_eq!(wrong.status, 403, "{}", wrong.text);
    let renewed = browser.post(&path("codes"), &[("password", PASSWORD)]).await;
    let newer = recovery_codes(&renewed);
    assert_eq!((renewed.status, newer.len()), (201, 10), "{}", renewed.text);
    assert_eq!(enter(&codes[1]).await, 401, "newer codes replace all earlier ones");
    assert_eq!(enter(&newer[0]).await, 303);

    for (fields, status) in
        [(("password", "wrong"), 403), (("csrf", "0000"), 403), (("password", PASSWORD), 303)]
    {
        let answer = match fields {
            ("csrf", _) => browser.send(&path("remove"), &[("password", PASSWORD), fields]).await,
            _ => browser.post(&path("remove"), &[fields]).await,
        };
        assert_eq!(answer.status, status, "{fields:?}: {}", answer.text);
    }
    let entered = fresh.send("/sign-in", &[("email", EMAIL), ("password", PASSWORD)]).await;
    assert_eq!(entered.status, 303, "the password is enough again: {}", entered.text);
    assert_eq!(browser.post(&path("codes"), &[("password", PASSWORD)]).await.status, 404);
    // Nothing of the app is left, so a new one starts afresh.
    set_up(&browser, PASSWORD).await;
    assert_eq!(enter(&newer[1]).await, 401);
    // An account without a password has no second step.
    controller.sql(&format!("UPDATE accounts SET password_hash = NULL WHERE id = '{}'", ada.id)).await;
    assert_eq!(browser.get(SET_UP).await.status, 403);
}
