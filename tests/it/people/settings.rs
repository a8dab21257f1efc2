//! Does every page of the settings lead to all others, the root to them, and is a workspace made there?

use hotdesk::controller::config::Limits;
use reqwest::Method;

use crate::harness::browser::{Browser, page, person};
use crate::harness::simulation::Simulation;

#[tokio::test(flavor = "multi_thread")]
async fn every_settings_page_leads_to_the_others() {
    let house = Simulation::boot().await;
    person(&house.store().await, "ada@x.example").await;
    let ada = Browser::signed_in(&house.base, "ada@x.example").await;
    let pages = ["/settings", "/settings/workspaces", "/settings/keys", "/settings/connections"];
    let here = |path: &str| format!("<a href=\"{path}\" aria-current=\"page\">");
    for path in pages {
        let text = ada.get(path).await.text;
        assert!(text.contains(&here(path)), "{path} does not say where it is: {text}");
        for other in pages.into_iter().filter(|other| *other != path) {
            assert!(
                text.contains(&format!("<a href=\"{other}\">")),
                "{path} does not lead to {other}: {text}"
            );
        }
    }
    // The page that shows a new key is one of them.
    let made = ada.post("/settings/keys", &[("name", "ci")]).await;
    assert!(made.status == 201 && made.text.contains(&here("/settings/keys")), "{}", made.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_makes_a_workspace_as_far_as_the_plan_goes() {
    let house = Simulation::boot_limited(Limits { max_workspaces: 1, ..Limits::default() }).await;
    person(&house.store().await, "ada@x.example").await;
    let ada = Browser::signed_in(&house.base, "ada@x.example").await;
    let list = "/settings/workspaces";
    let page = ada.get(list).await.text;
    assert!(page.contains("There are none yet.") && page.contains("name=\"csrf\""), "{page}");
    let forged = ada.send(list, &[("name", "home")]).await;
    assert_eq!(forged.status, 403, "a form without its token is somebody else's: {}", forged.text);
    let unnamed = ada.post(list, &[("name", " ")]).await;
    assert_eq!(unnamed.status, 400, "{}", unnamed.text);

    let made = ada.post(list, &[("name", "<b>home</b>")]).await;
    assert!(made.status == 303 && made.location().starts_with("/settings/workspaces/"), "{made:?}");
    let own = ada.get(made.location()).await;
    assert!(own.status == 200 && own.text.contains("&lt;b&gt;home&lt;/b&gt;"), "{}", own.text);
    assert!(ada.get(list).await.text.contains(made.location()));

    let more = ada.post(list, &[("name", "more")]).await;
    assert!(more.status == 403 && more.text.contains("at most 1 workspace,"), "{}", more.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_root_leads_people_to_the_settings_and_programs_nowhere() {
    let house = Simulation::boot().await;
    let nobody = Browser::new(&house.base);
    for (accept, status, location) in [
        ("text/html,application/xhtml+xml;q=0.9", 303, "/settings"),
        ("application/json, text/html;q=0.5", 303, "/settings"),
        ("application/json", 404, ""),
        ("*/*", 404, ""),
    ] {
        let answer = page(nobody.request(Method::GET, "/").header("accept", accept)).await;
        assert_eq!((answer.status, answer.location()), (status, location), "{accept}: {}", answer.text);
        assert!(status == 303 || answer.text.starts_with("{\"error\":\"Not found\""), "{}", answer.text);
    }
    let posted = page(nobody.request(Method::POST, "/").header("accept", "text/html")).await;
    assert_eq!(posted.status, 404, "{}", posted.text);
}
