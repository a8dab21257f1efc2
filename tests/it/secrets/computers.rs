//! Encryption of computers on the host (`encryption.computers`): what a copy of the host's disk shows. D14
//! (docs/security.md).

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;

use crate::engines::qemu::qemu_skip_reason;
use crate::engines::qemu_desktop;
use crate::harness::caller::{fetch_json, id_of};
use crate::harness::capability::Capability;
use crate::harness::controller::{
    RunningController, command_of, encryption_skip, gvisor, runsc, skip_reason,
};
use crate::harness::host_helper::USER;
use crate::harness::program::program;

/// Size of the file system with the computers, their snapshots and copies.
const DISK_MIB: u64 = 3072;

/// Halves of the texts that are sought, so that no request contains one.
const ON_DISK: [&str; 2] = ["only-on-the-disk", "-of-a-computer-9c1f"];
const IN_MEMORY: [&str; 2] = ["only-in-the-memory", "-of-a-computer-7d3a"];

/// Files with these texts in a computer: on its disk, and in its memory.
const DISK_FILE: &str = "/root/mark";
const MEMORY_FILE: &str = "/dev/shm/mark";
/// Lines of each file.
const LINES: u64 = 2000;

/// A controller on a file system that can encrypt, with its key file elsewhere.
struct EncryptedScene {
    controller: RunningController,
    workspace: String,
    id: String,
    has_memory: bool,
    is_encrypted: bool,
    keys: TempDir,
}

impl EncryptedScene {
    async fn boot(configuration: &str, encrypt: bool, has_memory: bool) -> Self {
        let keys = tempfile::tempdir().expect("a folder");
        let key_file = keys.path().join("key");
        let configuration = format!(
            "{configuration}\n[secrets]\nkey_file = {key_file:?}\n[encryption]\ncomputers = {encrypt}\n"
        );
        let controller = RunningController::boot_on_encrypting_disk(DISK_MIB, &configuration).await;
        let workspace = controller.workspace("demo").await;
        let id = id_of(&controller.computer(&workspace, "one").await);
        let scene = Self { controller, workspace, id, has_memory, is_encrypted: encrypt, keys };
        scene.write_marks().await;
        scene
    }

    /// Writes one mark to the computer's disk, and another to a file in its memory and to `/root/.env`, as a secret.
    async fn write_marks(&self) {
        for ([first, second], path) in [(ON_DISK, DISK_FILE), (IN_MEMORY, MEMORY_FILE)] {
            let lines =
                format!("a={first}; for i in $(seq {LINES}); do echo $a{second} $i; done >{path}; sync");
            self.controller.bash(&self.id, &lines).await;
        }
        let secret = json!({ "value": IN_MEMORY.concat() });
        let stored = fetch_json(self.controller.request(Method::PUT, "/secrets/MARK").json(&secret)).await;
        assert_eq!(stored.status, 200, "{}", stored.body);
        let synced = self.controller.act(&self.id, "secrets/sync", json!({})).await;
        assert_eq!(synced.status, 200, "{}", synced.body);
    }

    async fn assert_mark(&self, id: &str, [first, second]: [&str; 2], path: &str) {
        let counted = self.controller.bash(id, &format!("grep -c {first}{second} {path}")).await;
        assert_eq!(counted.trim(), LINES.to_string(), "{path}");
    }

    /// Asserts that a computer has its disk, and its memory where that was saved.
    async fn assert_marks(&self, id: &str) {
        self.assert_mark(id, ON_DISK, DISK_FILE).await;
        if self.has_memory {
            self.assert_mark(id, IN_MEMORY, MEMORY_FILE).await;
        }
    }

    async fn snapshot(&self, memory: bool) -> String {
        let body = json!({ "name": if memory { "memory" } else { "disk" }, "memory": memory });
        let path = format!("/computers/{}/snapshots", self.id);
        let mut made = self.controller.post(&path, body.clone()).await;
        // A snapshot does not wait for the picture of a busy computer: then it is taken again.
        for _ in 0..4 {
            assert_eq!(made.status, 201, "{}", made.body);
            if self.is_encrypted || made.body["has_picture"] == true {
                break;
            }
            let removed = self.controller.delete(&format!("{path}/{}", id_of(&made.body))).await;
            assert!(removed.status < 300, "{}", removed.body);
            made = self.controller.post(&path, body.clone()).await;
        }
        // Pictures are blobs, which are not encrypted.
        assert_eq!(made.body["has_picture"], json!(!self.is_encrypted), "{}", made.body);
        assert_eq!(self.controller.blobs("snapshot-pictures").is_empty(), self.is_encrypted);
        id_of(&made.body)
    }

