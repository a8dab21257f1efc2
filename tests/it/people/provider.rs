//! Sign-in by an OpenID Connect provider, with a real one: who gets into which account, and what a callback is bound
//! to. A84, A85 (docs/authentication-rules.md).

use std::os::unix::fs::PermissionsExt;

use hotdesk::controller::config::{Config, OidcSettings};
use hotdesk::domain::identity::email::Email;
use hotdesk::store::identity::people::Account;
use reqwest::Method;
use serde_json::{Value, json};

use super::second_factors;
use crate::harness::agent::fetch_json;
use crate::harness::browser::{Browser, PASSWORD, Page, page, person};
use crate::harness::oidc_provider::OidcProvider;
use crate::harness::simulation::Simulation;

const SETTINGS: &str = "/settings/sign-in";

/// A sign-in under way: the browser's cookie, and where the provider led it back to.
struct Visit {
    cookie: String,
    path: String,
}

/// Follows the way to the provider and back that an answer begins at `url`.
async fn visit(controller: &Simulation, provider: &OidcProvider, begun: &Page, url: &str) -> Visit {
    let cookie = begun.headers["set-cookie"].to_str().expect("text");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
    let back = provider.visit(url).await;
    let path = back.strip_prefix(&controller.base).unwrap_or_else(|| panic!("{back} is not ours"));
    Visit { cookie: cookie.split(';').next().expect("a pair").to_owned(), path: path.to_owned() }
}

async fn begin(controller: &Simulation, provider: &OidcProvider, browser: &Browser) -> Visit {
    let begun = browser.get("/sign-in/provider?next=/settings/keys").await;
    assert_eq!(begun.status, 303, "{}", begun.text);
    visit(controller, provider, &begun, begun.location()).await
}

/// Comes back from the provider, with the session of the browser and a cookie of the sign-in.
async fn come_back(browser: &Browser, visit: &Visit) -> Page {
    page(browser.request(Method::GET, &visit.path).header("cookie", &visit.cookie)).await
}

async fn sign_in(controller: &Simulation, provider: &OidcProvider) -> Page {
    let browser = Browser::new(&controller.base);
    come_back(&browser, &begin(controller, provider, &browser).await).await
}

/// Begins a connection from the settings; returns the answer and the address at the provider on its page.
async fn begin_connection(browser: &Browser, fields: &[(&str, &str)]) -> (Page, String) {
    let begun = browser.post("/settings/sign-in/provider", fields).await;
    let url = begun
        .text
        .split_once("<a class=\"button primary\" href=\"")
        .and_then(|(_, rest)| rest.split_once('"'));
    let url = url.map(|(url, _)| url.replace("&amp;", "&")).unwrap_or_default();
    (begun, url)
}

async fn signed_in_as(controller: &Simulation, entered: &Page) -> Browser {
    assert_eq!(entered.status, 303, "{}", entered.text);
    let mut browser = Browser::new(&controller.base);
    browser.adopt_session(entered).await;
    browser
}

