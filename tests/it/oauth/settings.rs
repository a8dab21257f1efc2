//! Connections page in the settings: a person sees and ends connections. A63 (docs/authentication-rules.md).

use super::scene::{Scene, csrf};

#[tokio::test(flavor = "multi_thread")]
async fn a63_a_person_sees_its_connections_and_ends_them() {
    let scene = Scene::boot().await;
    let page = scene.me.get("/settings/connections").await;
    assert!(page.status == 200 && page.text.contains("None."), "{}", page.text);
    // A code that is not redeemed is not a connection.
    scene.code().await;
    assert!(scene.me.get("/settings/connections").await.text.contains("None."));
    let (access, refresh) = scene.connect().await;
    let (other, _) = scene.connect().await;
    let page = scene.me.get("/settings/connections").await;
    assert!(
        page.text.contains("Pilot") && page.text.contains("home") && page.text.contains("not yet"),
        "{}",
        page.text
    );
    let ends: Vec<&str> = page
        .text
        .split("action=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|path| path.starts_with("/settings/connections/"))
        .collect();
    assert_eq!(ends.len(), 2, "{}", page.text);

    // Another account neither sees nor ends them; nor does a request without the CSRF token.
    let (_, stranger) = scene.add_account().await;
    let theirs = stranger.get("/settings/connections").await;
    assert!(!theirs.text.contains("Pilot"), "{}", theirs.text);
    let their_token = csrf(&stranger.get(&scene.authorize_url(&[])).await.text).to_owned();
    for end in &ends {
        assert_eq!(stranger.post(end, &[("csrf", &their_token)]).await.status, 404);
        assert_eq!(scene.me.post(end, &[("csrf", "x")]).await.status, 403);
        assert_eq!(scene.me.get(end).await.status, 405);
    }
    assert_eq!((scene.mcp(&access).await.status, scene.mcp(&other).await.status), (200, 200));

    // The newest connection is the first in the list.
    let token = csrf(&page.text);
    let ended = scene.me.post(ends[1], &[("csrf", token)]).await;
    assert_eq!((ended.status, ended.location()), (303, Some("/settings/connections")));
    assert_eq!((scene.mcp(&access).await.status, scene.mcp(&other).await.status), (401, 200));
    assert_eq!(scene.refresh(&refresh).await.body["error"], "invalid_grant");
    assert_eq!(scene.me.post(ends[1], &[("csrf", token)]).await.status, 404, "once");
}