    /// Suspends the computer, or stops it where it has no memory to save.
    async fn rest(&self, id: &str) {
        let (verb, status) = if self.has_memory { ("suspend", "suspended") } else { ("stop", "stopped") };
        let asked = self.controller.post(&format!("/computers/{id}/{verb}"), json!({})).await;
        assert!(asked.status < 300, "{}", asked.body);
        self.controller.until_status(id, status).await;
    }

    async fn wake(&self, id: &str) {
        let verb = if self.has_memory { "resume" } else { "start" };
        let asked = self.controller.post(&format!("/computers/{id}/{verb}"), json!({})).await;
        assert!(asked.status < 300, "{}", asked.body);
        self.controller.until_status(id, "running").await;
    }

    /// Stops the controller and counts the marks in the file of its disk.
    async fn marks_on_disk(&mut self) -> [u64; 2] {
        self.controller.stop();
        let found =
            self.controller.with_disk_unmounted(|file| [ON_DISK, IN_MEMORY].map(|mark| count(file, mark)));
        found.await
    }

    fn folder(&self, id: &str) -> PathBuf {
        self.controller.data_dir().join("machines").join(id)
    }
}

/// Texts of a file with a mark, between zero bytes: the lines of a disk are too long for memory.
fn count(file: &Path, halves: [&str; 2]) -> u64 {
    let mut grep = Command::new("grep");
    grep.env("LC_ALL", "C").args(["-a", "-z", "-F", "-c", &halves.concat()]).arg(file);
    let output = grep.output().expect("grep");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a count")
}

/// The whole life of encrypted computers of one engine.
async fn stays_hidden(configuration: &str, has_memory: bool) {
    let mut scene = EncryptedScene::boot(configuration, true, has_memory).await;
    let snapshot = scene.snapshot(has_memory).await;
    is_hidden_at_rest(&mut scene).await;

    // A controller that is killed leaves the keys, and the next one adopts the computer.
    scene.controller.kill();
    scene.controller.start_again().await;
    scene.controller.until_status(&scene.id, "running").await;
    scene.assert_marks(&scene.id).await;

    copies_have_the_key_of_their_workspace(&scene, &snapshot).await;

    // What is left of a removed workspace cannot be read, and its key is gone.
    assert_eq!(scene.controller.delete(&format!("/workspaces/{}", scene.workspace)).await.status, 200);
    assert_eq!(keys(&scene.controller).await, 0);
    assert_eq!(scene.marks_on_disk().await, [0, 0]);
    scene.controller.start_again().await;
}

/// A computer that rests cannot be read without its key, and wakes with it.
async fn is_hidden_at_rest(scene: &mut EncryptedScene) {
    scene.rest(&scene.id.clone()).await;
    assert_eq!(scene.marks_on_disk().await, [0, 0], "nothing of the computer can be read");
    // The file system is mounted again, and no key is there.
    let names: Vec<PathBuf> = entries(&scene.folder(&scene.id));
    assert!(
        !names.is_empty() && names.iter().all(|path| path.file_name().is_some_and(|name| name != "disk.img"))
    );
    for path in names.iter().filter(|path| path.is_file()) {
        assert_eq!(fs::read(path).expect_err("no key").raw_os_error(), Some(nix::libc::ENOKEY));
    }

    // Nobody takes it for a leftover.
    let searched = command_of("doctor", scene.controller.folder()).arg("--repair").output().expect("doctor");
    let report = String::from_utf8_lossy(&searched.stdout).into_owned();
    assert!(report.contains("the kernel does not have its key"), "{report} {searched:?}");
    assert!(!report.contains("no computer has this id"), "{report}");

    scene.controller.start_again().await;
    scene.wake(&scene.id.clone()).await;
    scene.assert_marks(&scene.id).await;
}

