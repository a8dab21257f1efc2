//! Small pictures of the screen in snapshots.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::RawQuery;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hotdesk::base::wait;
use hotdesk::domain::identity::access::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::fetch_json;
use crate::harness::picture::{JPEG_HEADER, PNG_HEADER};
use crate::harness::simulation::Simulation;

/// Longest time until a removed computer's blobs are gone, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Most attempts at a picture, which may delay a snapshot by two seconds: on a busy machine one is left out.
const ATTEMPTS: u32 = 10;
/// What the agents send as a picture.
const JPEG: &[u8] = JPEG_HEADER;
/// A JPEG that claims 65,535 pixels squared.
const GIANT: &[u8] = b"\xff\xd8\xff\xc0\0\x0b\x08\xff\xff\xff\xff\x01\x01\x11\0";

/// A running computer whose agent answers a request for a screenshot like this.
struct Scene {
    controller: Simulation,
    workspace: String,
    id: String,
}

impl Scene {
    async fn boot(routes: Router) -> Self {
        let controller = Simulation::boot_with(routes).await;
        let workspace = controller.workspace("w").await;
        let id = controller.computer(&workspace, "desk").await;
        Self { controller, workspace, id }
    }

    async fn create(&self) -> Value {
        let made = self.controller.post(&format!("/computers/{}/snapshots", self.id), json!({})).await;
        assert_eq!((made.status, &made.body["state"]), (201, &json!("ready")), "{}", made.body);
        made.body
    }

    /// Makes a snapshot that has a picture; returns it and the number of attempts.
    async fn create_pictured(&self) -> (Value, u32) {
        for attempt in 1..=ATTEMPTS {
            let made = self.create().await;
            if made["has_picture"] == true {
                return (made, attempt);
            }
            assert_eq!(self.controller.delete(&self.path(&made)).await.status, 200);
        }
        panic!("no snapshot has a picture")
    }

    fn path(&self, snapshot: &Value) -> String {
        format!("/computers/{}/snapshots/{}", self.id, snapshot["id"].as_str().expect("an id"))
    }

    /// Number of stored pictures.
    fn stored(&self) -> usize {
        let folder = self.controller.data_dir().join("blobs/snapshot-pictures");
        std::fs::read_dir(folder).expect("the folder of the pictures").count()
    }
}

