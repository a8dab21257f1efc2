//! Computers as Incus instances, of one server and of a cluster, through a controller.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use hotdesk::base::wait;
use serde_json::{Value, json};

use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, image};
use crate::harness::incus_cluster::{IncusCluster, Route};
use crate::harness::picture;

/// Longest time until a member that starts again serves its instances, on a busy machine.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(90);
/// Longest move of a computer to another member: its whole disk is sent, on a busy machine.
const MOVE_TIMEOUT: Duration = Duration::from_secs(240);
/// Longest time until the end of a computer shows in its status.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time until a status says that the host of a computer does not answer: what docs/engines/incus.md promises.
const OUTAGE_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time until a replica is made: the first copy sends a whole disk, on a busy machine.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(400);
/// Longest time until a cluster counts a member as offline whose network is cut.
const OFFLINE_TIMEOUT: Duration = Duration::from_secs(120);

/// Uses the screen of a computer.
pub(super) async fn check_desktop(controller: &RunningController, id: &str) {
    let clicked = controller.act(id, "click", json!({"x": 640, "y": 360})).await;
    assert_eq!(clicked.status, 200, "{}", clicked.body);
    let path = format!("/computers/{id}/screenshot?response_format=binary");
    let shot = controller.request(reqwest::Method::GET, &path).send().await.expect("an answer");
    assert_eq!(shot.status(), 200);
    assert_eq!(picture::size(&shot.bytes().await.expect("a picture")), (1280, 720));
}