#[tokio::test(flavor = "multi_thread")]
async fn a84_a85_people_sign_in_by_the_provider_to_their_own_accounts_alone() {
    let Some(mut provider) = OidcProvider::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "provider's+secret %:\n").expect("written");
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).expect("private");
    let oidc = OidcSettings {
        issuer: provider.issuer.clone(),
        client_id: "desk".to_owned(),
        client_secret_file: secret,
        name: "<Corp>".to_owned(),
    };
    let controller = Simulation::boot_configured(Config { oidc, ..Config::default() }).await;
    let callback = format!("{}/sign-in/provider/callback", controller.base);
    provider.register(&json!([
        {"client_id": "desk", "client_secret": "provider's+secret %:", "redirect_uris": [callback]}
    ]));
    let store = controller.store().await;
    let free = Account::person(&Email::parse("free@x.example").expect("an address"), "", None);
    store.add_account(&free).await.expect("an account without a password");
    person(&store, "ada@x.example").await;
    person(&store, "eve@x.example").await;
    let anybody = Browser::new(&controller.base);
    let offered = anybody.get("/sign-in?next=/settings/keys").await.text;
    assert!(offered.contains("Sign in with &lt;Corp&gt;"), "{offered}");
    assert!(offered.contains("/sign-in/provider?next=%2Fsettings%2Fkeys"), "{offered}");

    // Whose address nobody verified, who has no account, whose account has another sign-in, and the operator's label.
    for (sub, email, verified, why) in [
        ("1", "free@x.example", false, "verified"),
        ("2", "nobody@x.example", true, "No account here"),
        ("3", "ada@x.example", true, "another sign-in"),
        ("4", "operator@localhost", true, "another sign-in"),
    ] {
        provider.sign_in_as(sub, email, verified);
        let refused = sign_in(&controller, &provider).await;
        assert!(refused.status == 403 && refused.text.contains(why), "{email}: {}", refused.text);
        assert!(!refused.headers.contains_key("set-cookie"), "{refused:?}");
    }

    // The first sign-in connects an account that has no other one.
    provider.sign_in_as("5", "Free@X.example", true);
    let back = begin(&controller, &provider, &anybody).await;
    let foreign = Visit { cookie: "hotdesk-provider=".to_owned(), path: back.path.clone() };
    let other = begin(&controller, &provider, &anybody).await;
    let crossed = Visit { cookie: other.cookie.clone(), path: back.path.clone() };
    let mixed = Visit { cookie: back.cookie.clone(), path: format!("{}x", back.path) };
    for (visit, why) in [(&foreign, "no cookie"), (&crossed, "another state"), (&mixed, "another issuer")] {
        let refused = come_back(&anybody, visit).await;
        assert!(refused.status == 403 && refused.text.contains("did not begin"), "{why}: {}", refused.text);
    }
    let entered = come_back(&anybody, &back).await;
    assert_eq!(entered.location(), "/settings/keys");
    let browser = signed_in_as(&controller, &entered).await;
    assert!(browser.get("/settings").await.text.contains("free@x.example"));
    let again = come_back(&anybody, &back).await;
    assert!(
        again.status == 503 && !again.headers.contains_key("set-cookie"),
        "a code works once: {}",
        again.text
    );
    // From then on the provider's id decides, not the address.
    provider.sign_in_as("5", "ada@x.example", true);
    let browser = signed_in_as(&controller, &sign_in(&controller, &provider).await).await;
    assert!(browser.get("/settings").await.text.contains("free@x.example"));
    let settings = browser.get(SETTINGS).await.text;
    assert!(settings.contains("connected as <strong>Free@X.example</strong>"), "{settings}");
    let locked = browser.post("/settings/sign-in/provider/remove", &[]).await;
    assert_eq!(locked.status, 403, "nobody locks themselves out: {}", locked.text);
    let key = controller.key_of(free.id, None).await;
    let log = fetch_json(controller.request_with(&key, Method::GET, "/audit?limit=500")).await.body;
    let done =
        |it: &&Value| it["action"] == "sign_in" && it["result"] == "done" && it["credential"] == "session";
    assert_eq!(log["entries"].as_array().expect("entries").iter().filter(done).count(), 2, "{log}");

    // A person who is signed in connects their account, whatever the address is.
    let ada = Browser::signed_in(&controller.base, "ada@x.example").await;
    second_factors::set_up(&ada, PASSWORD).await;
    provider.sign_in_as("6", "other@y.example", false);
    assert_eq!(begin_connection(&ada, &[("password", "wrong")]).await.0.status, 403);
    let forged = ada.send("/settings/sign-in/provider", &[("password", PASSWORD)]).await;
    assert_eq!(forged.status, 403, "{}", forged.text);
    let (begun, url) = begin_connection(&ada, &[("password", PASSWORD)]).await;
    let back = visit(&controller, &provider, &begun, &url).await;
    let eve = Browser::signed_in(&controller.base, "eve@x.example").await;
    assert_eq!(
        come_back(&eve, &back).await.status,
        403,
        "the connection belongs to the session that began it"
    );
    let connected = come_back(&ada, &back).await;
    assert_eq!((connected.status, connected.location()), (303, SETTINGS), "{}", connected.text);
    let browser = signed_in_as(&controller, &sign_in(&controller, &provider).await).await;
    assert!(
        browser.get("/settings").await.text.contains("ada@x.example"),
        "the provider asks for its own second step"
    );
    // One person signs in to one account.
    let (begun, url) = begin_connection(&eve, &[("password", PASSWORD)]).await;
    let refused = come_back(&eve, &visit(&controller, &provider, &begun, &url).await).await;
    assert!(refused.status == 403 && refused.text.contains("another account"), "{}", refused.text);
    // A sign-in replaces the present one.
    let back = begin(&controller, &provider, &eve).await;
    let replaced = signed_in_as(&controller, &come_back(&eve, &back).await).await;
    assert!(replaced.get("/settings").await.text.contains("ada@x.example"));
    assert_eq!(eve.get("/settings").await.status, 303, "the replaced session has ended");

    let remove = "/settings/sign-in/provider/remove";
    assert_eq!(ada.post(remove, &[("password", "wrong")]).await.status, 403);
    assert_eq!(ada.post(remove, &[("password", PASSWORD)]).await.status, 303);
    assert_eq!(sign_in(&controller, &provider).await.status, 403, "disconnected");

    // A refusal of the provider is shown, and nothing else that the address says.
    let mut back = begin(&controller, &provider, &anybody).await;
    let state = back.path.split_once("state=").expect("a state").1.split('&').next().expect("one").to_owned();
    for (error, shown) in [("access_denied", "(access_denied)"), ("%3Cb%3E", "(no code)")] {
        back.path = format!("/sign-in/provider/callback?state={state}&error={error}");
        let refused = come_back(&anybody, &back).await;
        assert!(refused.status == 403 && refused.text.contains(shown), "{}", refused.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a84_a_client_without_a_secret_signs_in_and_a_provider_that_is_gone_stops_nobody_else() {
    let none = Simulation::boot().await;
    let anybody = Browser::new(&none.base);
    assert!(!anybody.get("/sign-in").await.text.contains("/sign-in/provider"));
    assert_eq!(anybody.get("/sign-in/provider").await.status, 404);

    let Some(mut provider) = OidcProvider::start() else { return };
    let settings =
        |issuer: String| OidcSettings { issuer, client_id: "public".to_owned(), ..OidcSettings::default() };
    let oidc = settings(provider.issuer.clone());
    let controller = Simulation::boot_configured(Config { oidc, ..Config::default() }).await;
    let callback = format!("{}/sign-in/provider/callback", controller.base);
    provider.register(&json!([{"client_id": "public", "token_endpoint_auth_method": "none",
        "id_token_signed_response_alg": "ES256", "redirect_uris": [callback]}]));
    let store = controller.store().await;
    let free = Account::person(&Email::parse("free@x.example").expect("an address"), "", None);
    store.add_account(&free).await.expect("an account");
    provider.sign_in_as("1", "free@x.example", true);
    let browser = signed_in_as(&controller, &sign_in(&controller, &provider).await).await;
    assert!(browser.get("/settings").await.text.contains("free@x.example"));

    // An issuer that differs from the provider's own in one character is another one.
    let oidc = settings(format!("{}/", provider.issuer));
    let mistaken = Simulation::boot_configured(Config { oidc, ..Config::default() }).await;
    let refused = Browser::new(&mistaken.base).get("/sign-in/provider").await;
    assert!(
        refused.status == 503 && refused.text.contains("does not answer as it should"),
        "{}",
        refused.text
    );
    drop(provider);
    assert_eq!(Browser::new(&mistaken.base).get("/sign-in/provider").await.status, 503);
    person(&mistaken.store().await, "ada@x.example").await;
    Browser::signed_in(&mistaken.base, "ada@x.example").await;
}
