//! Settings pages: their navigation, the redirect from the root, and the creation of a workspace.

use hotdesk::controller::config::Limits;
use reqwest::Method;

use crate::harness::browser::{Browser, PASSWORD, page, person};
use crate::harness::simulation::Simulation;

#[tokio::test(flavor = "multi_thread")]
async fn every_settings_page_leads_to_the_others() {
    let controller = Simulation::boot().await;
    person(&controller.store().await, "ada@x.example").await;
    let ada = Browser::signed_in(&controller.base, "ada@x.example").await;
    let pages = [
        "/settings",
        "/settings/sign-in",
        "/settings/sessions",
        "/settings/workspaces",
        "/settings/keys",
        "/settings/connections",
    ];
    let here = |path: &str| format!("<a href=\"{path}\" aria-current=\"page\">");
    for path in pages {
        let text = ada.get(path).await.text;
        assert!(text.contains(&here(path)), "{path} does not mark itself as current: {text}");
        assert!(text.contains("<a href=\"/console\">"), "{path} has no link to the console: {text}");
        for other in pages.into_iter().filter(|other| *other != path) {
            assert!(text.contains(&format!("<a href=\"{other}\">")), "{path} has no link to {other}: {text}");
        }
    }
    // The page that shows a new key has the same navigation.
    let created = ada.post("/settings/keys", &[("name", "ci")]).await;
    assert!(created.status == 201 && created.text.contains(&here("/settings/keys")), "{}", created.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_makes_a_workspace_as_far_as_the_plan_goes() {
    let controller = Simulation::boot_limited(Limits { max_workspaces: 1, ..Limits::default() }).await;
    person(&controller.store().await, "ada@x.example").await;
    let ada = Browser::signed_in(&controller.base, "ada@x.example").await;
    let list = "/settings/workspaces";
    let page = ada.get(list).await.text;
    assert!(page.contains("There are none yet.") && page.contains("name=\"csrf\""), "{page}");
    let forged = ada.send(list, &[("name", "home")]).await;
    assert_eq!(forged.status, 403, "a form without the CSRF token is forged: {}", forged.text);
    let unnamed = ada.post(list, &[("name", " ")]).await;
    assert_eq!(unnamed.status, 400, "{}", unnamed.text);

    let created = ada.post(list, &[("name", "<b>home</b>")]).await;
    assert!(created.status == 303 && created.location().starts_with("/settings/workspaces/"), "{created:?}");
    let own = ada.get(created.location()).await;
    assert!(own.status == 200 && own.text.contains("&lt;b&gt;home&lt;/b&gt;"), "{}", own.text);
    assert!(ada.get(list).await.text.contains(created.location()));

    let more = ada.post(list, &[("name", "more")]).await;
    assert!(more.status == 403 && more.text.contains("at most 1 workspace,"), "{}", more.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_root_leads_people_on_and_programs_nowhere() {
    let controller = Simulation::boot().await;
    let anonymous = Browser::new(&controller.base);
    let root = async |accept: &str| page(anonymous.request(Method::GET, "/").header("accept", accept)).await;
    let html = "text/html,application/xhtml+xml;q=0.9";
    assert_eq!(root(html).await.location(), "/set-up", "a new service is set up first");
    let operator =
        [("key", controller.key()), ("email", "ada@x.example"), ("full_name", ""), ("password", PASSWORD)];
    assert_eq!(anonymous.send("/set-up", &operator).await.status, 303);
    for (accept, status, location) in [
        (html, 303, "/console"),
        ("application/json, text/html;q=0.5", 303, "/console"),
        ("application/json", 404, ""),
        ("*/*", 404, ""),
    ] {
        let answer = root(accept).await;
        assert_eq!((answer.status, answer.location()), (status, location), "{accept}: {}", answer.text);
        assert!(status == 303 || answer.text.starts_with("{\"error\":\"Not found\""), "{}", answer.text);
    }
    let posted = page(anonymous.request(Method::POST, "/").header("accept", "text/html")).await;
    assert_eq!(posted.status, 404, "{}", posted.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_answer_people_with_a_page_and_programs_with_json() {
    let controller = Simulation::boot().await;
    let anonymous = Browser::new(&controller.base);
    let ask = async |method, path: &str, accept: &str| {
        page(anonymous.request(method, path).header("accept", accept)).await
    };
    for path in ["/api", "/api/nothing", "/nothing", "/settings/nothing"] {
        let shown = ask(Method::GET, path, "text/html,*/*;q=0.8").await;
        assert_eq!((shown.status, &shown.headers["vary"]), (404, &"accept".parse().unwrap()), "{path}");
        assert!(shown.headers.contains_key("x-request-id"), "{path}");
        assert!(shown.text.starts_with("<!DOCTYPE html>") && shown.text.contains("/openapi.json"), "{path}");
        for (method, accept) in
            [(Method::GET, "*/*"), (Method::GET, "application/json"), (Method::POST, "text/html")]
        {
            let answer = ask(method, path, accept).await;
            assert_eq!(answer.status, 404, "{path}");
            assert!(answer.text.starts_with("{\"error\":\"Not found\""), "{path}: {}", answer.text);
        }
    }
    let icon = anonymous.get("/favicon.ico").await;
    assert_eq!((icon.status, &icon.headers["content-type"]), (200, &"image/svg+xml".parse().unwrap()));
}
