//! Is a virtual machine a usable desktop through the public API, and does all of it go on after a stop and after a suspend?

use std::time::Instant;

use serde_json::json;

use super::gvisor_desktop::{PROGRAMS, clock_is_off, reads, shows_a_screen, types};
use super::qemu::{kernel, no_machines_here};
use crate::harness::controller::RunningController;

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_is_a_desktop_that_stops_and_sleeps() {
    if let Some(reason) = no_machines_here() {
        return println!("{reason}");
    }
    let configuration = format!("engine = \"qemu\"\n[qemu]\nkernel = {:?}\n", kernel());
    let mut house = RunningController::boot_with(&configuration).await;
    let workspace = house.workspace("demo").await;
    let began = Instant::now();
    let record = house.computer(&workspace, "one").await;
    let id = record["id"].as_str().expect("an id");
    println!("a virtual machine: created in {:?}", began.elapsed());
    assert!(house.bash(id, "uname -r").await.trim().ends_with("cloud-amd64"));
    shows_a_screen(&house, id).await;
    house.bash(id, "echo kept >/root/note").await;
    assert_eq!(house.act(id, "stop", json!({})).await.status, 200);
    house.until_status(id, "stopped").await;
    assert_eq!(house.act(id, "start", json!({})).await.status, 200);
    assert_eq!(house.bash(id, "cat /root/note").await.trim(), "kept");

    house.bash(id, PROGRAMS).await;
    reads(&house, id).await;
    types(&house, id, "before", "before").await;
    let password = house.get(&format!("/computers/{id}/vnc-password")).await.body["password"].clone();
    for round in 0..2 {
        let began = Instant::now();
        let suspended = house.act(id, "suspend", json!({})).await;
        assert_eq!(
            (suspended.status, &suspended.body["status"]),
            (200, &json!("suspended")),
            "{}",
            suspended.body
        );
        let suspended = began.elapsed();
        let bytes: u64 = std::fs::read_dir(house.machine(id).join("memory"))
            .expect("memory")
            .map(|entry| entry.and_then(|entry| entry.metadata()).expect("a file").len())
            .sum();
        if round == 1 {
            // A sleeping computer needs no controller.
            house.kill();
            house.start_again().await;
            assert_eq!(house.get(&format!("/computers/{id}/suspension")).await.body["status"], "suspended");
        }
        let began = Instant::now();
        let resumed = house.act(id, "resume", json!({})).await;
        assert_eq!(resumed.status, 200, "{}", resumed.body);
        println!(
            "a virtual machine: suspended in {suspended:?}, {bytes} bytes, resumed in {:?}",
            began.elapsed()
        );
        let count = house.bash(id, "cat /root/count").await;
        let off = clock_is_off(&house, id).await;
        assert!(off < 0.5, "its clock is off by {off} s");
        types(&house, id, "after", &format!("before{}", "\nafter".repeat(round + 1))).await;
        assert_ne!(house.bash(id, "cat /root/count").await, count, "the counter goes on");
        shows_a_screen(&house, id).await;
    }
    let now = house.get(&format!("/computers/{id}/vnc-password")).await.body["password"].clone();
    assert_ne!(now, password, "its secrets are new");
    // A controller that starts again finds the machine as it runs.
    let up = house.bash(id, "cut -d. -f1 /proc/uptime").await;
    house.kill();
    house.start_again().await;
    let later = house.bash(id, "cut -d. -f1 /proc/uptime").await;
    let seconds = |text: &str| text.trim().parse::<u64>().expect("seconds");
    assert!(seconds(&later) >= seconds(&up), "the same boot");
}
