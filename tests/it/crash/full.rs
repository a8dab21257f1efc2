//! What works on a full disk? Reading and removing; what needs room is refused whole (threats.md T20).

use std::fs::File;
use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::json;

use crate::harness::agent::{Answered, answered};
use crate::harness::controller::{RunningController, no_computers_here};

/// The data folder's disk: the reserve that the engine keeps, one computer and the agent's program.
const DISK_MIB: u64 = 2048;

/// Takes all the room that is left on a disk.
fn fill(folder: &Path) -> PathBuf {
    let path = folder.join("filler");
    let file = File::options().write(true).create(true).truncate(false).open(&path).expect("a filler");
    let mut at = file.metadata().expect("its size").len();
    for step in [64 << 20, 1 << 20, 64 << 10, 4096, 1024_u64] {
        while rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), at, step).is_ok() {
            at += step;
        }
    }
    path
}

async fn upload(house: &RunningController, workspace: &str, bytes: usize) -> Answered {
    let form = reqwest::multipart::Form::new()
        .text("projectId", workspace.to_owned())
        .part("file", reqwest::multipart::Part::bytes(vec![b'x'; bytes]).file_name("a.bin"));
    answered(house.request(Method::POST, "/files/upload").multipart(form)).await
}

fn is_refused(answer: &Answered, name: &str) {
    assert_eq!(answer.status, 503, "{name}: {}", answer.body);
    assert!(
        answer.body["code"].is_string() && answer.body["retry_after"].is_u64(),
        "{name}: {}",
        answer.body
    );
}

fn blobs(house: &RunningController) -> usize {
    let folders = ["files", "screenshots"].map(|kind| house.data_dir().join("blobs").join(kind));
    folders.iter().map(|folder| std::fs::read_dir(folder).expect("a folder").count()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_a_full_disk_refuses_what_needs_room_and_nothing_else() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let mut house = RunningController::boot_on_disk(DISK_MIB).await;
    let workspace = house.workspace("w").await;
    let id = house.computer(&workspace, "desk").await["id"].as_str().expect("an id").to_owned();
    let kept = upload(&house, &workspace, 1000).await.body["file"]["id"].as_str().expect("a file").to_owned();
    let other = house.workspace("other").await;
    let held = blobs(&house);
    let filler = fill(&house.data_dir());

    is_refused(&upload(&house, &workspace, 5_000_000).await, "an upload");
    is_refused(&upload(&house, &workspace, 10).await, "a small upload");
    is_refused(&house.get(&format!("/computers/{id}/screenshot")).await, "a stored screenshot");
    let create = house.post("/computers", json!({"workspace_id": workspace, "name": "second"})).await;
    is_refused(&create, "a create");
    assert_eq!(house.get("/computers").await.body["total"], 1, "no half computer");
    assert_eq!(std::fs::read_dir(house.data_dir().join("machines")).expect("a folder").count(), 1);
    assert_eq!(blobs(&house), held, "no half blob");

    // Reading works, and so does the desktop.
    for path in
        ["/workspaces".to_owned(), format!("/computers/{id}"), format!("/files?projectId={workspace}")]
    {
        assert_eq!(house.get(&path).await.status, 200, "{path}");
    }
    assert_eq!(house.bash(&id, "echo hi").await, "hi\n");
    // The controller itself starts on a full disk, whether it ended in its own way or not; nobody gets the room it held.
    house.kill();
    house.start_again().await;
    house.restart().await;
    fill(&house.data_dir());
    assert_eq!(house.bash(&id, "echo hi").await, "hi\n");
    // Removing works, and makes room.
    let removed = house.delete(&format!("/files/delete?id={kept}")).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let removed = house.delete(&format!("/computers/{id}")).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!(house.get("/computers").await.body["total"], 0);
    assert_eq!(house.delete(&format!("/workspaces/{other}")).await.status, 200);

    std::fs::remove_file(filler).expect("the filler");
    assert_eq!(upload(&house, &workspace, 5_000_000).await.status, 200);
    let made = house.computer(&workspace, "second").await;
    let id = made["id"].as_str().expect("an id");
    assert_eq!(
        house.get(&format!("/computers/{id}/screenshot?response_format=base64")).await.body["success"],
        true
    );
}
