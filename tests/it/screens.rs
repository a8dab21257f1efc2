//! Screens of a computer: creation, resize, separate input, and removal (docs/api/screens.md).

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::display::fixture::Picture;
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, skip_reason};
use crate::harness::picture;

struct Desk<'a> {
    controller: &'a RunningController,
    id: &'a str,
}

impl Desk<'_> {
    fn path(&self, more: &str) -> String {
        format!("/computers/{}/screens{more}", self.id)
    }

    async fn ids(&self) -> Vec<String> {
        let listed = self.controller.get(&self.path("")).await;
        assert_eq!(listed.status, 200, "{}", listed.body);
        let screens = listed.body["screens"].as_array().expect("screens").clone();
        screens.iter().map(|screen| screen["id"].as_str().expect("an id").to_owned()).collect()
    }

    async fn add(&self, size: Value) -> HttpAnswer {
        self.controller.post(&self.path(""), size).await
    }

    async fn resize(&self, screen: &str, size: Value) -> HttpAnswer {
        self.controller.patch(&self.path(&format!("/{screen}")), size).await
    }

    /// The resolution in the record, which all of its places agree on.
    async fn resolution(&self) -> String {
        let record = self.controller.get(&format!("/computers/{}", self.id)).await.body;
        assert_eq!(record["resolution"], record["instance_details"]["resolution"]);
        record["resolution"].as_str().expect("a resolution").to_owned()
    }

    async fn remove(&self, screen: &str) -> HttpAnswer {
        self.controller.delete(&self.path(&format!("/{screen}"))).await
    }

    /// The size of a screenshot of a screen.
    async fn screenshot_size(&self, screen: &str) -> (u32, u32) {
        let path = format!("/computers/{}/screenshot?response_format=binary&screen={screen}", self.id);
        let answer = self.controller.request(Method::GET, &path).send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{screen}");
        picture::size(&answer.bytes().await.expect("a picture"))
    }
}

fn record(id: &str, display: &str, size: (u32, u32), default: bool) -> Value {
    json!({"id": id, "display": display, "width": size.0, "height": size.1, "default": default,
        "vnc_port": null, "ws_port": null})
}

/// Largest part of a desktop that may differ between its first screenshot and a later one: the clock of the panel and
/// the pointer take less.
const STILL: f64 = 0.02;

