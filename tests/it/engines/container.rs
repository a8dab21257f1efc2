//! Container engine: conformance, host resources, and access to guest data.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt as _};
use std::process::Command;
use std::time::{Duration, Instant};

use hotdesk::base::ids::ComputerId;
use hotdesk::base::secret::Secret;
use hotdesk::base::wait;
use hotdesk::engine::{
    Check, EngineError, EngineSettings, Finding, NetworkConfig, Observation, OpenMode, checks, open,
};

use super::conformance::{
    END_TIMEOUT, EngineFixture, GRACE, boot, conformance_tests, expect_running, machine_spec,
};
use super::guest::Guest;
use super::host::{ContainerFixture, container, open_engine};
use crate::harness::controller::skip_reason;
use crate::harness::host::{control_groups, find_leftover, guest_processes, loop_devices, processes};
use crate::harness::program::program;
use crate::harness::small_disk::SmallDisk;

conformance_tests!(ContainerFixture::without_network().map(ContainerFixture::beside_others));
conformance_tests!(ContainerFixture::without_network().map(ContainerFixture::beside_others), copies);
conformance_tests!(ContainerFixture::without_network().map(ContainerFixture::beside_others);
    a_machine_whose_processes_are_stopped_can_be_ended,
    a_machine_whose_groups_are_frozen_can_be_ended,
);

