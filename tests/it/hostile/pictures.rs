//! Disk space of stored screenshots, and sizes that pictures claim: T20, T4 (docs/security.md).

use std::path::Path;

use axum::Router;
use axum::http::header;
use axum::routing::get;
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

#[tokio::test(flavor = "multi_thread")]
async fn t4_a_picture_claims_no_more_pixels_than_asked_for() {
    // A PNG of 300 x 200 pixels without its data.
    let claim = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\x2c\0\0\0\xc8\x08\x02\0\0\0";
    let answer = async move || ([(header::CONNECTION, "close")], claim.to_vec());
    let controller = Simulation::boot_with(Router::new().route("/screenshot", get(answer))).await;
    let computer = controller.computer(&controller.workspace("demo").await, "desk").await;
    for (query, status) in [
        ("", 200),
        ("&max_pixels=60000", 200),
        ("&max_pixels=59999", 500),
        ("&region=0,0,300,200", 200),
        ("&region=0,0,300,199", 500),
        ("&region=0,0,300,200&max_pixels=59999", 500),
    ] {
        let path = format!("/computers/{computer}/screenshot?response_format=binary{query}");
        let answer = controller.request(Method::GET, &path).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{query}");
    }
}
