//! Rounds of suspend and resume of a real computer with a browser: a page that counts, a counting process
//! without a window, and files that are written between the rounds.

use std::time::{Duration, Instant};

use hotdesk::base::wait;
use serde_json::{Value, json};

use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor};
use crate::harness::sampling::sampled;

/// Rounds of a sample and of a full run.
const ROUNDS: (u64, u64) = (3, 10);
/// Longest time until a resumed page counts: system calls are slow, and the browser has many processes.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time until the browser shows its page for the first time.
const FIRST_TIMEOUT: Duration = Duration::from_secs(120);

/// A page whose title counts and has the time at which it was opened.
const PAGE: &str = "<!doctype html><title>count 0</title><script>let count = 0, opened = Date.now(); \
    setInterval(() => document.title = `count ${++count} of ${opened} end`, 200)</script>";
/// A process that counts in its memory. It starts no other process, which would keep a gVisor computer busy.
const COUNTER: &str = "setsid python3 -c 'import os, time; from itertools import count; \
    [(open(\"/root/new\", \"w\").write(str(i)), os.replace(\"/root/new\", \"/root/count\"), time.sleep(0.1)) for i in count(1)]' \
    >/dev/null 2>&1 </dev/null & echo $! >/root/counter";

/// The count of the page, and the time at which it was opened.
fn page(windows: &Value) -> Option<(u64, String)> {
    let titles = windows["windows"].as_array()?.iter().filter_map(|window| window["title"].as_str());
    let mut counts = titles.filter_map(|title| {
        let (count, rest) = title.strip_prefix("count ")?.split_once(" of ")?;
        Some((count.parse().ok()?, rest.split_once(" end")?.0.to_owned()))
    });
    counts.next()
}

/// Waits until the page's count is above another.
async fn wait_for_count(
    controller: &RunningController,
    id: &str,
    above: u64,
    timeout: Duration,
) -> (u64, String) {
    let counted = wait::until(timeout, || async {
        page(&controller.get(&format!("/computers/{id}/windows")).await.body)
            .filter(|(count, _)| *count > above)
    });
    match counted.await {
        Some(counted) => counted,
        None => panic!("{}", controller.get(&format!("/computers/{id}/windows")).await.body),
    }
}

async fn number(controller: &RunningController, id: &str) -> u64 {
    controller.bash(id, "cat /root/count").await.trim().parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_of_sleep_lose_neither_a_page_nor_a_process_nor_a_file() {
    let Some(configuration) = gvisor() else { return };
    let Some(controller) = RunningController::boot_full_with(&configuration).await else { return };
    let workspace = controller.workspace("demo").await;
    let id = &id_of(&controller.computer(&workspace, "one").await);
    controller.bash(id, COUNTER).await;
    let open = format!(
        "cat >/root/page.html <<'END'\n{PAGE}\nEND\nDISPLAY=:99 setsid chromium /root/page.html >/dev/null 2>&1 </dev/null &"
    );
    controller.bash(id, &open).await;
    let (mut count, opened) = wait_for_count(&controller, id, 0, FIRST_TIMEOUT).await;
    let processes = "cat /root/counter; cut -d' ' -f22 /proc/1/stat; pgrep -o -x chromium";
    let first = controller.bash(id, processes).await;
    let mut written = String::new();
    for round in 1..=sampled(ROUNDS.0, ROUNDS.1) {
        let line = format!("round {round}\n");
        controller
            .bash(
                id,
                &format!(
                    "printf '{}' >>/root/notes; printf '{}' >>/tmp/notes",
                    line.escape_default(),
                    line.escape_default()
                ),
            )
            .await;
        written += &line;
        let before = number(&controller, id).await;
        let started = Instant::now();
        let suspended = controller.act(id, "suspend", json!({})).await;
        assert_eq!(
            (suspended.status, &suspended.body["status"]),
            (200, &json!("suspended")),
            "{round}: {}",
            suspended.body
        );
        let suspended = started.elapsed();
        let bytes: u64 = std::fs::read_dir(controller.machine(id).join("memory"))
            .expect("memory")
            .map(|entry| entry.and_then(|entry| entry.metadata()).expect("a file").len())
            .sum();
        let started = Instant::now();
        let resumed = controller.act(id, "resume", json!({})).await;
        assert_eq!(
            (resumed.status, &resumed.body["status"]),
            (200, &json!("running")),
            "{round}: {}",
            resumed.body
        );
        println!("round {round}: {suspended:?}, {} MB, {:?}", bytes / 1_000_000, started.elapsed());

        // The same page and the same process continue.
        let (now, same) = wait_for_count(&controller, id, count, TIMEOUT).await;
        assert_eq!(same, opened, "{round}: the page was reloaded");
        count = now;
        assert!(number(&controller, id).await >= before, "{round}: the counter was reset");
        let continued =
            wait::until(TIMEOUT, || async { (number(&controller, id).await > before).then_some(()) });
        assert!(continued.await.is_some(), "{round}: the counter stopped");
        assert_eq!(
            controller.bash(id, "cat /root/notes; cmp /root/notes /tmp/notes").await,
            written,
            "{round}"
        );
    }
    assert_eq!(controller.bash(id, processes).await, first, "the same processes");
}