/// Clones into another workspace, and where memory can be copied forks and launches.
async fn copies_have_the_key_of_their_workspace(scene: &EncryptedScene, snapshot: &str) {
    let controller = &scene.controller;
    let elsewhere = controller.workspace("elsewhere").await;
    let body = json!({ "name": "clone", "targetProjectId": elsewhere });
    let clone = id_of(&controller.create(&format!("/computers/{}/clone", scene.id), body).await);
    scene.assert_mark(&clone, ON_DISK, DISK_FILE).await;
    let [own, other] = [&scene.id, &clone].map(|id| identifier(&scene.folder(id)));
    assert!(own.is_some() && other.is_some() && own != other, "each workspace has a key");
    if scene.has_memory {
        let launch = json!({ "name": "launch", "snapshot_id": snapshot });
        let launched = id_of(&controller.create(&format!("/computers/{}/fork", scene.id), launch).await);
        scene.assert_marks(&launched).await;
        assert_eq!(identifier(&scene.folder(&launched)), own);
    }
    // A computer that moves keeps its key, also when its first workspace is removed.
    let moved =
        controller.patch(&format!("/computers/{clone}/move"), json!({"workspace_id": scene.workspace})).await;
    assert_eq!(moved.status, 200, "{}", moved.body);
    assert_eq!(controller.delete(&format!("/workspaces/{elsewhere}")).await.status, 200);
    assert_eq!(keys(controller).await, 2);
    scene.rest(&clone).await;
    scene.wake(&clone).await;
    scene.assert_mark(&clone, ON_DISK, DISK_FILE).await;
}

/// A copy that is made while the kernel has the key.
async fn a_plain_copy_of_the_files_works(scene: &mut EncryptedScene) {
    scene.rest(&scene.id.clone()).await;
    // Without an end that takes the keys.
    scene.controller.kill();
    let (folder, encrypted) = (scene.folder(&scene.id), scene.controller.folder().join("encrypted"));
    let run = |program: &str, options: &[&str], from: &Path, to: &Path| {
        let done = Command::new(program).args(options).args([from, to]).status();
        assert!(done.expect("coreutils").success(), "{program}");
    };
    run("cp", &["-a", "--sparse=always"], &folder, &encrypted);
    fs::remove_dir_all(&folder).expect("removed");
    run("cp", &["-a", "--sparse=always"], &encrypted, &folder);
    assert_eq!(identifier(&folder), None);
    scene.controller.start_again().await;
    scene.wake(&scene.id.clone()).await;
    scene.assert_marks(&scene.id).await;
}

/// Also after a rotation of the key file.
async fn encrypted_computers_work_without_the_setting(scene: &mut EncryptedScene) {
    let second = id_of(&scene.controller.computer(&scene.workspace, "two").await);
    assert!(identifier(&scene.folder(&second)).is_some());
    scene.controller.bash(&second, "echo kept >/root/kept; sync").await;
    scene.rest(&second).await;
    scene.controller.stop();
    let file = scene.controller.folder().join("hotdesk.toml");
    let mut rotation = Command::new(program());
    rotation.env_clear().args(["secrets", "rotate", "--config"]).arg(&file);
    let rotated = rotation.arg("--data-dir").arg(scene.controller.data_dir()).status();
    assert!(rotated.expect("the program").success());
    let configuration = fs::read_to_string(&file).expect("a configuration");
    fs::write(&file, configuration.replace("computers = true", "computers = false")).expect("written");
    scene.controller.start_again().await;
    scene.wake(&second).await;
    assert_eq!(scene.controller.bash(&second, "cat /root/kept").await, "kept\n");
    let body = json!({ "name": "clone of two" });
    let clone = id_of(&scene.controller.create(&format!("/computers/{second}/clone"), body).await);
    assert_eq!(identifier(&scene.folder(&clone)), None);
    assert_eq!(scene.controller.bash(&clone, "cat /root/kept").await, "kept\n");
}

