//! Browser sessions: a person and a key see and end those of their account, and what hangs on a session ends with
//! it. A81 (docs/authentication-rules.md).

use std::time::Duration;

use hotdesk::domain::desktop::channel::Channel;
use hotdesk::domain::identity::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use super::loss::{assert_closed, assert_refused, boot_controller, open_socket};
use super::sign_in_links::view;
use crate::harness::agent::fetch_json;
use crate::harness::browser::{Browser, PASSWORD, page, person};
use crate::harness::caller::HttpAnswer;
use crate::harness::simulation::Simulation;

/// Longest time until what a session opened ends. The rule is one second; a busy machine gets more.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(10);

const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// Signs a browser with this `User-Agent` in.
async fn signed_in_as(controller: &Simulation, email: &str, user_agent: &str) -> Browser {
    let mut browser = Browser::new(&controller.base);
    let body = serde_urlencoded::to_string([("email", email), ("password", PASSWORD)]).expect("a form");
    let request = browser.request(Method::POST, "/sign-in").header("user-agent", user_agent).body(body);
    let entered = page(request).await;
    assert_eq!(entered.status, 303, "{}", entered.text);
    browser.adopt_session(&entered).await;
    browser
}

/// The ids of the sessions that a page offers to end, in its order.
fn offered(text: &str) -> Vec<String> {
    let rows = text.split("name=\"id\" value=\"").skip(1);
    rows.map(|rest| rest.split('"').next().expect("a value").to_owned()).collect()
}

fn is_signed_out(location: &str) -> bool {
    location.starts_with("/sign-in?next=")
}

#[tokio::test(flavor = "multi_thread")]
async fn a81_a_person_sees_their_browsers_and_signs_them_out() {
    let (controller, home, desk, _) = boot_controller().await;
    let store = controller.store().await;
    let ada = person(&store, "ada@x.example").await.id;
    store.set_member(home.parse().expect("an id"), ada, Role::Member).await.expect("a member");
    person(&store, "eve@x.example").await;
    let here = Browser::signed_in(&controller.base, "ada@x.example").await;
    let lost = signed_in_as(&controller, "ada@x.example", &format!("{FIREFOX}<b>{}", "x".repeat(500))).await;
    let eve = Browser::signed_in(&controller.base, "eve@x.example").await;

    let list = here.get("/settings/sessions").await;
    assert!(list.text.contains("Firefox on Linux") && list.text.contains("127.0.0.1"), "{}", list.text);
    assert_eq!(list.text.matches("This browser").count(), 1, "{}", list.text);
    assert!(!list.text.contains("<b>") && !list.text.contains(&"x".repeat(300)), "{}", list.text);
    let [ref id] = offered(&list.text)[..] else { panic!("one other browser: {}", list.text) };
    // Another account's session does not exist for Eve, whose form is else right.
    assert_eq!(eve.post("/settings/sessions/end", &[("id", id)]).await.status, 404);
    assert_eq!(here.send("/settings/sessions/end", &[("id", id)]).await.status, 403, "a forged form");
    assert_eq!(lost.get("/settings").await.status, 200);

    let viewer = open_socket(controller.address(), Channel::Websockify, &view(&lost, &desk).await).await;
    let ticket = view(&lost, &desk).await;
    let ended = here.post("/settings/sessions/end", &[("id", id)]).await;
    assert_eq!((ended.status, ended.location()), (303, "/settings/sessions"), "{}", ended.text);
    assert!(is_signed_out(lost.get("/settings").await.location()));
    assert_closed(vec![(Channel::Websockify, viewer)], REVOCATION_TIMEOUT).await;
    assert_refused(controller.address(), &ticket, Channel::Websockify).await;
    assert_eq!(here.post("/settings/sessions/end", &[("id", id)]).await.status, 404, "it has ended already");

    let (second, third) = (
        signed_in_as(&controller, "ada@x.example", FIREFOX).await,
        signed_in_as(&controller, "ada@x.example", "curl/8").await,
    );
    let viewer = open_socket(controller.address(), Channel::Websockify, &view(&second, &desk).await).await;
    assert_eq!(offered(&here.get("/settings/sessions").await.text).len(), 2);
    assert_eq!(here.send("/settings/sessions/end-others", &[]).await.status, 403, "a forged form");
    assert_eq!(here.post("/settings/sessions/end-others", &[]).await.status, 303);
    assert_closed(vec![(Channel::Websockify, viewer)], REVOCATION_TIMEOUT).await;
    for other in [&second, &third] {
        assert!(is_signed_out(other.get("/settings").await.location()));
    }
    assert_eq!((here.get("/settings").await.status, eve.get("/settings").await.status), (200, 200));
    let last = here.get("/settings/sessions").await.text;
    assert!(offered(&last).is_empty() && !last.contains("end-others"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a81_an_account_wide_key_lists_and_ends_browser_sessions() {
    let controller = Simulation::boot().await;
    let store = controller.store().await;
    let (ada, eve) = (person(&store, "ada@x.example").await.id, person(&store, "eve@x.example").await.id);
    let (key, foreign) = (controller.key_of(ada, None).await, controller.key_of(eve, None).await);
    let ask = async |key: &str, method, path: &str| -> HttpAnswer {
        fetch_json(controller.request_with(key, method, path)).await
    };
    assert_eq!(ask(&key, Method::GET, "/user/sessions").await.body, json!({"sessions": []}));
    let first = signed_in_as(&controller, "ada@x.example", FIREFOX).await;
    let second = signed_in_as(&controller, "ada@x.example", "curl/8").await;
    let list = ask(&key, Method::GET, "/user/sessions").await;
    assert_eq!(list.status, 200, "{}", list.body);
    let sessions = list.body["sessions"].as_array().expect("a list");
    let browsers: Vec<&Value> = sessions.iter().map(|it| &it["browser"]).collect();
    assert!(
        browsers.contains(&&json!("Firefox on Linux")) && browsers.contains(&&Value::Null),
        "{}",
        list.body
    );
    let firefox = sessions.iter().find(|it| it["user_agent"] == FIREFOX).expect("the first browser");
    assert_eq!((&firefox["address"], &firefox["by_link"]), (&json!("127.0.0.1"), &json!(false)));
    assert!(firefox["last_used_at"].is_string(), "it has read the settings: {firefox}");
    assert!(!list.body.to_string().contains(first.session()), "no cookie is shown");

    let one = format!("/user/sessions/{}", firefox["id"].as_str().expect("an id"));
    assert_eq!(ask(&foreign, Method::DELETE, &one).await.status, 404);
    assert_eq!(ask(&foreign, Method::DELETE, "/user/sessions").await.status, 200);
    assert_eq!(first.get("/settings").await.status, 200, "another account's key ends nothing");
    assert_eq!(ask(&key, Method::DELETE, &one).await.body, json!({"success": true}));
    assert!(is_signed_out(first.get("/settings").await.location()));
    assert_eq!(second.get("/settings").await.status, 200);
    assert_eq!(ask(&key, Method::DELETE, &one).await.status, 404);
    assert_eq!(ask(&key, Method::DELETE, "/user/sessions/no-id").await.status, 404);
    assert_eq!(ask(&key, Method::DELETE, "/user/sessions").await.status, 200);
    assert!(is_signed_out(second.get("/settings").await.location()));
}