#[tokio::test(flavor = "multi_thread")]
async fn the_first_screenshot_of_a_new_computer_shows_its_desktop() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    // Over runc every computer boots; over the other engines most begin from a settled desktop.
    let controller = RunningController::boot_with("[engines]\noffered = \"shared\"\n").await;
    let workspace = controller.workspace("demo").await;
    let id = id_of(&controller.computer(&workspace, "one").await);
    let screenshot = || async {
        let path = format!("/computers/{id}/screenshot?response_format=binary");
        let answer = controller.request(Method::GET, &path).send().await.expect("an answer");
        Picture::decode(&answer.bytes().await.expect("a picture"))
    };
    let first = screenshot().await;
    let settled = controller.act(&id, "wait_stable", json!({"quiet_ms": 1500, "timeout_ms": 30_000})).await;
    assert_eq!(settled.status, 200, "{}", settled.body);
    let last = screenshot().await;
    let pixels = first.rgb.chunks(3).zip(last.rgb.chunks(3));
    let differing = pixels.filter(|(one, other)| one != other).count();
    let part = differing as f64 / (last.rgb.len() / 3) as f64;
    assert!(part < STILL, "{:.0} % of the desktop was not drawn", part * 100.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn screens_are_made_used_resized_and_removed() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let workspace = controller.workspace("demo").await;
    let body = json!({"workspace_id": workspace, "name": "one", "resolution": "1024x768x24"});
    let created = controller.post("/computers", body).await.body;
    let id = created["id"].as_str().unwrap();
    let desk = Desk { controller: &controller, id };
    let boot = record("default", ":99", (1024, 768), true);
    assert_eq!(controller.get(&desk.path("")).await.body, json!({"screens": [boot]}));

    let first = desk.add(json!({"width": 640, "height": 480})).await;
    assert_eq!((first.status, &first.body), (201, &record("screen-100", ":100", (640, 480), false)));
    // With one side or none, a screen has the size of the boot screen. Parallel requests get different ids.
    let (one_side, none) = tokio::join!(desk.add(json!({"width": 800})), desk.add(json!({})));
    for added in [&one_side, &none] {
        assert_eq!(
            (added.status, &added.body["width"], &added.body["height"]),
            (201, &json!(1024), &json!(768)),
            "{}",
            added.body
        );
    }
    let mut ids = desk.ids().await;
    ids.sort();
    assert_eq!(ids, ["default", "screen-100", "screen-101", "screen-102"]);
    let fifth = desk.add(json!({"width": 800, "height": 600})).await;
    assert_eq!((fifth.status, &fifth.body["upstream_status"]), (409, &json!(409)), "{}", fifth.body);

    // Each screen has its own size, pointer and windows.
    assert_eq!(
        (desk.screenshot_size("default").await, desk.screenshot_size("screen-100").await),
        ((1024, 768), (640, 480))
    );
    for (screen, x, status) in [("screen-100", 639, 200), ("screen-100", 640, 400), ("default", 640, 200)] {
        let moved = controller.act(id, &format!("move?screen={screen}"), json!({"x": x, "y": 5})).await;
        assert_eq!(moved.status, status, "{screen} {x}: {}", moved.body);
    }
    let pointer_command = "xdotool getmouselocation --shell | head -n1";
    let positions =
        controller.bash(id, &format!("DISPLAY=:99 {pointer_command}; DISPLAY=:100 {pointer_command}")).await;
    assert_eq!(positions, "X=640\nX=639\n");
    assert_eq!(controller.bash(id, "echo $DISPLAY").await, ":99\n");

    let resized = desk.resize("screen-100", json!({"width": 801, "height": 601})).await;
    assert_eq!((resized.status, &resized.body), (200, &record("screen-100", ":100", (801, 601), false)));
    assert_eq!(desk.screenshot_size("screen-100").await, (801, 601));
    let resized = desk.resize("default", json!({"width": 1280, "height": 720})).await;
    assert_eq!((resized.status, desk.screenshot_size("default").await), (200, (1280, 720)));
    assert_eq!(desk.resolution().await, "1280x720x24", "the record follows the boot screen");
    let sizes = [(900, 500), (901, 501), (902, 502), (903, 503)];
    join_all(sizes.map(|(width, height)| desk.resize("default", json!({"width": width, "height": height}))))
        .await;
    let (width, height) = desk.screenshot_size("default").await;
    assert_eq!(desk.resolution().await, format!("{width}x{height}x24"), "the last of concurrent resizes");

    for bad in [
        json!({"width": 63, "height": 480}),
        json!({"width": 0, "height": 0}),
        json!({"width": -1, "height": 480}),
        json!({"width": 7681, "height": 480}),
        json!({"width": 7680, "height": 7680}),
        json!({"width": 4_294_967_296_u64, "height": 480}),
        json!({"width": "640", "height": 480}),
        json!({"width": 640.5, "height": 480}),
    ] {
        let (resize, add) = (desk.resize("screen-100", bad.clone()).await, desk.add(bad.clone()).await);
        assert_eq!(resize.status, 400, "resize to {bad}: {}", resize.body);
        // The size is checked first: at the limit of screens, a valid size would be a conflict.
        assert_eq!(add.status, 400, "{bad}: {}", add.body);
    }
    for bad in [json!({}), json!({"width": 640})] {
        assert_eq!(desk.resize("screen-100", bad.clone()).await.status, 400, "{bad}");
    }
    for unknown in ["screen-103", "screen-99", "x", "..%2f..", "%00", "default%2f", &"x".repeat(5000)] {
        let (resized, removed) =
            (desk.resize(unknown, json!({"width": 640, "height": 480})).await, desk.remove(unknown).await);
        assert_eq!(
            (resized.status, removed.status),
            (404, 404),
            "{unknown}: {} {}",
            resized.body,
            removed.body
        );
    }
    let refused = desk.remove("default").await;
    assert_eq!((refused.status, refused.body["error"].is_string()), (409, true));

    assert_eq!(desk.remove("screen-101").await.body, json!({"success": true}));
    assert_eq!(desk.remove("screen-101").await.status, 404);
    assert_eq!(controller.get(&format!("/computers/{id}/screenshot?screen=screen-101")).await.status, 404);
    let again = desk.add(json!({"width": 320, "height": 240})).await;
    assert_eq!((again.status, &again.body["id"]), (201, &json!("screen-101")), "the free id is reused");
    let removals = join_all([0; 3].map(|_| desk.remove("screen-102"))).await;
    assert!(removals.iter().any(|removed| removed.status == 200), "{removals:?}");

    for (method, path) in [(Method::PUT, desk.path("")), (Method::GET, desk.path("/default"))] {
        assert_eq!(fetch_json(controller.request(method, &path)).await.status, 405, "{path}");
    }
    assert_eq!(fetch_json(controller.bare(Method::GET, &format!("/api{}", desk.path("")))).await.status, 401);
    // A restart leaves only the boot screen, with the computer's resolution (docs/api/screens.md).
    controller.act(id, "restart", json!({})).await;
    assert_eq!(desk.ids().await, ["default"]);
    assert_eq!(desk.screenshot_size("default").await, (width, height));
}

/// A restart of the computer keeps the size; a new controller adopts the size that it finds.
#[tokio::test(flavor = "multi_thread")]
async fn the_resolution_of_the_record_survives_restarts() {
    let Some((mut controller, _, id)) = RunningController::with_a_computer().await else { return };
    let desk = Desk { controller: &controller, id: &id };
    assert_eq!(desk.resize("default", json!({"width": 900, "height": 500})).await.status, 200);
    controller.act(&id, "restart", json!({})).await;
    controller.until_status(&id, "running").await;
    assert_eq!(
        (desk.screenshot_size("default").await, desk.resolution().await.as_str()),
        ((900, 500), "900x500x24")
    );
    // A resize that no controller recorded, as when one dies in the middle of it.
    let size = json!({"width": 800, "height": 600});
    let behind = controller.patch(&format!("/desktops/{id}/proxy/screens/default"), size).await;
    assert_eq!((behind.status, desk.resolution().await.as_str()), (200, "900x500x24"), "{}", behind.body);
    controller.restart().await;
    let desk = Desk { controller: &controller, id: &id };
    let followed = hotdesk::base::wait::until(std::time::Duration::from_secs(30), || async {
        let record = controller.get(&format!("/computers/{id}")).await.body;
        (record["status"] == "running" && record["resolution"] == "800x600x24").then_some(())
    });
    assert!(followed.await.is_some(), "{}", desk.resolution().await);
}
