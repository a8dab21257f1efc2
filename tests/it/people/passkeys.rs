//! Passkeys in a real browser with a virtual authenticator: made in the settings, used without a password, once for a
//! challenge, until removed. A86 (docs/authentication-rules.md).

use serde_json::json;

use super::chromium::wait_for_text;
use super::second_factors;
use crate::harness::browser::{Browser, PASSWORD, Page, person};
use crate::harness::simulation::Simulation;
use crate::vnc::puppet::PythonDriver;

const EMAIL: &str = "ada@x.example";
const SETTINGS: &str = "/settings/sign-in";

/// Opens the sign-in with a passkey, and presses its button.
fn use_passkey(chromium: &mut PythonDriver, site: &str) {
    chromium.run("open", json!({"url": format!("{site}/sign-in/passkey?next=/settings/sessions")}));
    chromium.run("click", json!({"where": "form#passkey button"}));
}

/// Signs in up to the form that the script would send, and returns its fields.
fn capture_form(chromium: &mut PythonDriver, site: &str) -> Vec<(String, String)> {
    chromium.run("open", json!({"url": format!("{site}/sign-in/passkey")}));
    // `void`, because a script that returns a function is called.
    let hold =
        "void (HTMLFormElement.prototype.submit = function () { window.held = [...new FormData(this)]; })";
    chromium.run("look", json!({ "script": hold }));
    chromium.run("click", json!({"where": "form#passkey button"}));
    chromium.run("wait", json!({"script": "window.held !== undefined"}));
    serde_json::from_value(chromium.run("look", json!({"script": "window.held"}))).expect("pairs of texts")
}

