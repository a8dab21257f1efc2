//! Does a real computer with a browser go on through ten rounds of sleep? A page that counts by itself, a counter without a
//! window, and files written in between.

use std::time::{Duration, Instant};

use hotdesk::base::wait;
use serde_json::{Value, json};

use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor};

const ROUNDS: u64 = 10;
/// By when a page that goes on must have counted: system calls are slow, and the browser has many processes.
const TIMEOUT: Duration = Duration::from_secs(60);
/// By when the browser must show its page for the first time.
const FIRST_TIMEOUT: Duration = Duration::from_secs(120);

/// A page that counts in its title, from the moment at which it was opened.
const PAGE: &str = "<!doctype html><title>count 0</title><script>let count = 0, opened = Date.now(); \
    setInterval(() => document.title = `count ${++count} of ${opened} end`, 200)</script>";
/// A process that counts in its memory.
const COUNTER: &str = "setsid bash -c 'i=0; while :; do i=$((i+1)); echo $i >/root/count.new; mv /root/count.new /root/count; sleep 0.1; done' \
    >/dev/null 2>&1 </dev/null & echo $! >/root/counter";

/// What the page says: its count and when it was opened.
fn page(windows: &Value) -> Option<(u64, String)> {
    let titles = windows["windows"].as_array()?.iter().filter_map(|window| window["title"].as_str());
    let mut told = titles.filter_map(|title| {
        let (count, rest) = title.strip_prefix("count ")?.split_once(" of ")?;
        Some((count.parse().ok()?, rest.split_once(" end")?.0.to_owned()))
    });
    told.next()
}

/// The page's count once it is above another.
async fn counts(house: &RunningController, id: &str, above: u64, patience: Duration) -> (u64, String) {
    let counted = wait::until(patience, || async {
        page(&house.get(&format!("/computers/{id}/windows")).await.body).filter(|(count, _)| *count > above)
    });
    match counted.await {
        Some(told) => told,
        None => panic!("{}", house.get(&format!("/computers/{id}/windows")).await.body),
    }
}

async fn number(house: &RunningController, id: &str) -> u64 {
    house.bash(id, "cat /root/count").await.trim().parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_rounds_of_sleep_lose_neither_a_page_nor_a_process_nor_a_file() {
    let Some(configuration) = gvisor() else { return };
    let Some(house) = RunningController::boot_full_with(&configuration).await else { return };
    let workspace = house.workspace("demo").await;
    let id = &id_of(&house.computer(&workspace, "one").await);
    house.bash(id, COUNTER).await;
    let open = format!(
        "cat >/root/page.html <<'END'\n{PAGE}\nEND\nDISPLAY=:99 setsid chromium /root/page.html >/dev/null 2>&1 </dev/null &"
    );
    house.bash(id, &open).await;
    let (mut count, opened) = counts(&house, id, 0, FIRST_TIMEOUT).await;
    let processes = "cat /root/counter; cut -d' ' -f22 /proc/1/stat; pgrep -o -x chromium";
    let first = house.bash(id, processes).await;
    let mut written = String::new();
    for round in 1..=ROUNDS {
        let line = format!("round {round}\n");
        house
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
        let before = number(&house, id).await;
        let begun = Instant::now();
        let suspended = house.act(id, "suspend", json!({})).await;
        assert_eq!(
            (suspended.status, &suspended.body["status"]),
            (200, &json!("suspended")),
            "{round}: {}",
            suspended.body
        );
        let suspended = begun.elapsed();
        let bytes: u64 = std::fs::read_dir(house.machine(id).join("memory"))
            .expect("memory")
            .map(|entry| entry.and_then(|entry| entry.metadata()).expect("a file").len())
            .sum();
        let begun = Instant::now();
        let resumed = house.act(id, "resume", json!({})).await;
        assert_eq!(
            (resumed.status, &resumed.body["status"]),
            (200, &json!("running")),
            "{round}: {}",
            resumed.body
        );
        println!("round {round}: {suspended:?}, {} MB, {:?}", bytes / 1_000_000, begun.elapsed());

        // The same page goes on from where it was, and so does the process.
        let (now, same) = counts(&house, id, count, TIMEOUT).await;
        assert_eq!(same, opened, "{round}: the page was opened anew");
        count = now;
        assert!(number(&house, id).await >= before, "{round}: the counter was set back");
        let went_on = wait::until(TIMEOUT, || async { (number(&house, id).await > before).then_some(()) });
        assert!(went_on.await.is_some(), "{round}: the counter stands");
        assert_eq!(house.bash(id, "cat /root/notes; cmp /root/notes /tmp/notes").await, written, "{round}");
    }
    assert_eq!(house.bash(id, processes).await, first, "the same processes");
}
