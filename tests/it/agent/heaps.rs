//! Heaps of the agent's threads, which its idle memory is made of.

use std::fs;

use futures_util::future::join_all;
use serde_json::json;

use crate::harness::agent::RunningAgent;

/// Bytes of a thread's heap, which begins at a multiple of them (`HEAP_MAX_SIZE` in glibc's malloc/arena.c).
const HEAP: u64 = 64 << 20;

/// Heaps of a process beside that of its first thread: a part in use, and a rest that nothing may use yet.
fn thread_heaps(pid: u32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("the process runs");
    let number = |text: &str| u64::from_str_radix(text, 16).expect("an address");
    let mut ranges = Vec::new();
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // One without a name.
        if let [range, mode, _, _, _] = fields[..] {
            let (start, end) = range.split_once('-').expect("a range");
            ranges.push((number(start), number(end), mode));
        }
    }
    let is_heap = |pair: &[(u64, u64, &str)]| {
        let [(start, middle, used), (next, end, rest)] = pair else { return false };
        let whole = start % HEAP == 0 && middle == next && end - start >= HEAP;
        whole && used.starts_with("rw") && rest.starts_with("---")
    };
    ranges.windows(2).filter(|pair| is_heap(pair)).count()
}

#[tokio::test]
async fn threads_share_one_heap_for_each_processor() {
    let agent = RunningAgent::headless().await;
    // They need threads of the runtime, and others for what blocks.
    let answers = join_all((0..8).map(|_| agent.post("/bash", json!({"command": "true"})))).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{:?}", answers[0].body);
    let most = std::thread::available_parallelism().expect("a number").get().max(2);
    let heaps = thread_heaps(agent.pid());
    assert!(heaps < most, "{heaps} heaps and that of the first thread, on {most} processors");
}
