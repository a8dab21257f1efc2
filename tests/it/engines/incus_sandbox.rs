//! Computers under gVisor in Incus instances: memory that is suspended and resumed, forked and kept in snapshots, its loss on
//! request, its move to another member, the volumes with their guest image, and the restart of the controller.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use super::incus::{check_desktop, eventually, lacking_members, move_to, write_tiny_image};
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, image};
use crate::harness::incus_cluster::{IncusCluster, Route};

/// Most megabytes of a new computer on the root of its instance, besides the programs of the launcher. The guest image of the tests
/// has some hundreds.
const MAX_OWN_MEGABYTES: u64 = 100;

/// Begins a counter that is only in the memory of a shell, which writes it to a file in memory.
const COUNT: &str =
    "(i=0; while :; do i=$((i+1)); echo $i >/dev/shm/count; sleep 0.1; done) >/dev/null 2>&1 &";

/// Prints the counter. The shell truncates the file before it writes.
const LOOK: &str = "until c=$(cat /dev/shm/count) && [ -n \"$c\" ]; do sleep 0.1; done; echo $c";

async fn count(controller: &RunningController, id: &str) -> u64 {
    controller.bash(id, LOOK).await.trim().parse().expect("a number")
}

/// Prints what each computer has for itself.
const IDENTITY: &str = "cat /etc/machine-id; ip -o -4 address show eth0 | grep -o 'inet [0-9.]*'; hostname";

/// Asserts that a fork goes on from the memory of a computer, under an identity of its own.
async fn check_fork(controller: &RunningController, id: &str, fork: &str, least: u64) {
    controller.until_status(fork, "running").await;
    let forked = count(controller, fork).await;
    assert!(forked >= least, "the count went from {least} to {forked}");
    let (own, other) = (controller.bash(id, IDENTITY).await, controller.bash(fork, IDENTITY).await);
    assert_eq!((own.lines().count(), other.lines().count()), (3, 3), "{own}{other}");
    for (own, other) in own.lines().zip(other.lines()) {
        assert_ne!(own, other);
    }
    check_desktop(controller, fork).await;
}

/// Takes a snapshot with memory, forks the computer and the snapshot, and rolls the computer back. `/dev/shm` is only in memory.
async fn fork_and_return(controller: &RunningController, id: &str) {
    controller.bash(id, "echo early >/dev/shm/mark; echo early >/root/mark").await;
    let kept = count(controller, id).await;
    let made = controller.act(id, "snapshots", json!({"memory": true})).await;
    assert_eq!((made.status, &made.body["state"]), (201, &json!("ready")), "{}", made.body);
    assert!(made.body["memory"] == true && made.body["size_bytes"].as_u64() > Some(0), "{}", made.body);
    assert!(count(controller, id).await >= kept, "the computer goes on");
    controller.bash(id, "echo late >/dev/shm/mark; echo late >/root/mark").await;

    let snapshot = &made.body["id"];
    for (body, mark) in [(json!({}), "late\nlate\n"), (json!({"snapshot_id": snapshot}), "early\nearly\n")] {
        let forked = controller.act(id, "fork", body).await;
        assert_eq!(forked.status, 201, "{}", forked.body);
        let fork = id_of(&forked.body);
        check_fork(controller, id, &fork, kept).await;
        assert_eq!(controller.bash(&fork, "cat /dev/shm/mark /root/mark").await, mark);
        controller.bash(&fork, "echo of the fork >/root/mark").await;
        // It keeps its memory like any other computer.
        suspend(controller, &fork).await;
        resume(controller, &fork).await;
        assert_eq!(controller.bash(&fork, "cat /root/mark").await, "of the fork\n");
        assert_eq!(controller.delete(&format!("/computers/{fork}")).await.status, 200);
    }
    assert_eq!(controller.bash(id, "cat /dev/shm/mark /root/mark").await, "late\nlate\n");

    for _ in 0..2 {
        let answer = controller.act(id, "rollback", json!({"snapshot_id": snapshot})).await;
        assert_eq!((answer.status, &answer.body["status"]), (200, &json!("running")), "{}", answer.body);
        assert_eq!(controller.bash(id, "cat /dev/shm/mark /root/mark").await, "early\nearly\n");
        assert!(count(controller, id).await >= kept);
        controller.bash(id, "echo late >/dev/shm/mark; echo late >/root/mark").await;
    }
    check_desktop(controller, id).await;
    let path = format!("/computers/{id}/snapshots/{}", snapshot.as_str().expect("an id"));
    assert_eq!(controller.delete(&path).await.status, 200);
}

