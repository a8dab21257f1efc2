//! A computer that fills the host's disk beside others: T20 (docs/security.md).

use std::fs::File;
use std::time::{Duration, Instant};

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::HttpAnswer;
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor, skip_reason};

/// Size of the file system with all computers. Ten times this admits three disks of 8 GiB, and no fourth.
const DISK_MIB: u64 = 3072;
/// Free space when a computer begins to write: the reserve of 512 MiB, and something to write before it.
const SPACE_MIB: u64 = 800;
/// What the writer writes: more than there is space for, less than all that is free without the filler.
const WRITTEN_MIB: u64 = 900;
/// Longest time for a writer to fill the free space, on a slow disk of a busy machine.
const WRITE_TIMEOUT: Duration = Duration::from_secs(90);
/// Longest time of a refusal: the request must not wait for the frozen computer.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);

/// A file that takes space which belongs to no computer.
struct Filler(std::path::PathBuf);

impl Filler {
    /// Leaves `free_mib` free.
    fn leave(controller: &RunningController, free_mib: u64) -> Self {
        let path = controller.data_dir().join("filler");
        let stat = rustix::fs::statvfs(controller.data_dir()).expect("a file system");
        let bytes = (stat.f_bavail * stat.f_frsize).checked_sub(free_mib << 20).expect("less than is free");
        let file = File::create_new(&path).expect("a filler");
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes).expect("space");
        Self(path)
    }

    fn remove(self) {
        std::fs::remove_file(self.0).expect("the filler");
    }
}

/// Waits until the guard has seen how little the filler leaves. It cannot foresee a program that is no computer.
async fn until_seen(controller: &RunningController, free_mib: u64) {
    let seen = wait::until(WRITE_TIMEOUT, || async {
        let metrics = controller.bare(Method::GET, "/metrics").send().await.ok()?.text().await.ok()?;
        let free = metrics.lines().find_map(|line| line.strip_prefix("hotdesk_disk_free_bytes "))?;
        (free.parse::<f64>().ok()? <= ((free_mib + 1) << 20) as f64).then_some(())
    });
    seen.await.expect("the guard sees the filler");
}

async fn launch(controller: &RunningController, id: &str, command: &str) {
    let path = format!("/desktops/{id}/proxy/processes");
    let started = controller.post(&path, json!({ "command": command })).await;
    assert_eq!(started.status, 201, "{}", started.body);
}

/// Writes a file, notes the exit code in memory, and then writes no more.
fn writer(mib: u64) -> String {
    format!("dd if=/dev/zero of=/root/big bs=8M count={} 2>/dev/null; echo $? >/dev/shm/code", mib / 8)
}

/// Writes 2 GiB with a single system call, which a freeze does not end: the memory is one page of zeros, mapped often.
const SINGLE_WRITE: &str = "python3 -c 'import mmap, os; os.write(os.open(\"/root/big\", os.O_CREAT | os.O_WRONLY), \
                            mmap.mmap(-1, 2 << 30, prot=mmap.PROT_READ))'";

/// Appends lines to a log and syncs each; a failure is noted in memory.
const NEIGHBOUR: &str = "while :; do date +%s%N >>/root/log && sync /root/log || echo failed >>/dev/shm/failed; \
                         sleep 0.05; done";

async fn until_frozen(controller: &RunningController, id: &str, frozen: bool) {
    let reason = if frozen { json!("host_disk_full") } else { Value::Null };
    let seen = wait::until(WRITE_TIMEOUT, || async {
        let record = controller.record(id).await;
        assert_eq!(record["status"], "running", "{record}");
        (record["status_reason"] == reason).then_some(())
    });
    assert!(seen.await.is_some(), "frozen must become {frozen}: {}", controller.record(id).await);
}

fn expect_no_capacity(answer: &HttpAnswer, what: &str) {
    assert_eq!(
        (answer.status, &answer.body["code"]),
        (503, &json!("no_capacity")),
        "{what}: {}",
        answer.body
    );
    assert!(
        answer.body["error"].as_str().is_some_and(|text| text.contains("disk space")),
        "{what}: {}",
        answer.body
    );
}

/// Waits until the neighbour has written some more lines, none of which failed.
async fn expect_progress(controller: &RunningController, neighbour: &str) {
    let lines =
        async || controller.bash(neighbour, "wc -l </root/log").await.trim().parse::<u64>().unwrap_or(0);
    let before = lines().await;
    let more = wait::until(WRITE_TIMEOUT, || async { (lines().await >= before + 10).then_some(()) });
    assert!(more.await.is_some(), "the neighbour writes no more");
    let failed = controller.bash(neighbour, "cat /dev/shm/failed 2>/dev/null; true").await;
    assert_eq!(failed, "", "a write of the neighbour failed");
    assert_eq!(controller.record(neighbour).await["status_reason"], Value::Null);
}

