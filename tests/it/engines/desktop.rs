//! Actions on a desktop for engine tests: typing, counting, suspending and resuming.

use std::time::{Duration, Instant, SystemTime};

use hotdesk::base::wait;
use serde_json::{Value, json};

use crate::harness::controller::RunningController;
use crate::harness::picture;

/// Longest time for a program to start and to read typed text: system calls are slow, or processors are
/// emulated.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Starts a terminal window whose program records what it reads, and a counter without a window.
pub const PROGRAMS: &str = "cat >/root/read.sh <<'END'\n\
    touch /root/reads\n\
    while read line; do echo $line >>/root/typed; done\n\
    END\n\
    DISPLAY=:99 setsid xterm -geometry 80x20+100+80 -e bash /root/read.sh >/dev/null 2>&1 &\n\
    setsid bash -c 'while :; do echo $((++i)) >/root/count; sleep 0.1; done' >/dev/null 2>&1 &";

/// Waits for the terminal window and its program.
pub async fn wait_for_terminal(controller: &RunningController, id: &str) {
    let found = wait::until(TIMEOUT, || async {
        let windows = controller.get(&format!("/computers/{id}/windows")).await.body;
        let ready_file = controller.bash(id, "ls /root/reads 2>/dev/null || true").await;
        (windows.to_string().contains("\"XTerm\"") && !ready_file.trim().is_empty()).then_some(())
    });
    assert!(found.await.is_some(), "a window");
}

/// Clicks into the terminal window until it has the focus, types a line, and waits until the program has read
/// `all`.
pub async fn type_line(controller: &RunningController, id: &str, line: &str, all: &str) {
    let focused = wait::until(TIMEOUT, || async {
        let clicked = controller.act(id, "click", json!({"x": 300, "y": 200})).await;
        assert_eq!(clicked.status, 200, "{}", clicked.body);
        let windows = controller.get(&format!("/computers/{id}/windows")).await.body;
        let all = windows["windows"].as_array().expect("windows");
        all.iter().any(|window| window["class"] == "XTerm" && window["focused"] == true).then_some(())
    });
    assert!(focused.await.is_some(), "the window must get the focus");
    let typed = controller.act(id, "type", json!({"text": format!("{line}\n")})).await;
    assert_eq!(typed.status, 200, "{}", typed.body);
    let typed_lines = wait::until(TIMEOUT, || async {
        (controller.bash(id, "cat /root/typed 2>/dev/null || true").await.trim() == all).then_some(())
    });
    assert!(typed_lines.await.is_some(), "the program must read the typed lines");
}

pub async fn check_screenshot(controller: &RunningController, id: &str) {
    let path = format!("/computers/{id}/screenshot?response_format=binary");
    let shot = controller.request(reqwest::Method::GET, &path).send().await.expect("an answer");
    assert_eq!(shot.status(), 200);
    assert_eq!(picture::size(&shot.bytes().await.expect("a picture")), (1280, 720));
}

/// Difference of the computer's clock to this machine's clock in seconds, reduced by the time of the
/// measurement.
pub async fn clock_offset(controller: &RunningController, id: &str) -> f64 {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let before = now();
    let found: f64 = controller.bash(id, "date +%s.%N").await.trim().parse().expect("a time");
    (before - found).max(found - now()).max(0.0)
}

/// Last value of the counter. The file is empty for a moment during each write.
pub async fn count(controller: &RunningController, id: &str) -> u64 {
    let value =
        wait::until(TIMEOUT, || async { controller.bash(id, "cat /root/count").await.trim().parse().ok() });
    value.await.expect("the counter file has a value")
}

/// Waits until the counter has advanced.
pub async fn wait_for_count(controller: &RunningController, id: &str) -> u64 {
    let before = count(controller, id).await;
    let later = wait::until(TIMEOUT, || async {
        let now = count(controller, id).await;
        (now > before).then_some(now)
    });
    later.await.expect("the counter advances")
}

async fn password(controller: &RunningController, id: &str) -> Value {
    controller.get(&format!("/computers/{id}/vnc-password")).await.body["password"].clone()
}

/// Suspends and resumes a desktop repeatedly: its programs continue, and its secrets change. Before the
/// second resume its controller is killed, and the third resume is caused by an action.
pub async fn suspend_and_resume(controller: &mut RunningController, id: &str, rounds: usize) {
    type_line(controller, id, "before", "before").await;
    let mut before = password(controller, id).await;
    for round in 0..rounds {
        let began = Instant::now();
        let suspended_answer = controller.act(id, "suspend", json!({})).await;
        assert_eq!(
            (suspended_answer.status, &suspended_answer.body["status"]),
            (200, &json!("suspended")),
            "{}",
            suspended_answer.body
        );
        let suspended = began.elapsed();
        let bytes: u64 = std::fs::read_dir(controller.machine(id).join("memory"))
            .expect("memory")
            .map(|entry| entry.and_then(|entry| entry.metadata()).expect("a file").len())
            .sum();
        if round == 1 {
            // A suspended computer needs no controller.
            controller.kill();
            controller.start_again().await;
            assert_eq!(
                controller.get(&format!("/computers/{id}/suspension")).await.body["status"],
                "suspended"
            );
        }
        if round < 2 {
            let began = Instant::now();
            let resumed = controller.act(id, "resume", json!({})).await;
            assert_eq!(resumed.status, 200, "{}", resumed.body);
            println!("suspended in {suspended:?}, {bytes} bytes, resumed in {:?}", began.elapsed());
        }
        let counted = count(controller, id).await;
        let offset = clock_offset(controller, id).await;
        assert!(offset < 0.5, "clock offset of {offset} s");
        type_line(controller, id, "after", &format!("before{}", "\nafter".repeat(round + 1))).await;
        assert_ne!(count(controller, id).await, counted, "the counter must advance");
        check_screenshot(controller, id).await;
        let now = password(controller, id).await;
        assert_ne!(now, before, "the password must change");
        before = now;
    }
}
