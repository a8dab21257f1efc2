//! Screenshots in every response format, and the confidentiality of their links (docs/api/actions.md).

use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::json;

use crate::harness::agent::fetch_json;
use crate::harness::controller::{RunningController, skip_reason};
use crate::harness::picture;

#[tokio::test(flavor = "multi_thread")]
async fn a_screenshot_comes_in_three_forms_and_three_formats() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let workspace = controller.workspace("demo").await;
    let order = json!({"workspace_id": workspace, "name": "one", "resolution": "800x600x24"});
    let created = controller.post("/computers", order).await.body;
    let id = created["id"].as_str().unwrap();
    let path = format!("/computers/{id}/screenshot");
    for (query, mime_type, size) in [
        ("", "image/png", (800, 600)),
        ("&format=png", "image/png", (800, 600)),
        ("&format=jpeg", "image/jpeg", (800, 600)),
        ("&format=jpeg&quality=1", "image/jpeg", (800, 600)),
        ("&format=webp", "image/webp", (800, 600)),
        ("&format=webp&quality=50&region=100,50,300,200&cursor=off", "image/webp", (300, 200)),
        ("&max_pixels=120000&max_bytes=100000", "image/png", (400, 300)),
        ("&scale=0.5", "image/png", (400, 300)),
        ("&format=jpeg&scale=0.75&unknown=1", "image/jpeg", (600, 450)),
        ("&screen=default&scale=1", "image/png", (800, 600)),
    ] {
        let binary = controller.request(Method::GET, &format!("{path}?response_format=binary{query}"));
        let binary = binary.send().await.expect("an answer");
        assert_eq!(
            (binary.status().as_u16(), binary.headers()["content-type"].to_str().unwrap()),
            (200, mime_type)
        );
        let bytes = binary.bytes().await.unwrap();
        assert_eq!(picture::size(&bytes), size, "{query}");
        assert!(bytes.len() >= 100, "{query}: {} bytes", bytes.len());

        let based = controller.get(&format!("{path}?response_format=base64{query}")).await;
        assert_eq!((based.status, &based.body["success"]), (200, &json!(true)), "{}", based.body);
        assert_eq!(
            (&based.body["mime_type"], &based.body["width"], &based.body["height"]),
            (&json!(mime_type), &json!(size.0), &json!(size.1))
        );
        assert_eq!(picture::size(&picture::from_base64(based.body["image"].as_str().unwrap())), size);

        let linked = controller.get(&format!("{path}?response_format=url{query}")).await;
        let link = linked.body["image"].as_str().unwrap().to_owned();
        assert!(link.starts_with(&format!("{}/api/storage/", controller.base())), "{link}");
        // Old clients fetch the link without a key.
        let fetched = reqwest::get(&link).await.expect("an answer");
        assert_eq!(
            (fetched.status().as_u16(), fetched.headers()["content-type"].to_str().unwrap()),
            (200, mime_type)
        );
        assert_eq!(fetched.headers()["x-content-type-options"], "nosniff");
        let bytes = fetched.bytes().await.unwrap();
        assert_eq!(picture::size(&bytes), size, "{link}");
        let metadata = &linked.body["metadata"];
        assert_eq!(metadata["size"], bytes.len());
        assert_eq!((&metadata["width"], &metadata["height"]), (&json!(size.0), &json!(size.1)), "{query}");
        assert!(metadata["frame"].is_string() && metadata["scale"].is_number(), "{metadata}");
        assert_eq!((&metadata["screen"], &based.body["screen"]), (&json!("default"), &json!("default")));
        assert!(based.body["frame"].is_string() && based.body["scale"].is_number(), "{query}");
        assert!(metadata["id"].is_string() && metadata["timestamp"].is_string());
        assert!(metadata["storage_path"].as_str().unwrap().contains(metadata["id"].as_str().unwrap()));
    }
    for bad in [
        "response_format=gif",
        "response_format=",
        "format=gif",
        "format=PNG",
        "scale=0",
        "scale=-1",
        "scale=1.01",
        "scale=NaN",
        "scale=x",
        "quality=0",
        "quality=101",
        "quality=-1",
        "region=0,0,801,600",
        "cursor=maybe",
        "max_bytes=1",
    ] {
        let refused = controller.get(&format!("{path}?{bad}")).await;
        assert_eq!(refused.status, 400, "{bad}: {}", refused.body);
        let refused = controller.get(&format!("{path}?response_format=binary&{bad}")).await;
        assert_eq!(refused.status, 400, "binary {bad}: {}", refused.body);
    }
    assert_eq!(controller.get(&format!("{path}?screen=screen-100")).await.status, 404);
    assert_eq!(controller.get(&format!("/computers/{}/screenshot", uuid::Uuid::new_v4())).await.status, 404);

    // Concurrent screenshots, and a screenshot after the screen has changed.
    let shots = [0; 12].map(|_| controller.get(&path));
    for shot in futures_util::future::join_all(shots).await {
        assert_eq!(shot.status, 200, "{}", shot.body);
    }
    let picture = || async {
        let binary = controller.request(Method::GET, &format!("{path}?response_format=binary&scale=0.1"));
        binary.send().await.expect("an answer").bytes().await.expect("a picture")
    };
    let before = picture().await;
    controller.bash(id, "DISPLAY=:99 xterm -geometry 60x20+10+10 -bg '#00ff00' >/dev/null 2>&1 &").await;
    let changed =
        wait::until(Duration::from_secs(10), || async { (picture().await != before).then_some(()) });
    assert!(changed.await.is_some(), "the screenshot must show the new content of the screen");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_was_changed_or_has_expired_opens_nothing() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let id = id.as_str();
    let shot = controller.get(&format!("/computers/{id}/screenshot")).await.body;
    let link = shot["image"].as_str().unwrap().to_owned();
    let shot_id = shot["metadata"]["id"].as_str().unwrap();
    let (plain, query) = link.split_once('?').unwrap();
    let (expires, signature) = query.strip_prefix("expires=").unwrap().split_once("&signature=").unwrap();
    let later = expires.parse::<u64>().unwrap() + 1;
    let status = |address: String| async move { fetch_json(crate::harness::client().get(address)).await };
    let wrong = [
        plain.to_owned(),
        format!("{plain}?expires={expires}"),
        format!("{plain}?expires={expires}&signature="),
        format!("{plain}?expires={later}&signature={signature}"),
        format!("{plain}?expires=1&signature={signature}"),
        format!(
            "{plain}?expires={expires}&signature={}",
            signature.replace(|c: char| c.is_ascii_digit(), "a")
        ),
        format!("{plain}?expires={expires}&signature={}é", signature),
        link.replace(shot_id, &uuid::Uuid::new_v4().to_string()),
        link.replace("/storage/screenshots/", "/storage/files/"),
    ];
    for address in wrong {
        let refused = status(address.clone()).await;
        assert_eq!(refused.status, 403, "{address}: {}", refused.body);
        assert!(refused.body["error"].is_string());
    }
    for address in [
        link.replace("/storage/screenshots/", "/storage/machines/"),
        format!("{plain}?expires=x&signature={signature}"),
        link.replace(shot_id, "..%2f..%2fhotdesk.db"),
    ] {
        let refused = status(address.clone()).await;
        assert!([400, 404].contains(&refused.status), "{address}: {} {}", refused.status, refused.body);
    }
    // A valid key does not replace a valid signature.
    let with_key = crate::harness::client().get(plain).bearer_auth(controller.key());
    assert_eq!(fetch_json(with_key).await.status, 403);
    assert_eq!(controller.blobs("screenshots").len(), 1);
    // A link to a deleted copy reports that.
    std::fs::remove_file(controller.data_dir().join("blobs/screenshots").join(shot_id)).unwrap();
    assert_eq!(status(link).await.status, 404);
}