/// Kills the controller, or the server's daemon, while a snapshot with memory is taken: the computer goes on, and there are only
/// whole snapshots.
async fn interrupt_a_snapshot(cluster: &IncusCluster, controller: &mut RunningController, id: &str) {
    for (kills_daemon, after) in [(false, 700), (false, 2500), (true, 1500)] {
        let before = count(controller, id).await;
        let asked = controller.act(id, "snapshots", json!({"memory": true}));
        let _interrupted = tokio::time::timeout(Duration::from_millis(after), asked).await;
        if kills_daemon {
            cluster.run("kill", &["1"]);
            cluster.run("start", &["1"]);
        }
        controller.kill();
        controller.start_again().await;
        controller.until_status(id, "running").await;
        // The save that was interrupted ends connections of the guest, perhaps that of the first request.
        let counted = eventually(controller, id, LOOK).await;
        assert!(counted.trim().parse::<u64>().expect("a number") > before, "after {after} ms");
        let listed = controller.get(&format!("/computers/{id}/snapshots")).await.body;
        let snapshots = listed["snapshots"].as_array().expect("a list").clone();
        let names =
            cluster.run("incus", &["1", "snapshot", "list", &format!("hd-{id}"), "-f", "csv", "-c", "n"]);
        assert_eq!(names.lines().count(), snapshots.len(), "{names}: {listed}");
        for snapshot in snapshots {
            assert_eq!(snapshot["state"], "ready", "{snapshot}");
            let path = format!("/computers/{id}/snapshots/{}", snapshot["id"].as_str().expect("an id"));
            assert_eq!(controller.delete(&path).await.status, 200);
        }
    }
}