/// Waits until a command runs on a computer, and returns its output.
pub(super) async fn eventually(controller: &RunningController, id: &str, command: &str) -> String {
    let answered = wait::until(RECOVERY_TIMEOUT, || async {
        let ran = controller.post(&format!("/computers/{id}/bash"), json!({ "command": command })).await;
        (ran.status == 200).then(|| ran.body["output"].as_str().expect("output").to_owned())
    });
    answered.await.expect("the computer answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_on_a_server_is_used_stopped_adopted_copied_and_removed() {
    let Some(cluster) = IncusCluster::start(1) else { return };
    let mut controller = RunningController::boot_with(&cluster.configuration(Route::Socket)).await;
    let workspace = controller.workspace("demo").await;
    // Without its image no computer is made, and nothing is left of the attempt.
    let early = controller.post("/computers", json!({"workspace_id": workspace, "name": "early"})).await;
    assert!(early.status >= 500, "{}", early.body);
    assert_eq!(cluster.instances("n"), Vec::<String>::new());
    cluster.publish(&controller);
    cluster.publish(&controller);

    let id = id_of(&controller.computer(&workspace, "one").await);
    assert_eq!(cluster.instances("n"), [format!("hd-{id}")]);
    check_desktop(&controller, &id).await;
    assert_eq!(controller.bash(&id, "hostname; id -u").await, format!("hotdesk-{}\n0\n", &id[..8]));
    controller.bash(&id, "echo kept >/root/note; sync").await;
    // Each request has a connection of its own, and all of them share one exec.
    join_all((0..8).map(|_| check_desktop(&controller, &id))).await;
    // The labels and the server's socket are not the guest's.
    let inside = controller.bash(&id, "ls /dev/incus 2>/dev/null; grep -c '' /proc/self/uid_map").await;
    assert_eq!(inside.trim(), "1");

    // Its process 1 ends when it is asked to, before the grace is over.
    assert_eq!(controller.act(&id, "stop", json!({})).await.status, 200);
    controller.until_status(&id, "stopped").await;
    assert_eq!(cluster.instances("s"), ["STOPPED"]);
    assert_eq!(controller.act(&id, "start", json!({})).await.status, 200);
    controller.until_status(&id, "running").await;
    assert_eq!(controller.bash(&id, "cat /root/note").await, "kept\n");

    // The next controller finds it, and its programs have run on.
    let since = controller.bash(&id, "stat -c %Y /proc/1").await;
    for kill in [false, true] {
        if kill {
            controller.kill();
            controller.start_again().await;
        } else {
            controller.restart().await;
        }
        controller.until_status(&id, "running").await;
        assert_eq!(controller.bash(&id, "stat -c %Y /proc/1").await, since);
    }
    check_desktop(&controller, &id).await;

    // The daemon of the server dies. The computer runs on, and is reached again once there is a daemon.
    cluster.run("kill", &["1"]);
    cluster.run("start", &["1"]);
    assert_eq!(eventually(&controller, &id, "stat -c %Y /proc/1").await, since);
    assert_eq!(controller.record(&id).await["status"], "running");

    // A computer that ends by itself is noticed.
    let ended = controller.post(&format!("/computers/{id}/bash"), json!({"command": "kill -TERM 1"})).await;
    let stopped = tokio::time::timeout(END_TIMEOUT, controller.until_status(&id, "stopped")).await;
    assert!(stopped.is_ok(), "{}", ended.body);

    assert_eq!(controller.delete(&format!("/computers/{id}")).await.status, 200);
    assert_eq!(cluster.instances("n"), Vec::<String>::new());
    check_copies(&cluster, &controller, &workspace).await;
}

/// Clones, snapshots and resizes of a computer, and what is refused.
async fn check_copies(cluster: &IncusCluster, controller: &RunningController, workspace: &str) {
    let id = id_of(&controller.computer(workspace, "two").await);
    controller.bash(&id, "echo early >/root/note").await;
    let made = controller.act(&id, "snapshots", json!({"memory": false})).await;
    assert_eq!((made.status, &made.body["state"]), (201, &json!("ready")), "{}", made.body);
    controller.bash(&id, "echo late >/root/note").await;

    let cloned = controller.act(&id, "clone", json!({})).await;
    assert_eq!(cloned.status, 201, "{}", cloned.body);
    let clone = id_of(&cloned.body);
    controller.until_status(&clone, "running").await;
    assert_eq!(controller.bash(&clone, "cat /root/note").await, "late\n");
    let identity = "cat /etc/machine-id; ip -o -4 address show eth0 | grep -o 'inet [0-9.]*'; hostname";
    let (first, second) = (controller.bash(&id, identity).await, controller.bash(&clone, identity).await);
    for (own, other) in first.lines().zip(second.lines()) {
        assert_ne!(own, other, "{first}{second}");
    }
    controller.bash(&clone, "echo of the clone >/root/note").await;

    let answer = controller.act(&id, "rollback", json!({"snapshot_id": made.body["id"]})).await;
    assert_eq!((answer.status, &answer.body["status"]), (200, &json!("running")), "{}", answer.body);
    assert_eq!(controller.bash(&id, "cat /root/note").await, "early\n");
    assert_eq!(controller.bash(&clone, "cat /root/note").await, "of the clone\n");

    let body = json!({"vcpus": 2, "mem_gb": 8});
    let resized = controller.act(&id, "resize", body).await;
    assert_eq!((resized.status, &resized.body["restarted"]), (200, &json!(false)), "{}", resized.body);

    // What instances cannot do is refused with its reason.
    let refused = controller.act(&id, "suspend", json!({})).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (400, &json!("suspend_unsupported")),
        "{}",
        refused.body
    );
    let refused = controller.act(&id, "snapshots", json!({"memory": true})).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (400, &json!("snapshot_unsupported")),
        "{}",
        refused.body
    );

    for computer in [&id, &clone] {
        assert_eq!(controller.delete(&format!("/computers/{computer}")).await.status, 200);
    }
    assert_eq!(cluster.instances("n"), Vec::<String>::new());
}