async fn send(browser: &Browser, fields: &[(String, String)]) -> Page {
    let fields: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    browser.send("/sign-in/passkey", &fields).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a86_a_passkey_signs_in_without_a_password_until_it_is_removed() {
    let controller = Simulation::boot().await;
    let ada = person(&controller.store().await, EMAIL).await.id;
    let Some(mut chromium) = PythonDriver::chromium() else { return };
    // Passkeys are bound to a name, and browsers take this one for secure.
    let site = controller.base.replace("127.0.0.1", "localhost");
    chromium.run("add_authenticator", json!({}));
    chromium.run("open", json!({"url": format!("{site}/sign-in?next={SETTINGS}")}));
    chromium.run("fill", json!({"where": "input[name=email]", "text": EMAIL}));
    chromium.run("fill", json!({"where": "input[name=password]", "text": PASSWORD}));
    chromium.run("press", json!({"keys": "Enter"}));
    wait_for_text(&mut chromium, "Passkeys");
    let begin = "form[action='/settings/sign-in/passkeys']";
    chromium.run("fill", json!({"where": format!("{begin} input[name=name]"), "text": "<Laptop>"}));
    chromium.run("fill", json!({"where": format!("{begin} input[name=password]"), "text": PASSWORD}));
    chromium.run("click", json!({"where": format!("{begin} button")}));
    wait_for_text(&mut chromium, "Make the passkey");
    chromium.run("click", json!({"where": "form#passkey button"}));
    let listed = wait_for_text(&mut chromium, "last used");
    assert!(listed.contains("<Laptop>") && listed.contains("last used never"), "{listed}");

    // An authenticator app signs the browser out. The passkey is two factors, so no code is asked for.
    let harness = Browser::signed_in(&controller.base, EMAIL).await;
    second_factors::set_up(&harness, PASSWORD).await;
    chromium.run("open", json!({"url": format!("{site}{SETTINGS}")}));
    wait_for_text(&mut chromium, "Sign in with a passkey");
    use_passkey(&mut chromium, &site);
    wait_for_text(&mut chromium, "This browser");

    // An answer signs in once, in its own part of the service, and its parts belong together.
    let fields = capture_form(&mut chromium, &site);
    let other = capture_form(&mut chromium, &site);
    let anybody = Browser::new(&controller.base);
    let mixed = |name: &str| -> Vec<(String, String)> {
        let of =
            |from: &[(String, String)]| from.iter().find(|(key, _)| key == name).cloned().expect("a field");
        let rest = fields.iter().filter(|(key, _)| key != name).cloned();
        rest.chain([of(&other)]).collect()
    };
    for name in ["token", "client_data", "authenticator_data", "signature"] {
        assert_eq!(send(&anybody, &mixed(name)).await.status, 401, "{name} of another answer");
    }
    // The harness's address is not the one for which the browser's answer is.
    let elsewhere = send(&anybody, &fields).await;
    assert!(elsewhere.status == 401 && elsewhere.text.contains("another site"), "{}", elsewhere.text);
    let local = Browser::new(&site);
    let entered = send(&local, &fields).await;
    assert_eq!(entered.status, 303, "{}", entered.text);
    assert_eq!(send(&local, &fields).await.status, 401, "an answer works once");
    let earlier = send(&local, &other).await;
    assert_eq!(earlier.status, 303, "the other answer was not used: {}", earlier.text);
    // The counter of an authenticator grows; an answer from before the last sign-in is one of a copy.
    let late = capture_form(&mut chromium, &site);
    controller.sql("UPDATE passkeys SET sign_count = 1000000").await;
    let copied = send(&local, &late).await;
    assert!(copied.status == 401 && copied.text.contains("did not grow"), "{}", copied.text);
    controller.sql("UPDATE passkeys SET sign_count = 0").await;

    // Nobody uses it whom the device did not verify.
    chromium.run("set_verified", json!({"verified": false}));
    use_passkey(&mut chromium, &site);
    wait_for_text(&mut chromium, "did not use a passkey");
    chromium.run("set_verified", json!({"verified": true}));

    let stored = controller.store().await.passkeys_of(ada).await.expect("read");
    let [ref passkey] = stored[..] else { panic!("one passkey: {stored:?}") };
    assert!(passkey.last_used_at.is_some());
    let remove = "/settings/sign-in/passkeys/remove";
    let with = |password| [("id", passkey.credential_id.as_str()), ("password", password)];
    assert_eq!(harness.post(remove, &with("wrong")).await.status, 403);
    assert_eq!(harness.send(remove, &with(PASSWORD)).await.status, 403, "a forged form");
    person(&controller.store().await, "eve@x.example").await;
    let eve = Browser::signed_in(&controller.base, "eve@x.example").await;
    assert_eq!(eve.post(remove, &with(PASSWORD)).await.status, 404, "another account's passkey");
    assert_eq!(harness.post(remove, &with(PASSWORD)).await.status, 303);
    use_passkey(&mut chromium, &site);
    wait_for_text(&mut chromium, "not known here");
    assert_eq!(
        chromium.run("complaints", json!({})),
        json!([]),
        "no violation of the content security policy"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a86_a_new_passkey_needs_the_password_and_the_session_that_showed_it() {
    let controller = Simulation::boot().await;
    person(&controller.store().await, EMAIL).await;
    let here = Browser::signed_in(&controller.base, EMAIL).await;
    let elsewhere = Browser::signed_in(&controller.base, EMAIL).await;
    let begin = async |browser: &Browser, password: &str| {
        browser.post("/settings/sign-in/passkeys", &[("name", "Laptop"), ("password", password)]).await
    };
    assert_eq!(begin(&here, "wrong").await.status, 403);
    let begun = begin(&here, PASSWORD).await;
    assert_eq!(begun.status, 200, "{}", begun.text);
    let policy = begun.headers["content-security-policy"].to_str().expect("text");
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    let token = begun.hidden("token");
    let empty =
        [("name", "Laptop"), ("id", ""), ("client_data", ""), ("authenticator_data", ""), ("public_key", "")];
    let fields = [&empty[..], &[("token", &*token)]].concat();
    let refused = elsewhere.post("/settings/sign-in/passkeys/add", &fields).await;
    assert!(refused.status == 400 && refused.text.contains("took too long"), "{}", refused.text);
    let malformed = here.post("/settings/sign-in/passkeys/add", &fields).await;
    assert!(malformed.status == 400 && malformed.text.contains("malformed"), "{}", malformed.text);
    // A challenge of the sign-in is none of a registration.
    let token = Browser::new(&controller.base).get("/sign-in/passkey").await.hidden("token");
    let fields = [&empty[..], &[("token", &*token)]].concat();
    let refused = here.post("/settings/sign-in/passkeys/add", &fields).await;
    assert!(refused.text.contains("took too long"), "{}", refused.text);
    let fields: Vec<(String, String)> = [
        ("token", &*token),
        ("id", "AAAA"),
        ("client_data", "e30"),
        ("authenticator_data", ""),
        ("signature", ""),
        ("user", ""),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let refused = send(&Browser::new(&controller.base), &fields).await;
    assert!(refused.status == 401 && refused.text.contains("not known here"), "{}", refused.text);
}
