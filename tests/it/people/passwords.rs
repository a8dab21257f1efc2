//! Passwords: rate limits of guesses, and changes. A18 (docs/authentication-rules.md).

use reqwest::Method;
use serde_json::json;

use crate::harness::agent::fetch_json;
use crate::harness::browser::{Browser, PASSWORD, Page, page, person};
use crate::harness::simulation::Simulation;

async fn try_from(browser: &Browser, address: &str, email: &str, password: &str) -> Page {
    let body = serde_urlencoded::to_string([("email", email), ("password", password)]).expect("a form");
    page(browser.request(Method::POST, "/sign-in").header("x-forwarded-for", address).body(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_who_guesses_waits_and_keeps_the_owner_from_nothing() {
    let controller = Simulation::boot_behind_a_proxy().await;
    let ada = person(&controller.store().await, "ada@x.example").await;
    let browser = Browser::new(&controller.base);
    for _ in 0..10 {
        let wrong = try_from(&browser, "192.0.2.1", "Ada@x.example", "wrong").await;
        assert_eq!(wrong.status, 401, "{}", wrong.text);
        assert!(wrong.text.contains("is not right") && !wrong.text.contains("wrong\""));
    }
    // From that address, even the right password is refused until the time in `Retry-After`.
    let waits = try_from(&browser, "192.0.2.1", "ada@x.example", PASSWORD).await;
    assert_eq!(waits.status, 429, "{}", waits.text);
    let seconds: u32 = waits.headers["retry-after"].to_str().expect("text").parse().expect("whole seconds");
    assert!((1..=601).contains(&seconds), "{seconds}");
    assert!(waits.text.contains(&format!("in {seconds} seconds")));
    // A forged part of the header before the proxy's entry changes nothing.
    assert_eq!(try_from(&browser, "198.51.100.9, 192.0.2.1", "ada@x.example", PASSWORD).await.status, 429);
    // The owner can sign in from another address.
    assert_eq!(try_from(&browser, "192.0.2.2", "ada@x.example", PASSWORD).await.status, 303);
    // An unknown account gets the same response as a known one.
    let unknown = try_from(&browser, "192.0.2.3", "nobody@x.example", "wrong").await;
    let wrong = try_from(&browser, "192.0.2.3", "ada@x.example", "wrong").await;
    assert_eq!(unknown.status, wrong.status);
    assert_eq!(unknown.text.replace("nobody@", "ada@"), wrong.text);
    // The account's log has one entry per minute about limited attempts.
    let key = controller.key_of(ada.id, None).await;
    let log = fetch_json(controller.request_with(&key, Method::GET, "/audit?limit=500")).await.body;
    let lines = log["entries"].as_array().expect("entries").iter();
    let waits: Vec<_> = lines.filter(|line| line["status"] == 429).collect();
    assert_eq!(waits.len(), 1, "{log}");
    let (action, target) = (&waits[0]["action"], &waits[0]["target_id"]);
    assert_eq!((action, target), (&json!("sign_in"), &json!(ada.id.to_string())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_of_many_guesses_at_once_no_more_pass() {
    let controller = Simulation::boot_behind_a_proxy().await;
    person(&controller.store().await, "ada@x.example").await;
    let browser = Browser::new(&controller.base);
    let tries = (0..40).map(|_| try_from(&browser, "192.0.2.1", "ada@x.example", "wrong"));
    let answers = futures_util::future::join_all(tries).await;
    let checked = answers.iter().filter(|answer| answer.status == 401).count();
    assert_eq!(checked, 10, "{:?}", answers.iter().map(|answer| answer.status).collect::<Vec<_>>());
    assert!(answers.iter().all(|answer| [401, 429].contains(&answer.status)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_strangers_do_not_lock_a_known_browser_out() {
    let controller = Simulation::boot_behind_a_proxy().await;
    person(&controller.store().await, "ada@x.example").await;
    let stranger = Browser::new(&controller.base);
    let entered = try_from(&stranger, "192.0.2.100", "ada@x.example", PASSWORD).await;
    let cookies = entered.headers.get_all("set-cookie").iter().map(|field| field.to_str().expect("text"));
    let mark = cookies.filter(|field| field.starts_with("hotdesk-browser=")).collect::<Vec<_>>().concat();
    assert!(mark.contains("HttpOnly") && mark.contains("SameSite=Strict"), "{entered:?}");
    let mark = mark.split(';').next().expect("a cookie").to_owned();
    let own = async |mark: &str, password: &str| {
        let fields = [("email", "ada@x.example"), ("password", password)];
        let body = serde_urlencoded::to_string(fields).expect("a form");
        let request = stranger.request(Method::POST, "/sign-in").header("x-forwarded-for", "192.0.2.100");
        page(request.header("cookie", mark).body(body)).await.status
    };
    let mut seen = Vec::new();
    for address in 0..35 {
        let from = format!("198.51.100.{address}");
        seen.push(try_from(&stranger, &from, "ada@x.example", "wrong").await.status);
    }
    assert_eq!((seen[29], seen[30]), (401, 429), "{seen:?}");
    assert_eq!(own("", PASSWORD).await, 429, "an unknown browser waits");
    assert_eq!(own(&format!("{mark}0"), PASSWORD).await, 429, "a forged mark is none");
    assert_eq!(own(&mark, PASSWORD).await, 303, "the owner's browser does not");
    for _ in 0..10 {
        assert_eq!(own(&mark, "wrong").await, 401);
    }
    assert_eq!(own(&mark, PASSWORD).await, 429, "it has a bound of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_password_ends_the_other_sessions() {
    let controller = Simulation::boot().await;
    person(&controller.store().await, "ada@x.example").await;
    let here = Browser::signed_in(&controller.base, "ada@x.example").await;
    let elsewhere = Browser::signed_in(&controller.base, "ada@x.example").await;
    let change = async |current: &str, password: &str| {
        here.post("/settings/password", &[("current", current), ("password", password)]).await
    };
    assert_eq!(change("wrong", "a longer password").await.status, 403);
    assert_eq!(change(PASSWORD, "short").await.status, 400);
    assert_eq!(elsewhere.get("/settings").await.status, 200);
    let changed = change(PASSWORD, "a longer password").await;
    assert_eq!((changed.status, changed.location()), (303, "/settings?changed=true"));
    assert_eq!(here.get("/settings").await.status, 200);
    assert_eq!(elsewhere.get("/settings").await.status, 303);
    let enter = async |password: &str| {
        let fields = [("email", "ada@x.example"), ("password", password), ("next", "/settings/workspaces")];
        Browser::new(&controller.base).send("/sign-in", &fields).await
    };
    assert_eq!(enter(PASSWORD).await.status, 401);
    assert_eq!(enter("a longer password").await.location(), "/settings/workspaces");
}