/// Waits until the writer of a computer has written everything.
async fn expect_written(controller: &RunningController, id: &str) {
    let path = format!("/computers/{id}/bash");
    let code = wait::until(WRITE_TIMEOUT, || async {
        let ran = controller.post(&path, json!({ "command": "cat /dev/shm/code" })).await;
        (ran.status == 200 && ran.body["output"] == "0\n").then_some(())
    });
    assert!(code.await.is_some(), "the writer must end without an error");
}

async fn computer(controller: &RunningController, workspace: &str, name: &str) -> String {
    id_of(&controller.computer(workspace, name).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_a_computer_that_fills_the_host_is_frozen_and_its_neighbours_see_no_error() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let mut controller = RunningController::boot_on_disk(DISK_MIB).await;
    let workspace = controller.workspace("w").await;
    let hungry = computer(&controller, &workspace, "hungry").await;
    let neighbour = computer(&controller, &workspace, "neighbour").await;
    let idle = computer(&controller, &workspace, "idle").await;
    launch(&controller, &neighbour, NEIGHBOUR).await;
    let filler = Filler::leave(&controller, SPACE_MIB);
    until_seen(&controller, SPACE_MIB).await;
    launch(&controller, &hungry, &writer(WRITTEN_MIB)).await;

    until_frozen(&controller, &hungry, true).await;
    let asked = Instant::now();
    let refused = controller.post(&format!("/computers/{hungry}/bash"), json!({ "command": "true" })).await;
    expect_no_capacity(&refused, "an action");
    assert!(asked.elapsed() < REFUSAL_TIMEOUT, "{:?}", asked.elapsed());
    let create = json!({ "workspace_id": workspace, "name": "another" });
    expect_no_capacity(&controller.post("/computers", create).await, "a create");
    expect_progress(&controller, &neighbour).await;

    // A controller that is killed meanwhile leaves nothing frozen for ever: the next one decides anew.
    controller.kill();
    controller.start_again().await;
    until_frozen(&controller, &hungry, true).await;
    expect_progress(&controller, &neighbour).await;
    controller.bash(&idle, "echo here >/root/here && sync /root/here").await;

    // With space again the writer continues, and sees no error either.
    filler.remove();
    expect_written(&controller, &hungry).await;
    until_frozen(&controller, &hungry, false).await;

    // A frozen computer can be stopped and deleted.
    controller.bash(&hungry, "rm /root/big && sync").await;
    let filler = Filler::leave(&controller, SPACE_MIB);
    until_seen(&controller, SPACE_MIB).await;
    launch(&controller, &hungry, &writer(WRITTEN_MIB)).await;
    until_frozen(&controller, &hungry, true).await;
    let stopped = controller.post(&format!("/computers/{hungry}/stop"), json!({})).await;
    assert_eq!(stopped.status, 200, "{}", stopped.body);
    controller.until_status(&hungry, "stopped").await;
    let deleted = controller.delete(&format!("/computers/{hungry}")).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    expect_progress(&controller, &neighbour).await;
    filler.remove();

    // What grows in spite of the freeze is killed before it takes the last bytes.
    let greedy = computer(&controller, &workspace, "greedy").await;
    let filler = Filler::leave(&controller, SPACE_MIB);
    until_seen(&controller, SPACE_MIB).await;
    launch(&controller, &greedy, SINGLE_WRITE).await;
    controller.until_status(&greedy, "stopped").await;
    assert_eq!(controller.record(&greedy).await["status_reason"], "host_disk_full");
    expect_progress(&controller, &neighbour).await;
    assert_eq!(
        controller.bash(&idle, "cat /root/here; echo there >/root/there && sync && echo ok").await,
        "here\nok\n"
    );
    filler.remove();
}

#[tokio::test(flavor = "multi_thread")]
async fn t20_a_guest_with_a_kernel_of_its_own_is_frozen_too() {
    let Some(configuration) = gvisor() else { return };
    let controller = RunningController::boot_on_disk_with(DISK_MIB, &configuration).await;
    let workspace = controller.workspace("w").await;
    let hungry = computer(&controller, &workspace, "hungry").await;
    let filler = Filler::leave(&controller, SPACE_MIB);
    until_seen(&controller, SPACE_MIB).await;
    launch(&controller, &hungry, &writer(WRITTEN_MIB)).await;
    until_frozen(&controller, &hungry, true).await;
    for verb in ["suspend", "snapshots"] {
        let refused = controller.post(&format!("/computers/{hungry}/{verb}"), json!({})).await;
        expect_no_capacity(&refused, verb);
    }
    filler.remove();
    expect_written(&controller, &hungry).await;
}
