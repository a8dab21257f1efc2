//! Is a computer over gVisor a usable desktop, and does all of it go on after a suspend?

use std::time::{Duration, Instant, SystemTime};

use hotdesk::base::wait;
use serde_json::json;

use crate::harness::controller::{RunningController, gvisor};
use crate::harness::picture;

/// By when a program must have started and read what was typed: system calls are slow, or processors emulated.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A terminal window whose program writes down what it reads, and a counter without a window.
pub const PROGRAMS: &str = "cat >/root/read.sh <<'END'\n\
    touch /root/reads\n\
    while read line; do echo $line >>/root/typed; done\n\
    END\n\
    DISPLAY=:99 setsid xterm -geometry 80x20+100+80 -e bash /root/read.sh >/dev/null 2>&1 &\n\
    setsid bash -c 'while :; do echo $((++i)) >/root/count; sleep 0.1; done' >/dev/null 2>&1 &";

/// Waits for the terminal window and for the program in it.
pub async fn reads(house: &RunningController, id: &str) {
    let there = wait::until(PATIENCE, || async {
        let windows = house.get(&format!("/computers/{id}/windows")).await.body;
        let reads = house.bash(id, "ls /root/reads 2>/dev/null || true").await;
        (windows.to_string().contains("\"XTerm\"") && !reads.trim().is_empty()).then_some(())
    });
    assert!(there.await.is_some(), "a window");
}

/// Clicks into the terminal window until it has the keyboard, types a line, and waits until all of these have been read there.
pub async fn types(house: &RunningController, id: &str, line: &str, all: &str) {
    let focused = wait::until(PATIENCE, || async {
        let clicked = house.act(id, "click", json!({"x": 300, "y": 200})).await;
        assert_eq!(clicked.status, 200, "{}", clicked.body);
        let windows = house.get(&format!("/computers/{id}/windows")).await.body;
        let all = windows["windows"].as_array().expect("windows");
        all.iter().any(|window| window["class"] == "XTerm" && window["focused"] == true).then_some(())
    });
    assert!(focused.await.is_some(), "the window has the keyboard");
    let typed = house.act(id, "type", json!({"text": format!("{line}\n")})).await;
    assert_eq!(typed.status, 200, "{}", typed.body);
    let read = wait::until(PATIENCE, || async {
        (house.bash(id, "cat /root/typed 2>/dev/null || true").await.trim() == all).then_some(())
    });
    assert!(read.await.is_some(), "what was typed arrived");
}

pub async fn shows_a_screen(house: &RunningController, id: &str) {
    let path = format!("/computers/{id}/screenshot?response_format=binary");
    let shot = house.request(reqwest::Method::GET, &path).send().await.expect("an answer");
    assert_eq!(shot.status(), 200);
    assert_eq!(picture::size(&shot.bytes().await.expect("a picture")), (1280, 720));
}

/// By how many seconds the computer's clock differs from this machine's, as far as asking for it tells.
pub async fn clock_is_off(house: &RunningController, id: &str) -> f64 {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let before = now();
    let there: f64 = house.bash(id, "date +%s.%N").await.trim().parse().expect("a time");
    (before - there).max(there - now()).max(0.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_over_gvisor_is_a_desktop_that_goes_on_after_a_suspend() {
    let Some(configuration) = gvisor() else { return };
    let mut house = RunningController::boot_with(&configuration).await;
    let workspace = house.workspace("demo").await;
    let record = house.computer(&workspace, "one").await;
    let id = record["id"].as_str().expect("an id");
    assert!(house.bash(id, "uname -r").await.starts_with("4.4.0"), "gVisor's kernel says so of itself");
    shows_a_screen(&house, id).await;
    let elements = house.get(&format!("/computers/{id}/elements")).await;
    let told = elements.body["error"].as_str().expect("an error");
    assert!(elements.status == 503 && told.contains("does not tell which program"), "{}", elements.body);
    house.bash(id, PROGRAMS).await;
    reads(&house, id).await;
    types(&house, id, "before", "before").await;

    let mut password = record["vnc_password"].clone();
    for round in 0..3 {
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
        if round < 2 {
            let resumed = house.act(id, "resume", json!({})).await;
            assert_eq!(resumed.status, 200, "{}", resumed.body);
            let resumed = began.elapsed();
            println!("a desktop: suspended in {suspended:?}, {bytes} bytes, resumed in {resumed:?}");
        }
        // In the last round it is woken by being used.
        let count = house.bash(id, "cat /root/count").await;
        let off = clock_is_off(&house, id).await;
        assert!(off < 0.5, "its clock is off by {off} s");
        types(&house, id, "after", &format!("before{}", "\nafter".repeat(round + 1))).await;
        assert_ne!(house.bash(id, "cat /root/count").await, count, "the counter goes on");
        shows_a_screen(&house, id).await;
        let now = house.get(&format!("/computers/{id}/vnc-password")).await.body["password"].clone();
        assert_ne!(now, password, "its secrets are new");
        password = now;
    }
    // A stop takes its memory: what comes up is what is on its disk.
    assert_eq!(house.act(id, "suspend", json!({})).await.status, 200);
    assert_eq!(house.act(id, "stop", json!({})).await.status, 200);
    house.until_status(id, "stopped").await;
    assert!(!house.machine(id).join("memory").exists(), "memory is gone");
    assert_eq!(house.act(id, "start", json!({})).await.status, 200);
    assert_eq!(house.bash(id, "pgrep -c xterm || true; tail -1 /root/typed").await.trim(), "0\nafter");
}