#[tokio::test(flavor = "multi_thread")]
async fn the_host_shows_no_mount_of_a_running_guest_and_its_root_is_nobody() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (spec, id, guest) = fixture.start_machine(machine_spec()).await;
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mounts.contains(&id.to_string()) && !mounts.contains("hotdesk-engine/stage"), "{mounts}");

    guest.run("touch /root/owned && chown 1000:1000 /root/owned && touch /root/roots").await;
    assert_eq!(
        guest.run("stat -c %u:%g /root/owned /root/roots /usr/bin/hotdesk /").await,
        "1000:1000\n0:0\n0:0\n0:0"
    );
    let first = fixture.config.host.uid_base;
    for pid in guest_processes(&id.to_string()) {
        let owner = fs::metadata(format!("/proc/{pid}")).expect("a process").uid();
        assert!(owner >= first, "process {pid} belongs to user {owner}");
    }

    fixture.engine.stop(id, GRACE).await.expect("stopped");
    let stored = |path: &str| {
        let disk = fixture.folder(id).join("disk.img");
        let output = Command::new("debugfs").arg("-R").arg(format!("stat {path}")).arg(disk).output();
        String::from_utf8_lossy(&output.expect("debugfs").stdout).into_owned()
    };
    let owner =
        |text: &str| text.split_whitespace().skip_while(|word| *word != "User:").nth(1).map(str::to_owned);
    assert_eq!(owner(&stored("upper/root/roots")).as_deref(), Some("0"));
    assert_eq!(owner(&stored("upper/root/owned")).as_deref(), Some("1000"));
    assert_eq!(fs::metadata(fixture.folder(id)).expect("folder").mode() & 0o777, 0o700);
    assert_eq!(spec.disk_bytes, fs::metadata(fixture.folder(id).join("disk.img")).expect("disk").len());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_reaches_guest_root_by_a_file_and_nobody_else() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (spec, id, guest) = fixture.start_machine(machine_spec()).await;
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    let mut boot = boot(2);
    boot.token = Secret::new("a-very-secret-token");
    let started = fixture.engine.start(&spec, &boot).await.expect("started");
    assert_eq!(started, expect_running(&*fixture.engine, id, 2).await.endpoint().clone());
    guest.wait_until_ready().await;
    assert_eq!(guest.run("cat /run/hotdesk/token").await, "a-very-secret-token");
    assert_eq!(guest.run("stat -c '%a %u' /run/hotdesk/token").await, "400 0");
    guest.run_failing("echo x > /run/hotdesk/token").await;
    guest.run_failing("su -s /bin/sh nobody -c 'cat /run/hotdesk/token'").await;
    assert_eq!(guest.sh("grep -az secret /proc/1/environ /proc/1/cmdline").await.code, 1);

    let mut search = Command::new("grep");
    search
        .args(["-rl", "a-very-secret-token"])
        .arg(fixture.folder(id))
        .arg(fixture.engine_root().join("runtime"));
    let found = search.output().expect("grep");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "the token must not be on the host's disk");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_has_a_name_and_an_identity_of_its_own() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (_, one, first) = fixture.start_machine(machine_spec()).await;
    let (spec, _, second) = fixture.start_machine(machine_spec()).await;
    let name = first.run("hostname; cat /etc/hostname").await;
    let short_grace = &one.to_string()[..8];
    assert_eq!(name, format!("hotdesk-{short_grace}\nhotdesk-{short_grace}"));
    assert_eq!(first.run("getent hosts $(hostname) | cut -d' ' -f1").await, "127.0.1.1");
    let identity = second.run("cat /etc/machine-id").await;
    assert_eq!(identity.len(), 32);
    assert_ne!(identity, first.run("cat /etc/machine-id").await);
    fixture.engine.stop(spec.id, GRACE).await.expect("stopped");
    fixture.engine.start(&spec, &boot(2)).await.expect("started");
    second.wait_until_ready().await;
    assert_eq!(second.run("cat /etc/machine-id").await, identity);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_ignores_the_request_is_killed_after_its_grace_with_all_its_daemons() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let mut config = fixture.config.clone();
    // As the first process of a pid namespace a shell ignores SIGTERM.
    let script = "for i in 1 2 3; do setsid sleep 1000 & done; wait";
    config.host.init_args = Some(["/bin/sh", "-c", script].map(str::to_owned).to_vec());
    let (engine, spec) = (open_engine(config), machine_spec());
    engine.create(&spec).await.expect("created");
    engine.start(&spec, &boot(1)).await.expect("started");
    let daemons = wait::until(END_TIMEOUT, || async {
        (guest_processes(&spec.id.to_string()).len() == 4).then_some(())
    });
    assert!(daemons.await.is_some(), "{:?}", processes(&spec.id.to_string()));
    let (begun, grace) = (Instant::now(), Duration::from_millis(300));
    engine.stop(spec.id, grace).await.expect("stopped");
    assert!(begun.elapsed() >= grace && begun.elapsed() < END_TIMEOUT, "{:?}", begun.elapsed());
    assert_eq!(processes(&spec.id.to_string()), Vec::<u32>::new());
    assert_eq!(control_groups(&spec.id.to_string()), Vec::<std::path::PathBuf>::new());
    assert_eq!(loop_devices(&spec.id.to_string()), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_grows_at_the_next_start() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (mut spec, id, guest) = fixture.start_machine(machine_spec()).await;
    guest.store("note", "before").await;
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    spec.disk_bytes *= 4;
    fixture.engine.start(&spec, &boot(2)).await.expect("started");
    guest.wait_until_ready().await;
    let megabytes: u64 = guest.run("df -m --output=size / | tail -1").await.trim().parse().expect("a number");
    assert!((900..=1024).contains(&megabytes), "{megabytes} MiB");
    assert_eq!(guest.load("note").await.as_deref(), Some("before"));
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    fixture.engine.start(&spec, &boot(3)).await.expect("started without growing");
    guest.wait_until_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_on_a_file_system_of_its_own_is_released_before_a_stop_returns() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let disk_folder = tempfile::tempdir().expect("a folder");
    let state = disk_folder.path().join("state");
    let _disk = SmallDisk::mount(disk_folder.path(), &state, 1536);
    let own = tempfile::tempdir().expect("a folder");
    let Some(fixture) = ContainerFixture::in_folder(state, own, NetworkConfig::disabled()) else { return };
    let (engine, spec) = (&fixture.engine, machine_spec());
    let id = spec.id.to_string();
    engine.create(&spec).await.expect("created");
    for generation in 1..4 {
        let guest = Guest::new(&engine.start(&spec, &boot(generation)).await.expect("started"));
        guest.wait_until_ready().await;
        assert_eq!(loop_devices(&id).len(), 1, "one loop device must have the disk");
        // Unwritten data delays the release of the file system after the guest's end.
        guest.run("dd if=/dev/urandom of=/root/unwritten bs=1M count=64 2>/dev/null").await;
        engine.stop(spec.id, Duration::ZERO).await.expect("stopped");
        assert_eq!(find_leftover(&id), None, "round {generation}");
    }
    engine.destroy(spec.id).await.expect("destroyed");
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_are_taken_away_without_the_image_and_the_agent() {
    let Some(fixture) = ContainerFixture::with_network() else { return };
    let (_, id, _) = fixture.start_machine(machine_spec()).await;
    let mut config = fixture.config.clone();
    (config.host.image, config.host.agent_binary) = ("/nowhere".into(), "/nowhere/either".into());
    open(config.clone(), OpenMode::Run).expect_err("an engine without image cannot start machines");
    let engine = open(config, OpenMode::Remove).expect("an engine");
    assert_eq!(engine.list().await.expect("a list"), [id]);
    engine.destroy(id).await.expect("destroyed");
    fixture.expect_removed(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_an_earlier_boot_of_the_host_do_not_pass_for_a_running_machine() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (spec, id, guest) = fixture.start_machine(machine_spec()).await;
    let root = fixture.engine_root();
    let (record, config) =
        (root.join("runtime").join(id.to_string()), fixture.folder(id).join("bundle/config.json"));
    let saved_record = root.join("kept");
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp").success());
    };
    copy(&record, &saved_record);
    copy(&config, &root.join("kept.json"));
    fixture.engine.stop(id, GRACE).await.expect("stopped");

    // Simulate a power cut: the runtime's record and the bundle name a process id that now belongs to another
    // process.
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("boot id");
    let state = fs::read_to_string(saved_record.join("state.json")).expect("state");
    fs::write(saved_record.join("state.json"), state.replace(boot_id.trim(), "another-boot"))
        .expect("rewritten");
    fs::rename(&saved_record, &record).expect("restored");
    fs::rename(root.join("kept.json"), &config).expect("restored");
    assert_eq!(fixture.engine.observe(id).await.expect("an observation"), Observation::Stopped);
    fixture.engine.wait_stopped(id).await.expect("at once");
    fixture.engine.start(&spec, &boot(2)).await.expect("started despite the old record");
    guest.wait_until_ready().await;
    fixture.engine.destroy(id).await.expect("destroyed");
    fixture.expect_removed(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_calls_the_runtime_twice_and_an_observation_reads_its_record() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (program, calls) = (folder.path().join("runc"), folder.path().join("calls"));
    fs::write(&program, format!("#!/bin/sh\necho \"$@\" >>{}\nexec runc \"$@\"\n", calls.display()))
        .expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("the mode is set");
    let mut config = fixture.config.clone();
    config.kinds = vec![container(program.to_string_lossy())];
    let (engine, spec) = (open_engine(config), machine_spec());
    engine.create(&spec).await.expect("created");
    let guest = Guest::new(&engine.start(&spec, &boot(1)).await.expect("started"));
    guest.wait_until_ready().await;
    expect_running(&*engine, spec.id, 1).await;
    let calls = fs::read_to_string(&calls).expect("the calls");
    let id = spec.id.to_string();
    // The other calls ask for the version.
    let verbs = calls.lines().filter(|line| line.ends_with(&id)).map(|line| {
        let known = ["create", "start", "state", "delete"];
        line.split(' ').find(|word| known.contains(word)).expect("a known call")
    });
    assert_eq!(verbs.collect::<Vec<_>>(), ["create", "start"]);
    engine.destroy(spec.id).await.expect("destroyed");
    fixture.expect_removed(spec.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_host_is_a_lack_of_capacity() {
    let Some(mut fixture) = ContainerFixture::without_network() else { return };
    let full = tempfile::tempdir().expect("a folder");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(full.path());
    assert!(mount.status().expect("mount").success());
    let _unmount = UnmountOnDrop(full.path());
    let own = std::mem::replace(&mut fixture.config.host.state_dir, full.path().join("state"));
    let engine = open_engine(fixture.config.clone());
    fixture.config.host.state_dir = own;
    let spec = machine_spec();
    let refused = engine.create(&spec).await.expect_err("no disk space");
    assert!(matches!(refused, EngineError::NoCapacity(..)), "{refused:#}");
    engine.destroy(spec.id).await.expect("destroy works on a full host");
    assert!(engine.list().await.expect("a list").is_empty());
}

struct UnmountOnDrop<'a>(&'a std::path::Path);

impl Drop for UnmountOnDrop<'_> {
    fn drop(&mut self) {
        rustix::mount::unmount(self.0, rustix::mount::UnmountFlags::DETACH).expect("unmounted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_controllers_on_one_host_share_no_ids() {
    let (Some(one), Some(other)) = (ContainerFixture::without_network(), ContainerFixture::without_network())
    else {
        return;
    };
    let (_, first, _) = one.start_machine(machine_spec()).await;
    let (_, second, _) = other.start_machine(machine_spec()).await;
    let owner = |id: ComputerId| {
        let pids = guest_processes(&id.to_string());
        fs::metadata(format!("/proc/{}", pids[0])).expect("a process").uid()
    };
    assert!(owner(first).abs_diff(owner(second)) >= 65536);
}

#[tokio::test(flavor = "multi_thread")]
async fn hotdesk_s_own_first_process_answers_with_the_token_of_its_boot() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let mut config = fixture.config.clone();
    config.host.agent_binary = program().into();
    config.host.init_args = None;
    let (engine, mut spec) = (open_engine(config), machine_spec());
    spec.memory_bytes = 2 << 30;
    let boot = boot(1);
    let begun = Instant::now();
    engine.create(&spec).await.expect("created");
    let guest = Guest::new(&engine.start(&spec, &boot).await.expect("started"));
    guest.wait_until_ready().await;
    eprintln!("create to the agent's first answer: {} ms", begun.elapsed().as_millis());
    assert_eq!(guest.status("/health", Some(boot.token.reveal())).await, 200);
    assert_eq!(guest.status("/health", Some("another")).await, 401);
    let begun = Instant::now();
    engine.stop(spec.id, END_TIMEOUT).await.expect("stopped");
    eprintln!("stop of a desktop: {} ms", begun.elapsed().as_millis());
    assert!(begun.elapsed() < END_TIMEOUT, "the guest must end on request");
    engine.destroy(spec.id).await.expect("destroyed");
    fixture.expect_removed(spec.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_machines_start_and_go_at_once() {
    let Some(fixture) = ContainerFixture::with_network() else { return };
    let lives = (0..6).map(|_| async {
        let (_, id, guest) = fixture.start_machine(machine_spec()).await;
        assert_eq!(guest.run("echo here").await, "here");
        fixture.engine.destroy(id).await.expect("destroyed");
    });
    futures_util::future::join_all(lives).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_disk_costs_nothing_until_it_is_used() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let mut spec = machine_spec();
    spec.disk_bytes = 64 << 30;
    let begun = Instant::now();
    fixture.engine.create(&spec).await.expect("created");
    eprintln!("create with 64 GiB: {} ms", begun.elapsed().as_millis());
    let spent = fs::metadata(fixture.folder(spec.id).join("disk.img")).expect("the disk").blocks() * 512;
    assert!(spent < 64 << 20, "{spent} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_image_or_runtime_is_named() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let mut config = fixture.config.clone();
    config.host.image = "/nowhere".into();
    let error = format!("{:#}", open(config, OpenMode::Run).expect_err("no image"));
    assert!(error.contains("/nowhere"), "{error}");

    let mut config = fixture.config.clone();
    config.kinds = vec![container("no-such-runtime")];
    let engine = open_engine(config);
    let spec = machine_spec();
    engine.create(&spec).await.expect("creating a disk needs no runtime");
    let error = format!("{:#}", engine.start(&spec, &boot(1)).await.expect_err("no runtime"));
    assert!(error.contains("no-such-runtime is not installed"), "{error}");
}

fn run_checks(settings: &EngineSettings) -> Vec<Finding> {
    checks(settings).into_iter().flat_map(|engine| engine.checks).map(Check::run).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_finds_this_host_fit_and_leaves_nothing() {
    let Some(fixture) = ContainerFixture::with_network() else { return };
    let config = fixture.config.clone();
    let findings = tokio::task::spawn_blocking(move || run_checks(&config)).await.expect("probed");
    for finding in &findings {
        eprintln!("{finding:?}");
        // Host settings that a test cannot require.
        if !["free space", "inotify instances", "open files"].contains(&finding.what.as_ref()) {
            assert!(finding.ok, "{finding:?}");
        }
    }
    assert_eq!(fs::read_dir(fixture.engine_root().join("trash")).expect("trash").count(), 0);

    let mut config = fixture.config.clone();
    config.kinds = vec![container("/nowhere/runsc")];
    config.host.image = "/nowhere".into();
    let findings = tokio::task::spawn_blocking(move || run_checks(&config)).await.expect("probed");
    let broken: Vec<_> = findings
        .iter()
        .filter(|finding| !finding.ok && !finding.remedy.is_empty())
        .map(|finding| finding.what.as_ref())
        .collect();
    assert!(broken.contains(&"OCI runtime") && broken.contains(&"guest image"), "{broken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn verbs_are_timed() {
    let Some(fixture) = ContainerFixture::with_network() else { return };
    for round in 0..3 {
        let (spec, mut figures) = (machine_spec(), String::new());
        let mut clock = Instant::now();
        let mut lap = |what: &str| {
            figures += &format!("{what} {} ms, ", clock.elapsed().as_millis());
            clock = Instant::now();
        };
        fixture.engine.create(&spec).await.expect("created");
        lap("create");
        let endpoint = fixture.engine.start(&spec, &boot(1)).await.expect("started");
        lap("start");
        Guest::new(&endpoint).wait_until_ready().await;
        lap("first answer");
        fixture.engine.observe(spec.id).await.expect("an observation");
        lap("observe");
        fixture.engine.stop(spec.id, GRACE).await.expect("stopped");
        lap("stop");
        fixture.engine.destroy(spec.id).await.expect("destroyed");
        lap("destroy");
        let settled = wait::until(END_TIMEOUT, || async {
            control_groups(&spec.id.to_string()).is_empty().then_some(())
        })
        .await;
        assert!(settled.is_some());
        eprintln!("round {round}: {figures}");
    }
}