/// An image with one file, which is another build than that of the tests.
pub(super) fn write_tiny_image(folder: &Path) {
    std::fs::create_dir_all(folder.join("rootfs/usr/bin")).expect("a folder");
    std::fs::write(folder.join("rootfs/usr/bin/true"), "").expect("a file");
    std::fs::write(folder.join("image.json"), r#"{"size_bytes":4096}"#).expect("a record");
}

/// The members that lack the image, as `hotdesk doctor` finds; `None` when none does.
pub(super) fn lacking_members(
    cluster: &IncusCluster,
    controller: &RunningController,
    image: &Path,
) -> Option<String> {
    let (report, _) = cluster.hotdesk(controller, &["doctor", "--json"], image);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    let finding = findings.iter().find(|it| it["what"] == "image on each member").expect("a finding");
    assert_eq!(finding["optional"], true);
    (finding["ok"] == false).then(|| finding["detail"].as_str().expect("a detail").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn computers_of_a_cluster_move_and_outlive_daemons_and_members() {
    let Some(cluster) = IncusCluster::start(3) else { return };
    // One after another: a cluster and a publication take most of the time of each.
    check_publications(&cluster).await;
    let mut controller = RunningController::boot_with(&cluster.configuration(Route::Tls)).await;
    cluster.publish(&controller);
    let workspace = controller.workspace("demo").await;
    check_daemons(&cluster, &controller, &workspace).await;
    check_moves(&cluster, &mut controller, &workspace).await;
    check_dead_members(&cluster, &mut controller, &workspace).await;
}

/// Makes a token for a new member, which the client of Incus lists in the same form.
fn check_join_token(cluster: &IncusCluster, controller: &RunningController, image: &Path) {
    let words = ["hosts", "add", "m9", "--address", "10.0.0.9", "--json"];
    let (added, _) = cluster.hotdesk(controller, &words, image);
    let added: Value = serde_json::from_str(&added).expect("JSON");
    let token = added["token"].as_str().expect("a token");
    let listed = cluster.run("incus", &["1", "cluster", "list-tokens", "-f", "csv"]);
    assert!(listed.starts_with("m9,") && listed.contains(token), "the token is not that of Incus");
    assert!(
        added["command"].as_str().is_some_and(|command| command.contains(token)),
        "no token in the command"
    );
    let refused = cluster.command(controller, &["hosts", "add", "m1"], image).output().expect("hotdesk");
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("has a member m1"), "{text}");
    cluster.run("incus", &["1", "cluster", "revoke-token", "m9"]);
}

/// An image reaches each member once, whatever is killed, and goes when nothing needs it.
async fn check_publications(cluster: &IncusCluster) {
    let controller = RunningController::boot_with(&cluster.configuration(Route::Socket)).await;
    let image = image();
    // Killed while the archive is sent, and while members fetch.
    for mark in ["uploading", ": fetching"] {
        let mut publish = cluster.command(&controller, &["image", "publish"], &image);
        let mut publish = publish.stderr(Stdio::piped()).spawn().expect("hotdesk");
        let progress = BufReader::new(publish.stderr.take().expect("a pipe"));
        let reached = progress.lines().map_while(Result::ok).any(|line| line.contains(mark));
        publish.kill().expect("it is killed");
        publish.wait().expect("it ends");
        assert!(reached, "{mark}");
    }
    let (published, _) = cluster.hotdesk(&controller, &["image", "publish", "--json"], &image);
    let published: Value = serde_json::from_str(&published).expect("JSON");
    let members = published["members"].as_array().expect("members");
    assert_eq!(members.len(), 3, "{published}");
    assert!(members.iter().all(|it| it["image"] == "fetched" || it["image"] == "existing"), "{published}");
    assert_eq!(cluster.image_members(), ["m1", "m2", "m3"]);
    // Nothing is left of the members' instances, and of the archives.
    assert_eq!(cluster.instances("n"), Vec::<String>::new());
    let scratch = controller.data_dir().join("incus/publication");
    assert_eq!(std::fs::read_dir(scratch).expect("the folder").count(), 0);
    assert_eq!(lacking_members(cluster, &controller, &image), None);
    check_join_token(cluster, &controller, &image);

    // A member that lost it is named, and is the only one that fetches.
    let fingerprint = published["fingerprint"].as_str().expect("a fingerprint");
    let volume = format!("image/{fingerprint}");
    cluster.run("incus", &["1", "storage", "volume", "delete", "local", &volume, "--target", "m3"]);
    let lacking = lacking_members(cluster, &controller, &image).expect("a member lacks it");
    assert!(lacking.ends_with("m3") && !lacking.contains("m1"), "{lacking}");
    let (_, progress) = cluster.hotdesk(&controller, &["image", "publish"], &image);
    let fetched: Vec<&str> = progress.lines().filter(|line| line.contains("fetched")).collect();
    assert_eq!(fetched, ["m3: fetched the image"], "{progress}");
    assert_eq!(cluster.image_members(), ["m1", "m2", "m3"]);

    // The next build. The earlier one stays while a computer began from it.
    let workspace = controller.workspace("demo").await;
    let id = id_of(&controller.computer(&workspace, "one").await);
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_tiny_image(folder.path());
    cluster.hotdesk(&controller, &["image", "publish"], folder.path());
    assert_eq!(cluster.image_members().len(), 6);
    let prune = || {
        let (pruned, _) = cluster.hotdesk(&controller, &["image", "prune", "--json"], folder.path());
        let pruned: Value = serde_json::from_str(&pruned).expect("JSON");
        let pruned = pruned["images"].as_array().expect("images").clone();
        let earlier = pruned.into_iter().find(|it| it["fingerprint"] == fingerprint);
        earlier.expect("the earlier image")["removed"] == true
    };
    assert_eq!(controller.act(&id, "stop", json!({})).await.status, 200);
    assert!(!prune());
    assert_eq!(controller.delete(&format!("/computers/{id}")).await.status, 200);
    assert!(prune());
    assert_eq!(cluster.image_members(), ["m1", "m2", "m3"]);
    assert_eq!(cluster.run("incus", &["1", "image", "list", "-f", "csv", "-c", "f"]).lines().count(), 1);
}

/// Computers are reached through one member, and outlive the daemons.
async fn check_daemons(cluster: &IncusCluster, controller: &RunningController, workspace: &str) {
    let mut ids = Vec::new();
    for name in ["one", "two", "three"] {
        ids.push(id_of(&controller.computer(workspace, name).await));
    }
    let mut members = cluster.instances("L");
    members.sort();
    assert_eq!(members, ["m1", "m2", "m3"], "the server spreads its instances");
    for id in &ids {
        check_desktop(controller, id).await;
    }
    let since: Vec<String> = {
        let mut all = Vec::new();
        for id in &ids {
            all.push(controller.bash(id, "stat -c %Y /proc/1").await);
        }
        all
    };
    // The bytes of computers on other members do not pass through the first one, which only began their execs.
    let mut remote = Vec::new();
    for (id, since) in ids.iter().zip(&since) {
        if controller.record(id).await["host"] != "m1" {
            remote.push((id, since));
        }
    }
    assert_eq!(remote.len(), 2);
    cluster.run("kill", &["1"]);
    for (id, since) in remote {
        assert_eq!(&controller.bash(id, "stat -c %Y /proc/1").await, since);
    }
    cluster.run("start", &["1"]);
    cluster.run("kill", &["2"]);
    cluster.run("start", &["2"]);
    for (id, since) in ids.iter().zip(&since) {
        assert_eq!(&eventually(controller, id, "stat -c %Y /proc/1").await, since);
        assert_eq!(controller.record(id).await["status"], Value::from("running"));
    }
    // Its computers answer before the controller counts the member as online again.
    until_online(controller).await;
    for id in &ids {
        assert_eq!(controller.delete(&format!("/computers/{id}")).await.status, 200);
    }
    assert_eq!(cluster.instances("n"), Vec::<String>::new());
}

/// Waits until all members are online, and returns the list of hosts.
async fn until_online(controller: &RunningController) -> Value {
    let online = wait::until(RECOVERY_TIMEOUT, || async {
        let listed = controller.get("/operator/hosts").await.body;
        let is_online = |host: &Value| host["status"] == "online";
        listed["hosts"].as_array().expect("a list").iter().all(is_online).then_some(listed)
    });
    online.await.expect("all members are online")
}

/// Waits until the record of a computer is as expected.
async fn record_until(
    controller: &RunningController,
    id: &str,
    timeout: Duration,
    is_so: impl Fn(&Value) -> bool,
) -> Value {
    let found = wait::until(timeout, || async {
        let record = controller.record(id).await;
        is_so(&record).then_some(record)
    });
    match found.await {
        Some(record) => record,
        None => panic!("{}", controller.record(id).await),
    }
}

/// Moves a computer to another member, and waits until it runs there.
pub(super) async fn move_to(controller: &RunningController, id: &str, member: &str) {
    let path = format!("/operator/computers/{id}/move");
    let moved = controller.post(&path, json!({ "host": member })).await;
    assert_eq!(moved.status, 200, "{}", moved.body);
    until_on(controller, id, |host| host == member).await;
}

/// Waits until a computer runs on a member that fits, and returns the member.
async fn until_on(controller: &RunningController, id: &str, fits: impl Fn(&str) -> bool) -> String {
    let reached = wait::until(MOVE_TIMEOUT, || async {
        let record = controller.record(id).await;
        let host = record["host"].as_str().unwrap_or_default().to_owned();
        (record["status"] == "running" && fits(&host)).then_some(host)
    });
    match reached.await {
        Some(host) => host,
        None => panic!("{}", controller.record(id).await),
    }
}

/// Computers move to other members, and a drain empties one.
async fn check_moves(cluster: &IncusCluster, controller: &mut RunningController, workspace: &str) {
    let listed = until_online(controller).await;
    for host in listed["hosts"].as_array().expect("a list") {
        assert!(host["memory_mb"].as_u64() > Some(0) && host["disk_mb"].as_u64() > Some(0), "{host}");
    }
    let (one, two) =
        (controller.computer(workspace, "one").await, controller.computer(workspace, "two").await);
    let hosts = [&one, &two].map(|record| record["host"].as_str().expect("a host").to_owned());
    assert_ne!(hosts[0], hosts[1], "the controller spreads its computers");
    let mut members = cluster.instances("L");
    members.sort();
    let mut expected = hosts.to_vec();
    expected.sort();
    assert_eq!(members, expected);
    // A computer that runs keeps its disk, and runs again.
    let (one, two) = (id_of(&one), id_of(&two));
    controller.bash(&one, "echo kept >/root/note; sync").await;
    let free = ["m1", "m2", "m3"].into_iter().find(|member| !hosts.iter().any(|host| host == member));
    let free = free.expect("a member without computers");
    move_to(controller, &one, free).await;
    assert_eq!(controller.bash(&one, "cat /root/note").await, "kept\n");
    check_desktop(controller, &one).await;
    assert!(cluster.instances("L").iter().any(|member| member == free));

    // A drain empties the member, and it gets no computers.
    let drained = controller.post(&format!("/operator/hosts/{free}/drain"), json!({})).await;
    assert_eq!(drained.status, 200, "{}", drained.body);
    until_on(controller, &one, |host| host != free).await;
    let empty = wait::until(MOVE_TIMEOUT, || async {
        let listed = controller.get("/operator/hosts").await.body;
        let hosts = listed["hosts"].as_array().cloned().unwrap_or_default();
        hosts.iter().any(|host| host["name"] == free && host["status"] == "drained").then_some(())
    });
    assert!(empty.await.is_some(), "{}", controller.get("/operator/hosts").await.body);
    assert!(!cluster.instances("L").iter().any(|member| member == free));
    assert_eq!(controller.bash(&one, "cat /root/note").await, "kept\n");
    let three = controller.computer(workspace, "three").await;
    assert_ne!(three["host"], free);
    let restored = controller.post(&format!("/operator/hosts/{free}/restore"), json!({})).await;
    assert_eq!((restored.status, &restored.body["status"]), (200, &json!("online")), "{}", restored.body);

    // The copy of a move whose source was lost before the last step gets the name of the machine.
    assert_eq!(controller.act(&one, "stop", json!({})).await.status, 200);
    controller.until_status(&one, "stopped").await;
    let name = format!("hd-{one}");
    cluster.run("incus", &["1", "config", "set", &name, "user.hotdesk.moving=m1"]);
    cluster.run("incus", &["1", "rename", &name, "move-of-1"]);
    controller.restart().await;
    assert_eq!(controller.act(&one, "start", json!({})).await.status, 200);
    controller.until_status(&one, "running").await;
    assert_eq!(controller.bash(&one, "cat /root/note").await, "kept\n");
    assert!(cluster.instances("n").contains(&name));

    for id in [one, two, id_of(&three)] {
        assert_eq!(controller.delete(&format!("/computers/{id}")).await.status, 200);
    }
    assert_eq!(cluster.instances("n"), Vec::<String>::new());
}

/// A computer of a dead member begins from its replica once the operator confirms it. One member is removed from the cluster.
async fn check_dead_members(cluster: &IncusCluster, controller: &mut RunningController, workspace: &str) {
    until_online(controller).await;
    let mut ids = Vec::new();
    for name in ["one", "two", "three"] {
        ids.push(id_of(&controller.computer(workspace, name).await));
    }
    let placed = cluster.instances("nL");
    let victim = placed.iter().find_map(|line| line.strip_prefix("hd-")?.strip_suffix(",m2"));
    let id = victim.expect("the server spreads its instances").to_owned();
    let path = format!("/computers/{id}");
    controller.bash(&id, "echo early >/root/note; sync").await;
    let wanted = json!({"replicate": {"interval_minutes": 600}});
    let changed = controller.patch(&path, wanted).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    let record = record_until(controller, &id, REPLICA_TIMEOUT, |it| it["replica"].is_object()).await;
    assert_ne!(record["replica"]["host"], "m2");
    assert!(cluster.instances("n").contains(&format!("hr-{id}-1")));
    controller.bash(&id, "echo late >/root/note; sync").await;

    cluster.run("kill", &["2"]);
    cluster.run("cut", &["2"]);
    let record =
        record_until(controller, &id, OUTAGE_TIMEOUT, |it| it["status_reason"] == "host_unreachable").await;
    assert_eq!(record["status"], "running");
    assert!(record["status_message"].as_str().is_some_and(|it| it.contains("m2")), "{record}");
    for other in ids.iter().filter(|other| **other != id) {
        record_until(controller, other, RECOVERY_TIMEOUT, |it| it["status_message"].is_null()).await;
        check_desktop(controller, other).await;
    }
    let early = controller.act(&id, "restart", json!({})).await;
    assert_eq!((early.status, &early.body["code"]), (503, &json!("host_unreachable")), "{}", early.body);
    let confirmed = wait::until(OFFLINE_TIMEOUT, || async {
        let answer = controller.post("/operator/hosts/m2/gone", json!({"confirm": "m2"})).await;
        // Until its cluster counts it as offline.
        assert!([200, 409].contains(&answer.status), "{}", answer.body);
        (answer.status == 200).then_some(answer.body)
    });
    let confirmed = confirmed.await.expect("the member becomes offline");
    assert_eq!((&confirmed["computers"], &confirmed["with_replica"]), (&json!(1), &json!(1)));
    record_until(controller, &id, END_TIMEOUT, |it| it["status"] == "stopped").await;
    let started = controller.act(&id, "start", json!({})).await;
    assert_eq!(started.status, 200, "{}", started.body);
    controller.until_status(&id, "running").await;
    assert_eq!(controller.bash(&id, "cat /root/note").await, "early\n");
    check_desktop(controller, &id).await;
    let record = controller.record(&id).await;
    assert_eq!(record["recovered"]["from"], "m2", "{record}");
    let since = controller.bash(&id, "stat -c %Y /proc/1").await;

    // The member returns, and the original has run on there. It is stopped, and the computer stays the new one.
    cluster.run("heal", &["2"]);
    cluster.run("start", &["2"]);
    let stopped = format!("hd-{id},STOPPED");
    let fenced =
        wait::until(RECOVERY_TIMEOUT, || async { cluster.instances("ns").contains(&stopped).then_some(()) });
    assert!(fenced.await.is_some(), "the original runs: {:?}", cluster.instances("ns"));
    assert_eq!(controller.bash(&id, "stat -c %Y /proc/1").await, since);
    controller.restart().await;
    controller.until_status(&id, "running").await;
    assert_eq!(controller.bash(&id, "stat -c %Y /proc/1; cat /root/note").await, format!("{since}early\n"));
    let states = cluster.instances("ns");
    assert!(states.contains(&stopped), "nothing started it: {states:?}");

    // It gets a new replica.
    let record = record_until(controller, &id, REPLICA_TIMEOUT, |it| it["replica"].is_object()).await;

    // Its next host dies, too, and is removed before anybody confirms that it is gone.
    let doomed = if record["replica"]["host"] == "m2" { "m3" } else { "m2" };
    move_to(controller, &id, doomed).await;
    cluster.run("kill", &[&doomed[1..]]);
    cluster.run("cut", &[&doomed[1..]]);
    record_until(controller, &id, OUTAGE_TIMEOUT, |it| it["status_reason"] == "host_unreachable").await;
    let member = format!("/1.0/cluster/members/{doomed}?force=1");
    cluster.run("incus", &["1", "query", "--request", "DELETE", &member]);
    let is_removed =
        |it: &Value| it["status_message"].as_str().is_some_and(|text| text.contains("was removed"));
    let record = record_until(controller, &id, RECOVERY_TIMEOUT, is_removed).await;
    assert_eq!(record["status"], "running", "{record}");
    // The next controller knows it from the replica alone.
    controller.restart().await;
    record_until(controller, &id, RECOVERY_TIMEOUT, is_removed).await;
    let gone = format!("/operator/hosts/{doomed}/gone");
    let confirmed = controller.post(&gone, json!({"confirm": doomed})).await;
    assert_eq!((confirmed.status, &confirmed.body["with_replica"]), (200, &json!(1)), "{}", confirmed.body);
    record_until(controller, &id, END_TIMEOUT, |it| it["status"] == "stopped").await;
    let started = controller.act(&id, "start", json!({})).await;
    assert_eq!(started.status, 200, "{}", started.body);
    controller.until_status(&id, "running").await;
    assert_eq!(controller.bash(&id, "cat /root/note").await, "early\n");

    assert_eq!(controller.record(&id).await["recovered"]["from"], doomed);
    record_until(controller, &id, REPLICA_TIMEOUT, |it| it["replica"].is_object()).await;

    // Everything goes with the computers, also the replica.
    for id in &ids {
        assert_eq!(controller.delete(&format!("/computers/{id}")).await.status, 200);
    }
    assert_eq!(cluster.instances("n"), Vec::<String>::new());
}