async fn suspend(controller: &RunningController, id: &str) {
    let answer = controller.act(id, "suspend", json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    controller.until_status(id, "suspended").await;
}

async fn resume(controller: &RunningController, id: &str) {
    let answer = controller.act(id, "resume", json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    controller.until_status(id, "running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_under_gvisor_keeps_its_memory_in_its_instance_and_boots_no_damaged_one() {
    let Some(cluster) = IncusCluster::start(1) else { return };
    let Some(configuration) = cluster.sandbox_configuration(Route::Socket) else { return };
    let mut controller = RunningController::boot_with(&configuration).await;
    cluster.publish(&controller);
    let workspace = controller.workspace("demo").await;
    let id = id_of(&controller.computer(&workspace, "one").await);
    assert_eq!(controller.record(&id).await["isolation"], "sandbox");
    check_desktop(&controller, &id).await;
    // gVisor's kernel, with the network of the instance; neither the instance's files nor its launcher are seen.
    let inside = "dmesg | grep -c 'Starting gVisor'; ls -d /hotdesk /base 2>/dev/null; ip -o -4 address show eth0 | grep -c inet";
    assert_eq!(controller.bash(&id, inside).await, "1\n1\n");
    controller.bash(&id, "echo kept >/root/note").await;
    controller.bash(&id, COUNT).await;

    let before = count(&controller, &id).await;
    suspend(&controller, &id).await;
    assert_eq!(cluster.instances("s"), ["STOPPED"]);
    // The next controller finds it suspended.
    controller.restart().await;
    controller.until_status(&id, "suspended").await;
    resume(&controller, &id).await;
    let after = count(&controller, &id).await;
    assert!(after > before, "the count went from {before} to {after}");
    check_desktop(&controller, &id).await;
    assert_eq!(controller.bash(&id, "cat /root/note").await, "kept\n");

    // Each memory is used once, and there is a next one.
    suspend(&controller, &id).await;
    resume(&controller, &id).await;
    assert!(count(&controller, &id).await > after);

    fork_and_return(&controller, &id).await;
    interrupt_a_snapshot(&cluster, &mut controller, &id).await;
    assert_eq!(cluster.instances("n"), [format!("hd-{id}")]);

    // The next controller finds it running, and its programs have run on.
    for kill in [false, true] {
        let before = count(&controller, &id).await;
        if kill {
            controller.kill();
            controller.start_again().await;
        } else {
            controller.restart().await;
        }
        controller.until_status(&id, "running").await;
        assert!(count(&controller, &id).await > before);
    }

    // Damaged memory is not booted. A stop drops the memory; the disk stays.
    suspend(&controller, &id).await;
    let memory = format!("hd-{id}/hotdesk/machine/memory/pages_meta.img");
    cluster.run("incus", &["1", "file", "delete", &memory]);
    let refused = controller.act(&id, "resume", json!({})).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (503, &json!("saved_state_unavailable")),
        "{}",
        refused.body
    );
    controller.until_status(&id, "suspended").await;
    assert_eq!(cluster.instances("s"), ["STOPPED"]);
    assert_eq!(controller.act(&id, "stop", json!({})).await.status, 200);
    controller.until_status(&id, "stopped").await;
    assert_eq!(controller.act(&id, "start", json!({})).await.status, 200);
    controller.until_status(&id, "running").await;
    assert_eq!(controller.bash(&id, "ls /dev/shm/count 2>/dev/null; cat /root/note").await, "kept\n");

    // An instance keeps its isolation, and a shared one stands beside it.
    assert_eq!(controller.act(&id, "stop", json!({})).await.status, 200);
    controller.until_status(&id, "stopped").await;
    let path = format!("/computers/{id}");
    let refused = controller.patch(&path, json!({"isolation": "shared"})).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("isolation_fixed")), "{}", refused.body);
    let body = json!({"workspace_id": workspace, "name": "two", "isolation": "shared"});
    let shared = id_of(&controller.create("/computers", body).await);
    check_desktop(&controller, &shared).await;
    let refused = controller.act(&shared, "suspend", json!({})).await;
    assert_eq!(refused.body["code"], "suspend_unsupported", "{}", refused.body);

    for computer in [&id, &shared] {
        assert_eq!(controller.delete(&format!("/computers/{computer}")).await.status, 200);
    }
    assert_eq!(cluster.instances("n"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_under_gvisor_moves_to_another_member_with_its_memory() {
    let Some(cluster) = IncusCluster::start(2) else { return };
    let Some(configuration) = cluster.sandbox_configuration(Route::Tls) else { return };
    let controller = RunningController::boot_with(&configuration).await;
    let (workspace, image) = (controller.workspace("demo").await, image());
    // Killed while members fetch: nobody labels a volume that is copied meanwhile, and the next publication makes it again.
    let mut publish = cluster.command(&controller, &["image", "publish"], &image);
    let mut publish = publish.stderr(Stdio::piped()).spawn().expect("hotdesk");
    let progress = BufReader::new(publish.stderr.take().expect("a pipe"));
    let reached = progress.lines().map_while(Result::ok).any(|line| line.contains(": fetching"));
    publish.kill().expect("it is killed");
    publish.wait().expect("it ends");
    assert!(reached, "no member fetched");
    cluster.publish(&controller);
    let volumes = cluster.base_volumes();
    let members: Vec<&str> =
        volumes.iter().filter_map(|volume| volume.split_once(',')).map(|it| it.1).collect();
    assert_eq!(members, ["m1", "m2"]);
    let names: Vec<&str> =
        volumes.iter().filter_map(|volume| volume.split_once(',')).map(|it| it.0).collect();
    assert_eq!(names[0], names[1], "a volume has the name of its image");
    assert_eq!(lacking_members(&cluster, &controller, &image), None);

    let record = controller.computer(&workspace, "one").await;
    let id = id_of(&record);
    let other = if record["host"] == "m1" { "m2" } else { "m1" };
    // The guest image is mounted, and no file of it is in the root.
    let instance = format!("hd-{id}");
    let inside =
        |command: &str| cluster.run("incus", &["1", "exec", &instance, "--", "/bin/sh", "-c", command]);
    let mount = inside("grep ' /base ' /proc/self/mountinfo");
    assert!(mount.contains(names[0]) && mount.contains(" ro,"), "{mount}");
    let used = inside("du -sxm --exclude=/hotdesk/stage/agent --exclude=/hotdesk/runsc / | cut -f 1");
    assert!(used.parse::<u64>().is_ok_and(|used| used < MAX_OWN_MEGABYTES), "{used} MB");
    controller.bash(&id, COUNT).await;
    let before = count(&controller, &id).await;

    // A move brings the volume to a member that lost it.
    cluster.run("incus", &["1", "storage", "volume", "delete", "local", names[0], "--target", other]);
    let lacking = lacking_members(&cluster, &controller, &image).expect("a member lacks it");
    assert!(lacking.ends_with(other), "{lacking}");
    move_to(&controller, &id, other).await;
    assert_eq!(cluster.base_volumes(), volumes);
    assert_eq!(cluster.instances("L"), [other]);
    let after = count(&controller, &id).await;
    assert!(after > before, "the count went from {before} to {after}");
    check_desktop(&controller, &id).await;
    // Its memory was used once, and can be saved there.
    suspend(&controller, &id).await;
    resume(&controller, &id).await;
    let kept = count(&controller, &id).await;
    assert!(kept > after);
    // A fork stays on the member of its source.
    let forked = controller.act(&id, "fork", json!({})).await;
    assert_eq!(forked.status, 201, "{}", forked.body);
    let fork = id_of(&forked.body);
    check_fork(&controller, &id, &fork, kept).await;
    assert_eq!(controller.record(&fork).await["host"], other);

    // The next build. The volumes of the earlier one stay on all members while a computer needs them on one.
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_tiny_image(folder.path());
    cluster.hotdesk(&controller, &["image", "publish"], folder.path());
    let prune = || {
        cluster.hotdesk(&controller, &["image", "prune"], folder.path());
        cluster.base_volumes()
    };
    let both = prune();
    assert!(both.len() == 4 && volumes.iter().all(|volume| both.contains(volume)), "{both:?}");
    for computer in [&id, &fork] {
        assert_eq!(controller.delete(&format!("/computers/{computer}")).await.status, 200);
    }
    let left = prune();
    assert!(left.len() == 2 && !volumes.iter().any(|volume| left.contains(volume)), "{left:?}");
}