/// Number of the stored keys of workspaces.
async fn keys(controller: &RunningController) -> i64 {
    sqlx::any::install_default_drivers();
    let url = format!("sqlite://{}", controller.store_file().display());
    let pool = sqlx::AnyPool::connect(&url).await.expect("the store");
    let counted = sqlx::query_scalar("SELECT COUNT(*) FROM workspace_keys").fetch_one(&pool).await;
    pool.close().await;
    counted.expect("a count")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// The identifier of the key of a folder, as the kernel has it (`FS_IOC_GET_ENCRYPTION_POLICY_EX`); `None` when it is not
/// encrypted.
fn identifier(folder: &Path) -> Option<[u8; 16]> {
    const ASK: &str = "import errno, fcntl, os, struct, sys\n\
        policy = bytearray(struct.pack('Q24x', 24))\n\
        try: fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0xC0096616, policy)\n\
        except OSError as error: sys.exit(3 if error.errno == errno.ENODATA else 1)\n\
        os.write(1, policy[16:32])";
    let asked = Command::new("python3").args(["-c", ASK]).arg(folder).output().expect("python3");
    if asked.status.code() == Some(3) {
        return None;
    }
    let seen = asked.stdout.try_into();
    Some(seen.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&asked.stderr))))
}

/// Without the setting, the search must find the marks: that of the memory where memory was saved.
async fn is_found_without_encryption(configuration: &str, has_memory: bool) {
    let mut scene = EncryptedScene::boot(configuration, false, has_memory).await;
    let snapshot = scene.snapshot(false).await;
    let path = format!("/computers/{}/snapshots/{snapshot}", scene.id);
    assert_eq!(scene.controller.delete(&path).await.status, 200);
    scene.rest(&scene.id.clone()).await;
    let [disk, memory] = scene.marks_on_disk().await;
    assert!(disk > 0, "{disk}");
    assert_eq!(memory > 0, has_memory, "{memory}");
    scene.controller.start_again().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d14_a_copy_of_the_disk_shows_nothing_of_encrypted_containers() {
    if let Some(skip) = skip_reason().or_else(encryption_skip) {
        return skip.report();
    }
    is_found_without_encryption("", false).await;
    stays_hidden("", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d14_a_copy_of_the_disk_shows_nothing_of_encrypted_computers_with_saved_memory() {
    let Some(configuration) = gvisor() else { return };
    if let Some(skip) = encryption_skip() {
        return skip.report();
    }
    is_found_without_encryption(&configuration, true).await;
    stays_hidden(&configuration, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d14_a_copy_of_the_disk_shows_nothing_of_encrypted_virtual_machines() {
    if let Some(skip) = qemu_skip_reason().or_else(encryption_skip) {
        return skip.report();
    }
    // Copies of a folder do not depend on the engine; an emulated desktop needs a minute for each boot.
    let mut scene = EncryptedScene::boot(&qemu_desktop::configuration(""), true, true).await;
    is_hidden_at_rest(&mut scene).await;
}

/// A helper makes the machines. It has the keys of the kernel while controllers come and go.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_without_privileges_encrypts_through_its_helper() {
    if let Some(skip) = skip_reason().or_else(encryption_skip) {
        return skip.report();
    }
    let mut scene = EncryptedScene::boot("", true, false).await;
    chown(scene.keys.path(), Some(USER), Some(USER)).expect("root");
    chown(scene.keys.path().join("key"), Some(USER), Some(USER)).expect("root");
    scene.controller.give_up_privileges().await;
    scene.assert_marks(&scene.id).await;
    let second = id_of(&scene.controller.computer(&scene.workspace, "two").await);
    let [one, two] = [&scene.id, &second].map(|id| identifier(&scene.folder(id)));
    assert!(one.is_some() && one == two, "both have the key of their workspace");

    // While one of its computers runs, the kernel keeps the key.
    scene.rest(&scene.id.clone()).await;
    scene.controller.restart().await;
    scene.controller.until_status(&second, "running").await;
    scene.rest(&second).await;
    assert!(scene.folder(&second).join("disk.img").exists());
    scene.controller.stop();
    assert!(!scene.folder(&second).join("disk.img").exists(), "the name is unreadable without the key");
    scene.controller.kill_helper();
    scene.controller.start_helper().await;
    scene.controller.start_again().await;
    scene.wake(&scene.id.clone()).await;
    scene.assert_marks(&scene.id).await;
    assert_eq!(scene.controller.delete(&format!("/computers/{second}")).await.status, 200);
    assert!(!scene.folder(&second).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_copies_and_the_end_of_the_setting_leave_computers_usable() {
    if let Some(skip) = skip_reason().or_else(encryption_skip) {
        return skip.report();
    }
    let mut scene = EncryptedScene::boot("", true, false).await;
    a_plain_copy_of_the_files_works(&mut scene).await;
    encrypted_computers_work_without_the_setting(&mut scene).await;
}

/// The kernel links an encrypted file into a plain folder, where it would be lost with the key of its source.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_made_after_the_end_of_the_setting_has_no_file_that_is_encrypted() {
    let Some(configuration) = gvisor() else { return };
    if let Some(skip) = encryption_skip() {
        return skip.report();
    }
    let mut scene = EncryptedScene::boot(&configuration, true, false).await;
    scene.controller.stop();
    let file = scene.controller.folder().join("hotdesk.toml");
    let configuration = fs::read_to_string(&file).expect("a configuration");
    fs::write(&file, configuration.replace("computers = true", "computers = false")).expect("written");
    scene.controller.start_again().await;
    scene.controller.until_status(&scene.id, "running").await;
    let asked = json!({ "name": "fork" });
    let fork = id_of(&scene.controller.create(&format!("/computers/{}/fork", scene.id), asked).await);
    let (source, folder) = (scene.folder(&scene.id), scene.folder(&fork));
    assert!(identifier(&source.join("agent")).is_some());
    for path in [folder.join("agent"), folder] {
        assert_eq!(identifier(&path), None, "{}", path.display());
    }
    assert_eq!(scene.controller.bash(&fork, "echo works").await, "works\n");
}

/// While the key is missing, no record can be read that tells the isolation.
#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_computer_of_another_isolation_than_the_default_gets_its_key_back() {
    if gvisor().is_none() {
        return;
    }
    if let Some(skip) = encryption_skip() {
        return skip.report();
    }
    let configuration = format!("[engines]\noffered = \"shared, sandbox\"\nrunsc = {:?}\n", runsc());
    let mut scene = EncryptedScene::boot(&configuration, true, false).await;
    let body = json!({ "workspace_id": scene.workspace, "name": "two", "isolation": "sandbox" });
    let sandbox = id_of(&scene.controller.create("/computers", body).await);
    scene.controller.bash(&sandbox, "echo kept >/dev/shm/file").await;
    scene.rest(&scene.id.clone()).await;
    let asked = scene.controller.post(&format!("/computers/{sandbox}/suspend"), json!({})).await;
    assert!(asked.status < 300, "{}", asked.body);
    scene.controller.until_status(&sandbox, "suspended").await;
    assert_eq!(scene.marks_on_disk().await, [0, 0]);

    scene.controller.start_again().await;
    scene.controller.until_status(&sandbox, "suspended").await;
    let asked = scene.controller.post(&format!("/computers/{sandbox}/resume"), json!({})).await;
    assert!(asked.status < 300, "{}", asked.body);
    scene.controller.until_status(&sandbox, "running").await;
    assert_eq!(scene.controller.bash(&sandbox, "cat /dev/shm/file").await, "kept\n");
    scene.wake(&scene.id.clone()).await;
    scene.assert_marks(&scene.id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_computers_use_neither_a_pool_nor_a_boot_snapshot() {
    let Some(configuration) = gvisor() else { return };
    if let Some(skip) = encryption_skip() {
        return skip.report();
    }
    let prepared = "[boot_snapshots]\nkeep = 2\n[pool]\n[[pool.sizes]]\nwanted = 1\n";
    let scene = EncryptedScene::boot(&format!("{configuration}{prepared}"), true, true).await;
    // By now there would be a machine of the pool, and a snapshot of this size.
    let second = id_of(&scene.controller.computer(&scene.workspace, "two").await);
    let machines = entries(&scene.controller.data_dir().join("machines"));
    assert_eq!(machines.len(), 2, "{machines:?}");
    let [first, second] = [&scene.id, &second].map(|id| identifier(&scene.folder(id)));
    assert!(first.is_some() && first == second, "both have the key of their workspace");
}

#[test]
fn a_host_that_cannot_encrypt_refuses_the_setting_and_doctor_says_why() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder without encryption");
    fs::write(folder.path().join("hotdesk.toml"), "[encryption]\ncomputers = true\n")
        .expect("a configuration");
    let run = |name: &str| {
        let output = command_of(name, folder.path()).output().expect("the program");
        assert!(!output.status.success());
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let refused = run("serve");
    for part in ["encryption.computers", "cannot be encrypted", "tune2fs -O encrypt", "CONFIG_FS_ENCRYPTION"]
    {
        assert!(refused.contains(part), "{part} in {refused}");
    }
    let findings = run("doctor");
    assert!(
        findings.contains("cannot be encrypted") && findings.contains("tune2fs -O encrypt"),
        "{findings}"
    );
}

/// Rounds of each figure.
const ROUNDS: usize = 5;
/// What the rounds write to the disk and hold in memory, in MiB.
const WRITTEN_MIB: u64 = 512;

/// The figures of docs/performance.md: rounds without and with encryption alternate.
#[tokio::test(flavor = "multi_thread")]
async fn figures_of_encryption() {
    if std::env::var_os("HOTDESK_FIGURES").is_none() {
        return Capability::Host.skip("HOTDESK_FIGURES is not set");
    }
    let Some(with_memory) = gvisor() else { return };
    let unlimited = "[limits]\ndisk_mb_per_second = 0\ndisk_ops_per_second = 0\n";
    for (name, configuration, has_memory) in
        [("runc", unlimited.to_owned(), false), ("gVisor", format!("{unlimited}{with_memory}"), true)]
    {
        let plain = EncryptedScene::boot(&configuration, false, has_memory).await;
        let encrypted = EncryptedScene::boot(&configuration, true, has_memory).await;
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (scene, rounds) in [&plain, &encrypted].into_iter().zip(&mut rounds) {
                rounds.push(scene.measure().await);
            }
        }
        let [without, with] = rounds.map(medians);
        for ((what, without), (_, with)) in without.into_iter().zip(with) {
            println!("{name}: {what}: {without:.0} without, {with:.0} with");
        }
    }
}

/// The median of each figure.
fn medians(rounds: Vec<Vec<(&'static str, f64)>>) -> Vec<(&'static str, f64)> {
    let first = rounds[0].clone();
    let median = |at: usize| {
        let mut values: Vec<f64> = rounds.iter().map(|round| round[at].1).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    first.into_iter().enumerate().map(|(at, (what, _))| (what, median(at))).collect()
}

impl EncryptedScene {
    /// One round: milliseconds and MB/s.
    async fn measure(&self) -> Vec<(&'static str, f64)> {
        let began = Instant::now();
        let other = id_of(&self.controller.computer(&self.workspace, "other").await);
        let mut figures = vec![("create, ms", began.elapsed().as_secs_f64() * 1000.0)];
        assert_eq!(self.controller.delete(&format!("/computers/{other}")).await.status, 200);
        if self.has_memory {
            let fill = format!("head -c {}M /dev/urandom >/dev/shm/filled", WRITTEN_MIB / 2);
            self.controller.bash(&self.id, &fill).await;
            for (what, sleeps) in [("suspend, ms", true), ("resume, ms", false)] {
                drop_caches();
                let began = Instant::now();
                if sleeps {
                    self.rest(&self.id).await
                } else {
                    self.wake(&self.id).await
                }
                figures.push((what, began.elapsed().as_secs_f64() * 1000.0));
            }
        } else {
            let write =
                format!("dd if=/dev/zero of=/root/big bs=1M count={WRITTEN_MIB} conv=fsync,notrunc 2>&1");
            figures.push(("write, MB/s", rate(&self.controller.bash(&self.id, &write).await)));
            drop_caches();
            let read = "dd if=/root/big of=/dev/null bs=1M 2>&1";
            figures.push(("read, MB/s", rate(&self.controller.bash(&self.id, read).await)));
        }
        figures
    }
}

fn drop_caches() {
    fs::write("/proc/sys/vm/drop_caches", "3").expect("root");
}

/// MB/s in the output of `dd`, which ends with `N bytes (…) copied, S s, …`.
fn rate(output: &str) -> f64 {
    let seconds = output.split("copied, ").nth(1).and_then(|rest| rest.split(' ').next());
    let seconds: f64 = seconds.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{output}"));
    (WRITTEN_MIB << 20) as f64 / 1e6 / seconds
}
