//! Disk space of stored screenshots: T20 (docs/security.md).

use std::path::Path;

use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::{LARGE_SCREEN, large_pictures};
use crate::harness::agent::fetch_json;
use crate::harness::simulation::Simulation;

/// More pictures than an account may store: a quarter of 4 GiB, or less on a small disk.
const PICTURES: usize = 12;
const ACCOUNT_BYTES: u64 = 1024 * 1024 * 1024;

fn stored_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("the folder of screenshots");
    entries.map(|entry| entry.expect("an entry").metadata().expect("its size").len()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_the_newest_pictures_of_an_account_replace_its_oldest() {
    let controller = Simulation::boot_with(large_pictures()).await;
    let computer = controller.computer(&controller.workspace("demo").await, "desk").await;
    let path = format!("/computers/{computer}/screenshot?response_format=url&screen={LARGE_SCREEN}");
    let mut links = Vec::new();
    for _ in 0..PICTURES {
        let answer = fetch_json(controller.request(Method::GET, &path)).await;
        match answer.status {
            200 => links.push(answer.body["image"].clone()),
            // The disk of this machine is so small that not even one picture has room.
            status => assert_eq!((status, &answer.body["code"]), (503, &Value::from("disk_full"))),
        }
    }
    let stored = stored_bytes(&controller.data_dir().join("blobs/screenshots"));
    assert!(stored <= ACCOUNT_BYTES, "{stored} bytes");
    let status = async |link: &Value| {
        let link = link.as_str().expect("a link");
        crate::harness::client().get(link).send().await.expect("an answer").status()
    };
    if let [first, .., last] = &links[..] {
        assert_eq!((status(first).await, status(last).await), (StatusCode::NOT_FOUND, StatusCode::OK));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_a_picture_is_no_larger_than_the_boot_screen() {
    let controller = Simulation::boot_with(large_pictures()).await;
    let computer = controller.computer(&controller.workspace("demo").await, "desk").await;
    for form in ["url", "base64", "binary"] {
        let path = format!("/computers/{computer}/screenshot?response_format={form}");
        let refused = fetch_json(controller.request(Method::GET, &path)).await;
        assert_eq!(refused.status, 500, "{form}: {}", refused.body);
        assert_eq!(refused.body["error"], "The computer's agent sent an invalid answer", "{form}");
    }
    // A part of another screen is no larger than the part.
    for part in ["region=0,0,64,64", "max_pixels=4096", "max_bytes=65536"] {
        let path = format!("/computers/{computer}/screenshot?screen={LARGE_SCREEN}&{part}");
        assert_eq!(fetch_json(controller.request(Method::GET, &path)).await.status, 500, "{part}");
    }
    assert_eq!(stored_bytes(&controller.data_dir().join("blobs/screenshots")), 0);
}
