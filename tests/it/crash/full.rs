//! Full disk: reads and removals succeed, and writes are refused whole (T20, docs/security.md).

use std::fs::File;
use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::json;

use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::controller::{RunningController, gvisor, skip_reason};

/// Size of the data folder's disk: the engine's reserve, one computer and the agent's program.
pub const DISK_MIB: u64 = 2048;

/// Fills a disk.
pub fn fill(folder: &Path) -> PathBuf {
    let path = folder.join("filler");
    let file = File::options().write(true).create(true).truncate(false).open(&path).expect("a filler");
    let mut offset = file.metadata().expect("a size").len();
    for step in [64 << 20, 1 << 20, 64 << 10, 4096, 1024_u64] {
        while rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), offset, step).is_ok() {
            offset += step;
        }
    }
    path
}

async fn upload(controller: &RunningController, workspace: &str, bytes: usize) -> HttpAnswer {
    let form = reqwest::multipart::Form::new()
        .text("projectId", workspace.to_owned())
        .part("file", reqwest::multipart::Part::bytes(vec![b'x'; bytes]).file_name("a.bin"));
    fetch_json(controller.request(Method::POST, "/files/upload").multipart(form)).await
}

fn expect_disk_full(answer: &HttpAnswer, name: &str) {
    assert_eq!(answer.status, 503, "{name}: {}", answer.body);
    assert!(
        answer.body["code"].is_string() && answer.body["retry_after"].is_u64(),
        "{name}: {}",
        answer.body
    );
}

fn blob_count(controller: &RunningController) -> usize {
    let folders = ["files", "screenshots"].map(|kind| controller.data_dir().join("blobs").join(kind));
    folders.iter().map(|folder| std::fs::read_dir(folder).expect("a folder").count()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_a_full_disk_refuses_what_needs_room_and_nothing_else() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let mut controller = RunningController::boot_on_disk(DISK_MIB).await;
    let workspace = controller.workspace("w").await;
    let id = controller.computer(&workspace, "desk").await["id"].as_str().expect("an id").to_owned();
    let file =
        upload(&controller, &workspace, 1000).await.body["file"]["id"].as_str().expect("a file").to_owned();
    let other = controller.workspace("other").await;
    let blobs_before = blob_count(&controller);
    let filler = fill(&controller.data_dir());

    expect_disk_full(&upload(&controller, &workspace, 5_000_000).await, "an upload");
    expect_disk_full(&upload(&controller, &workspace, 10).await, "a small upload");
    expect_disk_full(&controller.get(&format!("/computers/{id}/screenshot")).await, "a stored screenshot");
    let create = controller.post("/computers", json!({"workspace_id": workspace, "name": "second"})).await;
    expect_disk_full(&create, "a create");
    assert_eq!(
        controller.get("/computers").await.body["total"],
        1,
        "a refused create must leave no computer"
    );
    assert_eq!(std::fs::read_dir(controller.data_dir().join("machines")).expect("a folder").count(), 1);
    assert_eq!(blob_count(&controller), blobs_before, "refused uploads must leave no blob");

    // Reads work, and so does the desktop.
    for path in
        ["/workspaces".to_owned(), format!("/computers/{id}"), format!("/files?projectId={workspace}")]
    {
        assert_eq!(controller.get(&path).await.status, 200, "{path}");
    }
    assert_eq!(controller.bash(&id, "echo hi").await, "hi\n");
    // The controller starts on a full disk after a kill and after an orderly end. Its reserve stays reserved.
    controller.kill();
    controller.start_again().await;
    controller.restart().await;
    fill(&controller.data_dir());
    assert_eq!(controller.bash(&id, "echo hi").await, "hi\n");
    // A removal succeeds and frees space.
    let removed = controller.delete(&format!("/files/delete?id={file}")).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let removed = controller.delete(&format!("/computers/{id}")).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!(controller.get("/computers").await.body["total"], 0);
    assert_eq!(controller.delete(&format!("/workspaces/{other}")).await.status, 200);

    std::fs::remove_file(filler).expect("the filler");
    assert_eq!(upload(&controller, &workspace, 5_000_000).await.status, 200);
    let created = controller.computer(&workspace, "second").await;
    let id = created["id"].as_str().expect("an id");
    assert_eq!(
        controller.get(&format!("/computers/{id}/screenshot?response_format=base64")).await.body["success"],
        true
    );
}

/// Fills a disk except for some space: less than the engine's reserve, more than other checks need.
fn fill_except(folder: &Path, mib: u64) -> PathBuf {
    let path = fill(folder);
    let file = File::options().write(true).open(&path).expect("the filler");
    let length = file.metadata().expect("a size").len();
    file.set_len(length - (mib << 20)).expect("a shorter filler");
    path
}

fn expect_short_of_disk_space(answer: &HttpAnswer, what: &str) {
    let text = format!("{what}: the host is short of disk space");
    let expected = (503, &json!("no_capacity"), &json!(text), &json!(30));
    let body = &answer.body;
    assert_eq!((answer.status, &body["code"], &body["error"], &body["retry_after"]), expected, "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_needs_more_space_than_there_is_stays_as_it_is() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_on_disk_with(DISK_MIB, &configuration).await;
    let workspace = controller.workspace("w").await;
    let id = controller.computer(&workspace, "desk").await["id"].as_str().expect("an id").to_owned();
    controller.bash(&id, "echo $$ >/dev/shm/kept").await;
    let memory = controller.bash(&id, "cat /dev/shm/kept").await;
    let path = |verb: &str| format!("/computers/{id}/{verb}");
    let taken = controller.post(&path("snapshots"), json!({})).await;
    assert_eq!(taken.status, 201, "{}", taken.body);
    let filler = fill_except(&controller.data_dir(), 300);

    let rollback = json!({ "snapshot_id": taken.body["id"] });
    for (verb, body, what) in [
        ("restart", json!({}), "Computer could not be restarted"),
        ("rollback", rollback, "Computer could not be rolled back"),
        ("suspend", json!({}), "Computer could not be suspended"),
    ] {
        expect_short_of_disk_space(&controller.post(&path(verb), body).await, what);
        assert_eq!(controller.record(&id).await["status"], "running", "{verb}");
        assert_eq!(controller.bash(&id, "cat /dev/shm/kept").await, memory, "{verb}");
    }
    // A suspended computer wakes on a full disk.
    std::fs::remove_file(&filler).expect("the filler");
    let suspended = controller.post(&path("suspend"), json!({})).await;
    assert_eq!(suspended.status, 200, "{}", suspended.body);
    fill(&controller.data_dir());
    assert_eq!(controller.bash(&id, "cat /dev/shm/kept").await, memory);
    // A stopped computer that cannot be started stays `stopped`.
    assert_eq!(controller.post(&path("stop"), json!({})).await.status, 200);
    controller.until_status(&id, "stopped").await;
    fill(&controller.data_dir());
    let refused = controller.post(&path("start"), json!({})).await;
    expect_short_of_disk_space(&refused, "Computer could not be started");
    assert_eq!(controller.record(&id).await["status"], "stopped");
}
