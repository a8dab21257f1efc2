//! First sign-in of the operator: the holder of the first key sets the password, once.

use crate::harness::browser::{Browser, PASSWORD, person};
use crate::harness::simulation::Simulation;

fn form<'a>(key: &'a str, email: &'a str, password: &'a str) -> [(&'a str, &'a str); 4] {
    [("key", key), ("email", email), ("full_name", "Ada"), ("password", password)]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_key_sets_the_operator_up_once() {
    let controller = Simulation::boot().await;
    let mut browser = Browser::new(&controller.base);
    assert!(browser.get("/sign-in").await.text.contains("href=\"/set-up\""));
    assert!(browser.get("/set-up").await.text.contains("name=\"key\""));

    let store = controller.store().await;
    let other_account = person(&store, "eve@x.example").await;
    let other = hotdesk::controller::identity::auth::keys::generate();
    let digest = hotdesk::controller::identity::auth::keys::digest(other.reveal());
    let key = hotdesk::store::identity::accounts::NewKey {
        account: other_account.id,
        workspace: None,
        name: "k",
        digest: &digest,
        last_four: "",
    };
    store.add_key(&key).await.expect("a key");
    for (key, email, password, status) in [
        ("sk_live_guess", "ada@x.example", PASSWORD, 401),
        (other.reveal(), "ada@x.example", PASSWORD, 401),
        (controller.key(), "ada", PASSWORD, 400),
        (controller.key(), "ada@x.example", "short", 400),
        (controller.key(), "eve@x.example", PASSWORD, 409),
    ] {
        let refused = browser.send("/set-up", &form(key, email, password)).await;
        assert_eq!(refused.status, status, "{}", refused.text);
        assert!(refused.text.contains("role=\"alert\""), "{}", refused.text);
        assert!(
            !refused.text.contains(controller.key()) && !refused.text.contains(PASSWORD),
            "the page must not repeat a secret"
        );
    }

    // Of two simultaneous attempts, one succeeds.
    let (first, second) =
        (form(controller.key(), "Ada@X.example", PASSWORD), form(controller.key(), "b@x.example", PASSWORD));
    let (first, second) = tokio::join!(browser.send("/set-up", &first), browser.send("/set-up", &second));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 403], "{first:?} {second:?}");
    let (entered, email) =
        if first.status == 303 { (first, "ada@x.example") } else { (second, "b@x.example") };
    assert_eq!(entered.location(), "/console");
    browser.adopt_session(&entered).await;
    assert!(browser.get("/settings").await.text.contains(email));
    for done in [
        browser.get("/set-up").await,
        browser.send("/set-up", &form(controller.key(), "c@x.example", PASSWORD)).await,
    ] {
        assert_eq!(done.status, 403, "{}", done.text);
    }
    assert!(!Browser::new(&controller.base).get("/sign-in").await.text.contains("set-up"));
    // The key stays valid, and its account now has an address.
    let profile = controller.get("/user/profile").await;
    assert_eq!((profile.status, &profile.body["email"]), (200, &email.into()));
    assert_eq!(profile.body["full_name"], "Ada");
    assert_eq!(profile.body["id"], store.operator_account().await.expect("one").to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_from_elsewhere_does_nothing() {
    let controller = Simulation::boot().await;
    person(&controller.store().await, "ada@x.example").await;
    let browser = Browser::signed_in(&controller.base, "ada@x.example").await;
    let csrf = browser.csrf.clone();
    let post = |headers: &[(&str, &str)], csrf: &str| {
        let body = serde_urlencoded::to_string([("csrf", csrf)]).expect("a form");
        let request = browser.request(reqwest::Method::POST, "/sign-out").body(body);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    };
    let cases: [(&[(&str, &str)], &str); 6] = [
        (&[], ""),
        (&[], "0000"),
        (&[("origin", "http://evil.example")], &csrf),
        (&[("origin", "null"), ("sec-fetch-site", "cross-site")], &csrf),
        (&[("sec-fetch-site", "cross-site")], &csrf),
        (&[("sec-fetch-site", "same-site")], &csrf),
    ];
    for (headers, csrf) in cases {
        let refused = crate::harness::browser::page(post(headers, csrf)).await;
        assert_eq!(refused.status, 403, "{headers:?} {csrf:?}");
    }
    assert_eq!(browser.get("/settings").await.status, 200);
    let signed_out =
        crate::harness::browser::page(post(&[("origin", "null"), ("sec-fetch-site", "same-origin")], &csrf))
            .await;
    assert_eq!((signed_out.status, signed_out.location()), (303, "/sign-in"));
    let out = browser.get("/settings").await;
    assert_eq!((out.status, out.location()), (303, "/sign-in?next=%2Fsettings"));
}