fn screenshots(picture: &'static [u8]) -> Router {
    let answer = async move || -> Response { ([(header::CONNECTION, "close")], picture).into_response() };
    Router::new().route("/screenshot", get(answer))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_is_small_served_with_its_tag_and_removed_with_its_snapshot() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let answer = async move |RawQuery(query): RawQuery| -> Response {
        let query = query.unwrap_or_default();
        for part in
            ["format=jpeg", "scale=0.375", "max_bytes=131072", "max_pixels=230400", "response_format=binary"]
        {
            assert!(query.contains(part), "{part} is missing in {query}");
        }
        counted.fetch_add(1, Ordering::SeqCst);
        ([(header::CONNECTION, "close")], JPEG).into_response()
    };
    let scene = Scene::boot(Router::new().route("/screenshot", get(answer))).await;
    let ((first, attempts), (_, more)) = (scene.create_pictured().await, scene.create_pictured().await);
    assert!((2..=attempts + more).contains(&asked.load(Ordering::SeqCst)), "one for each");
    assert_eq!(scene.stored(), 2, "one for each");
    let path = format!("{}/picture", scene.path(&first));
    let got = scene.controller.request(Method::GET, &path).send().await.expect("an answer");
    assert_eq!(
        (got.status().as_u16(), &got.headers()["content-type"]),
        (200, &"image/jpeg".parse().unwrap())
    );
    let tag = got.headers()["etag"].clone();
    assert_eq!(got.headers()["cache-control"], "private, no-cache");
    assert_eq!(got.bytes().await.expect("a picture"), JPEG);
    for (sent, status) in [(tag.to_str().expect("text"), 304), ("\"other\"", 200)] {
        let request = scene.controller.request(Method::GET, &path).header("if-none-match", sent);
        let answer = request.send().await.expect("an answer");
        assert_eq!((answer.status().as_u16(), &answer.headers()["etag"]), (status, &tag), "{sent}");
    }
    assert_eq!(scene.controller.delete(&scene.path(&first)).await.status, 200);
    assert_eq!((scene.controller.get(&path).await.status, scene.stored()), (404, 1));
    // The second one goes with the computer.
    assert_eq!(scene.controller.delete(&format!("/computers/{}", scene.id)).await.status, 200);
    scene.controller.until_status(&scene.id, "none").await;
    // The blob is removed after the row.
    let removed = wait::until(TIMEOUT, || async { (scene.stored() == 0).then_some(()) });
    assert!(removed.await.is_some(), "the picture stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_made_without_a_picture_that_is_none_or_does_not_come() {
    let never = async || -> Response { pending().await };
    let never = Router::new().route("/screenshot", get(never));
    let large: &'static [u8] = Vec::leak([JPEG, &[0; 200 * 1024]].concat());
    for (what, routes) in [
        ("no JPEG", screenshots(PNG_HEADER)),
        ("a claim of too many pixels", screenshots(GIANT)),
        ("no picture", screenshots(b"<html>")),
        ("too large", screenshots(large)),
        ("no answer", never),
    ] {
        let scene = Scene::boot(routes).await;
        let made = scene.create().await;
        assert_eq!((&made["has_picture"], scene.stored()), (&json!(false), 0), "{what}");
        let missing = scene.controller.get(&format!("{}/picture", scene.path(&made))).await;
        assert_eq!((missing.status, &missing.body["code"]), (404, &json!("no_picture")), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_computer_has_no_picture_and_viewers_see_those_of_others() {
    let scene = Scene::boot(screenshots(JPEG)).await;
    let controller = &scene.controller;
    let (pictured, _) = scene.create_pictured().await;
    let path = format!("{}/picture", scene.path(&pictured));
    let (viewer, viewer_key) = controller.account("viewer@localhost").await;
    let (_, stranger_key) = controller.account("stranger@localhost").await;
    let store = controller.store().await;
    let home = scene.workspace.parse().expect("an id");
    store.set_member(home, viewer, Role::Viewer).await.expect("a member");
    let seen = controller.request_with(&viewer_key, Method::GET, &path).send().await.expect("an answer");
    assert_eq!(seen.status(), 200);
    let refused = fetch_json(controller.request_with(&stranger_key, Method::GET, &path)).await;
    assert_eq!((refused.status, &refused.body["error"]), (403, &json!("Access denied")));
    assert_eq!(controller.command(format!("/computers/{}/stop", scene.id)).await.status, 200);
    controller.until_status(&scene.id, "stopped").await;
    assert_eq!(scene.create().await["has_picture"], json!(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_that_a_crash_took_are_taken_from_their_snapshots() {
    let mut scene = Scene::boot(screenshots(JPEG)).await;
    let ((lost, _), (kept, _)) = (scene.create_pictured().await, scene.create_pictured().await);
    let picture = async |snapshot: &Value| {
        let path = format!("{}/picture", scene.path(snapshot));
        let answer = scene.controller.request(Method::GET, &path).send().await.expect("an answer");
        answer.headers()["etag"].to_str().expect("text").trim_matches('"').to_owned()
    };
    let name = picture(&lost).await;
    let folder = scene.controller.data_dir().join("blobs/snapshot-pictures");
    std::fs::remove_file(folder.join(name)).expect("the picture");
    scene.controller.restart().await;
    let read = async |snapshot: &Value| scene.controller.get(&scene.path(snapshot)).await.body;
    assert_eq!(read(&lost).await["has_picture"], json!(false));
    assert_eq!(read(&kept).await["has_picture"], json!(true));
}
