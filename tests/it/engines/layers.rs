//! Read-only layers of disks: what is in them, who shares them, and when they go. Conformance tests first, then tests of the
//! container engine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hotdesk::base::ids::{ComputerId, LayerId};
use hotdesk::base::secret::Secret;
use hotdesk::domain::computer::isolation::Isolation;
use hotdesk::engine::{
    Engine, EngineError, EngineKind, EngineSettings, FileKey, MAX_LAYERS, MachineSpec, NetworkConfig,
    Observation,
};
use uuid::Uuid;

use super::conformance::{END_TIMEOUT, EngineFixture, GRACE, boot, expect_running, machine_spec};
use super::guest::Guest;
use super::host::{ContainerFixture, container, container_settings, open_engine};
use super::qemu::QemuFixture;
use crate::harness::controller::encryption_skip;
use crate::harness::small_disk::SmallDisk;

/// Bytes of random data in a layer: far more than an unused disk takes.
const DATA: u64 = 40_000_000;
/// Changes files of the image in all ways that an overlay stores differently, and leaves what must not be in a layer.
const WRITE: &str =
    "set -e; rm /etc/debian_version; rm -r /etc/skel; mkdir /etc/skel; echo new >/etc/skel/new
    cp /bin/true /usr/local/bin/mine; chown 12:34 /usr/local/bin/mine; chmod 6755 /usr/local/bin/mine
    mkdir -p /root/layer; cd /root/layer; head -c 40000000 /dev/urandom >data; truncate -s 1G sparse
    echo one >one; chown 1234:4321 one; ln one other; ln -s one link
    mkdir -p /tmp/junk /var/tmp/junk /etc/ssh; echo secret >/etc/ssh/ssh_host_ed25519_key";
/// Prints what [`WRITE`] wrote.
const LOOK: &str = "cd /root/layer; ls -A . /etc/skel; readlink link; cat other; sha256sum <data
    stat -c '%n %a %u:%g %s %h' /usr/local/bin/mine one other sparse; stat -c '%a %u:%g' /etc/skel";
/// The same for a second layer, in which files of the first are gone or changed.
const LOOK_AGAIN: &str = "cd /root/layer; ls -A . /etc/skel; cat one two; stat -c '%a %u:%g' one";
/// Prints what must not be in a machine with that layer.
const EXCLUDED: &str = "for path in /etc/debian_version /etc/skel/.profile /tmp/junk /var/tmp/junk \
    /etc/ssh/ssh_host_ed25519_key; do [ ! -e $path ] || echo $path; done";

/// Prints the programs with capabilities, the capabilities, and the modes.
const FIND_CAPABILITIES: &str = "python3 -c \"
import os
for folder, _, names in os.walk('/usr'):
    for name in sorted(names):
        path = os.path.join(folder, name)
        if 'security.capability' in os.listxattr(path, follow_symlinks=False):
            print(path, os.getxattr(path, 'security.capability').hex(), oct(os.stat(path).st_mode))
\"";

/// Spec of a machine of which a layer can be made. The disk of a virtual machine is not read.
fn maker(fixture: &dyn EngineFixture) -> MachineSpec {
    let isolation = match fixture.isolation() {
        Isolation::Vm => Isolation::Shared,
        own @ (Isolation::Shared | Isolation::Sandbox) => own,
    };
    MachineSpec { isolation, ..fixture.spec() }
}

async fn start(engine: &dyn Engine, spec: &MachineSpec) -> Guest {
    engine.create(spec).await.expect("created");
    let guest = Guest::new(&engine.start(spec, &boot(1)).await.expect("started"));
    guest.wait_until_ready().await;
    guest
}

/// Ends a machine and makes a layer of it; returns the layer's size.
async fn keep(engine: &dyn Engine, id: ComputerId, layer: LayerId) -> u64 {
    engine.stop(id, GRACE).await.expect("stopped");
    let bytes = engine.keep_layer(id, layer).await.expect("a layer");
    assert_eq!(engine.observe(id).await.expect("an observation"), Observation::Stopped);
    assert_eq!(engine.keep_layer(id, layer).await.expect("left alone"), bytes);
    engine.destroy(id).await.expect("destroyed");
    assert_eq!(engine.keep_layer(id, layer).await.expect("left alone without its maker"), bytes);
    bytes
}

pub fn expect_failed<T: std::fmt::Debug>(outcome: Result<T, EngineError>, reason: &str) {
    let refused = outcome.expect_err(reason);
    assert!(matches!(refused, EngineError::Failed { .. }), "{refused:#}");
    assert!(format!("{refused:#}").contains(reason), "{refused:#}");
}

pub async fn a_layer_lives_as_long_as_somebody_needs_it(fixture: &dyn EngineFixture) {
    let (engine, layer, first) = (fixture.engine(), LayerId::random(), maker(fixture));
    assert!(engine.layers().await.expect("a list").is_empty());
    engine.remove_layer(layer).await.expect("a missing layer counts as removed");
    let missing = engine.keep_layer(first.id, layer).await.expect_err("a missing machine");
    assert!(matches!(missing, EngineError::Absent), "{missing:#}");
    start(&*engine, &first).await.store("note", "of the layer").await;
    expect_failed(engine.keep_layer(first.id, layer).await, "runs");
    assert!(engine.layers().await.expect("a list").is_empty());
    assert!(keep(&*engine, first.id, layer).await > 0);
    let engine = fixture.reopen();
    assert_eq!(engine.layers().await.expect("a list"), [layer]);

    let [one, two] = [(); 2].map(|()| MachineSpec { layers: vec![layer], ..fixture.spec() });
    let [first, second] = [start(&*engine, &one).await, start(&*engine, &two).await];
    first.store("note", "changed").await;
    assert_eq!(second.load("note").await.as_deref(), Some("of the layer"));
    engine.destroy(one.id).await.expect("destroyed");
    expect_failed(engine.remove_layer(layer).await, &two.id.to_string());
    assert_eq!(engine.layers().await.expect("a list"), [layer]);
    engine.destroy(two.id).await.expect("destroyed");
    for _ in 0..2 {
        engine.remove_layer(layer).await.expect("removed");
        assert!(engine.layers().await.expect("a list").is_empty());
    }
    expect_failed(
        engine.create(&MachineSpec { layers: vec![layer], ..fixture.spec() }).await,
        "not on this host",
    );
}

pub async fn layers_have_what_a_machine_wrote_and_nobody_changes_them(fixture: &dyn EngineFixture) {
    let (engine, one, two) = (fixture.engine(), LayerId::random(), LayerId::random());
    let first = maker(fixture);
    let guest = start(&*engine, &first).await;
    guest.run(WRITE).await;
    let wrote = guest.run(LOOK).await;
    assert!(wrote.contains("mine 6755 12:34") && wrote.contains("other 644 1234:4321 4 2"), "{wrote}");
    let bytes = keep(&*engine, first.id, one).await;
    assert!((DATA..DATA + (4 << 20)).contains(&bytes), "{bytes} bytes");

    // One more on top: files of the first are removed and changed.
    let above = MachineSpec { layers: vec![one], ..maker(fixture) };
    let guest = start(&*engine, &above).await;
    assert_eq!(guest.run(LOOK).await, wrote);
    assert_eq!(guest.run(EXCLUDED).await, "");
    guest.run("cd /root/layer; rm other /etc/skel/new; echo two >two; echo changed >link").await;
    keep(&*engine, above.id, two).await;
    let mut all = vec![one, two];
    all.sort();
    assert_eq!(engine.layers().await.expect("a list"), all);

    let [a, b] = [(); 2].map(|()| MachineSpec { layers: vec![one, two], ..fixture.spec() });
    let (first, second) = (start(&*engine, &a).await, start(&*engine, &b).await);
    let expected = ".:\ndata\nlink\none\nsparse\ntwo\n\n/etc/skel:\nchanged\ntwo\n644 1234:4321";
    for guest in [&first, &second] {
        assert_eq!(guest.run(LOOK_AGAIN).await, expected);
        assert_eq!(guest.run(EXCLUDED).await, "");
    }
    first.run("cd /root/layer; rm -r data /etc/skel; echo mine >one; echo x >/etc/skel").await;
    assert_eq!(second.run(LOOK_AGAIN).await, expected);
    if let Some(disk) = fixture.disk(b.id) {
        let stored = fs::metadata(disk).expect("a disk").blocks() * 512;
        assert!(stored < DATA / 2, "{stored} bytes: a launch must copy no layer");
    }

    for layers in [vec![], vec![one], vec![two, one]] {
        let other = MachineSpec { layers: layers.clone(), ..b.clone() };
        expect_failed(
            engine.copy_disk(b.id, &MachineSpec { layers, ..fixture.spec() }).await,
            "keep the layers",
        );
        engine.stop(b.id, GRACE).await.expect("stopped");
        expect_failed(engine.start(&other, &boot(2)).await, "keep the layers");
    }
    if fixture.isolation() == Isolation::Vm {
        expect_failed(engine.keep_layer(b.id, LayerId::random()).await, "isolation shared or sandbox");
    }
    for layer in [one, two] {
        expect_failed(engine.remove_layer(layer).await, "destroy the machine first");
    }
    for id in engine.list().await.expect("a list") {
        engine.destroy(id).await.expect("destroyed");
        fixture.expect_removed(id);
    }
    for layer in [two, one] {
        engine.remove_layer(layer).await.expect("removed");
    }
}

pub async fn a_machine_keeps_its_layers_wherever_its_state_goes(fixture: &dyn EngineFixture) {
    let (engine, layer, first) = (fixture.engine(), LayerId::random(), maker(fixture));
    start(&*engine, &first).await.store("note", "of the layer").await;
    keep(&*engine, first.id, layer).await;
    let [spec, fork, launched, copy] =
        [(); 4].map(|()| MachineSpec { layers: vec![layer], ..fixture.spec() });
    let mut guest = start(&*engine, &spec).await;
    let can = engine.offers().default().capabilities;
    let note = Some("of the layer");
    if can.suspend {
        engine.suspend(spec.id).await.expect("suspended");
        let other = MachineSpec { layers: Vec::new(), ..spec.clone() };
        expect_failed(engine.resume(&other, &boot(2)).await, "keep the layers");
        Guest::new(&engine.resume(&spec, &boot(2)).await.expect("resumed")).wait_until_ready().await;
        guest = expect_running(&*engine, spec.id, 2).await;
        assert_eq!(guest.load("note").await.as_deref(), note);
    }
    if can.memory_snapshot {
        let (snapshot, other) = (Uuid::new_v4(), fixture.spec());
        expect_failed(engine.fork(spec.id, &other).await, "keep the layers");
        engine.fork(spec.id, &fork).await.expect("forked");
        engine.snapshot(spec.id, snapshot, true).await.expect("kept");
        expect_failed(engine.launch(spec.id, snapshot, &other).await, "keep the layers");
        engine.launch(spec.id, snapshot, &launched).await.expect("launched");
        for spec in [&fork, &launched] {
            let guest = Guest::new(&engine.resume(spec, &boot(3)).await.expect("resumed"));
            guest.wait_until_ready().await;
            assert_eq!(guest.load("note").await.as_deref(), note);
            engine.destroy(spec.id).await.expect("destroyed");
        }
        engine.destroy(other.id).await.expect("destroyed");
    }
    let snapshot = Uuid::new_v4();
    engine.snapshot(spec.id, snapshot, false).await.expect("kept");
    guest.store("note", "changed").await;
    engine.stop(spec.id, GRACE).await.expect("stopped");
    engine.copy_disk(spec.id, &copy).await.expect("copied");
    engine.rollback(spec.id, snapshot).await.expect("rolled back");
    for (spec, expected) in [(&spec, note), (&copy, Some("changed"))] {
        let guest = Guest::new(&engine.start(spec, &boot(9)).await.expect("started"));
        guest.wait_until_ready().await;
        assert_eq!(guest.load("note").await.as_deref(), expected);
        engine.destroy(spec.id).await.expect("destroyed");
        fixture.expect_removed(spec.id);
    }
    engine.remove_layer(layer).await.expect("removed");
}

pub async fn a_machine_has_all_its_layers_up_to_the_most(fixture: &dyn EngineFixture) {
    let (engine, first) = (fixture.engine(), maker(fixture));
    start(&*engine, &first).await.store("note", "of the lowest layer").await;
    engine.stop(first.id, GRACE).await.expect("stopped");
    let mut layers: Vec<LayerId> = (0..=MAX_LAYERS).map(|_| LayerId::random()).collect();
    engine.keep_layer(first.id, layers[0]).await.expect("a layer");
    engine.destroy(first.id).await.expect("destroyed");
    let empty = maker(fixture);
    engine.create(&empty).await.expect("created");
    for layer in &layers[1..] {
        engine.keep_layer(empty.id, *layer).await.expect("a layer");
    }
    engine.destroy(empty.id).await.expect("destroyed");
    let too_many = MachineSpec { layers: layers.clone(), ..fixture.spec() };
    expect_failed(engine.create(&too_many).await, "are more than 16");
    let twice = MachineSpec { layers: vec![layers[0]; 2], ..fixture.spec() };
    expect_failed(engine.create(&twice).await, "listed twice");
    layers.truncate(MAX_LAYERS);
    let spec = MachineSpec { layers: layers.clone(), ..fixture.spec() };
    let guest = start(&*engine, &spec).await;
    assert_eq!(guest.load("note").await.as_deref(), Some("of the lowest layer"));
    for id in engine.list().await.expect("a list") {
        engine.destroy(id).await.expect("destroyed");
    }
    for layer in engine.layers().await.expect("a list") {
        engine.remove_layer(layer).await.expect("removed");
    }
}

/// The entries of the folder with the layers.
pub fn entries(fixture: &ContainerFixture) -> Vec<String> {
    crate::harness::host::names_in(&fixture.engine_root().join("layers"))
}

/// A stopped machine with `bytes` of data.
async fn stopped_machine(fixture: &ContainerFixture, bytes: u64) -> ComputerId {
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    guest.run(&format!("head -c {bytes} /dev/urandom >/root/data")).await;
    fixture.engine.stop(id, GRACE).await.expect("stopped");
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn capabilities_of_the_image_s_programs_are_in_a_layer() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (_, id, guest) = fixture.start_machine(machine_spec()).await;
    let before = guest.run(FIND_CAPABILITIES).await;
    let path = before.split(' ').next().expect("the image has a program with a capability").to_owned();
    guest.run(&format!("touch {path}")).await;
    assert_eq!(guest.run(FIND_CAPABILITIES).await, before, "the computer has its own copy now");
    let layer = LayerId::random();
    keep(&*fixture.engine, id, layer).await;
    assert!(fixture.engine_root().join(format!("layers/{layer}/rootfs{path}")).exists());
    let guest = start(&*fixture.engine, &MachineSpec { layers: vec![layer], ..machine_spec() }).await;
    assert_eq!(guest.run(FIND_CAPABILITIES).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_is_not_booted_without_its_layers() {
    // The initial RAM disk of an earlier version.
    let kernel = tempfile::tempdir().expect("a folder");
    let configure = |config: &mut EngineSettings| {
        for kind in &mut config.kinds {
            if let EngineKind::Qemu(settings) = kind {
                fs::copy(settings.kernel.join("kernel"), kernel.path().join("kernel")).expect("copied");
                fs::write(kernel.path().join("initrd"), "knows no layers").expect("written");
                settings.kernel = kernel.path().to_owned();
            }
        }
        config.kinds.push(container("runc"));
    };
    let Some(fixture) = QemuFixture::with_config(configure) else { return };
    let (engine, layer, empty) = (fixture.engine(), LayerId::random(), maker(&fixture));
    engine.create(&empty).await.expect("created");
    engine.keep_layer(empty.id, layer).await.expect("a layer");
    let spec = MachineSpec { layers: vec![layer], ..fixture.spec() };
    engine.create(&spec).await.expect("created");
    expect_failed(engine.start(&spec, &boot(1)).await, "run `hotdesk image kernel`");
    assert_eq!(engine.observe(spec.id).await.expect("an observation"), Observation::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_never_booted_is_an_empty_layer() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (spec, layer) = (machine_spec(), LayerId::random());
    fixture.engine.create(&spec).await.expect("created");
    keep(&*fixture.engine, spec.id, layer).await;
    fixture.expect_removed(spec.id);
    let guest = start(&*fixture.engine, &MachineSpec { layers: vec![layer], ..machine_spec() }).await;
    assert_eq!(guest.run("stat -c %a:%u / && ls /etc/debian_version").await, "755:0\n/etc/debian_version");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_programs_is_a_layer_with_the_folders_below() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (engine, [one, two, linked, none]) = (&fixture.engine, [(); 4].map(|()| LayerId::random()));
    let first = machine_spec();
    let guest = start(&**engine, &first).await;
    guest
        .run("chmod 751 /etc; mkdir -p /etc/hotdesk; chmod 711 /etc/hotdesk; touch /etc/hotdesk/other")
        .await;
    keep(&**engine, first.id, one).await;
    let bytes = engine.keep_programs("{}", &[one], two).await.expect("a layer").expect("a written layer");
    assert!((1..1 << 20).contains(&bytes), "{bytes} bytes");
    let again = engine.keep_programs("[]", &[], two).await.expect("left alone");
    assert_eq!(again, Some(bytes));
    let above = MachineSpec { layers: vec![one, two], ..machine_spec() };
    let guest = start(&**engine, &above).await;
    let look = "cd /etc/hotdesk; stat -c '%a %u:%g' / /etc . programs.json; cat programs.json; ls; ls /etc/debian_version";
    let seen = guest.run(look).await;
    let expected = "755 0:0\n751 0:0\n711 0:0\n644 0:0\n{}other\nprograms.json\n/etc/debian_version";
    assert_eq!(seen, expected);
    // A machine follows a link that its user made. The host does not.
    guest.run("rm -r /etc/hotdesk; ln -s /opt /etc/hotdesk").await;
    keep(&**engine, above.id, linked).await;
    let before = entries(&fixture);
    let refused = engine.keep_programs("{}", &[one, two, linked], none).await.expect("an answer");
    assert_eq!((refused, entries(&fixture)), (None, before));
    expect_failed(engine.keep_programs("{}", &[none], LayerId::random()).await, "No such file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_space_writes_no_list_of_programs() {
    let own = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
    let state = own.path().join("state");
    let _small = SmallDisk::mount(own.path(), &state, 500);
    let Some(fixture) = ContainerFixture::in_folder(state, own, NetworkConfig::disabled()) else { return };
    let refused =
        fixture.engine.keep_programs("{}", &[], LayerId::random()).await.expect_err("no disk space");
    assert!(matches!(refused, EngineError::NoCapacity(..)), "{refused:#}");
    assert!(entries(&fixture).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_interrupted_attempt_left_is_removed_unless_it_still_runs() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let id = stopped_machine(&fixture, 1000).await;
    let (root, layer, gone) = (fixture.engine_root().join("layers"), LayerId::random(), ComputerId::random());
    let names = [format!("{layer}.{id}.new"), format!("{layer}.{gone}.new"), format!("{layer}.1.gone")];
    for name in &names {
        fs::create_dir_all(root.join(name).join("rootfs/deep")).expect("a leftover");
    }
    let lock = |path: PathBuf| {
        let opened = fs::File::open(path).expect("a lock");
        rustix::fs::flock(&opened, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("free");
        opened
    };
    // Who copies an imported image has no machine, and locks the folder itself.
    let held = (lock(fixture.folder(id).join("lock")), lock(root.join(&names[1])));
    let import = fixture.engine_root().join("bases/.x.new/rootfs");
    fs::create_dir_all(&import).expect("a leftover");
    drop(fixture.reopen());
    let mut left = names[..2].to_vec();
    left.sort();
    assert_eq!((entries(&fixture), import.exists()), (left, false));
    drop(held);
    drop(fixture.reopen());
    assert!(entries(&fixture).is_empty());
    assert!(fixture.engine.layers().await.expect("a list").is_empty());
    // The next attempt removes its own leftovers.
    fs::create_dir_all(root.join(&names[0]).join("rootfs/old")).expect("a leftover");
    fixture.engine.keep_layer(id, layer).await.expect("a layer");
    assert_eq!(entries(&fixture), [layer.to_string()]);
    assert!(!root.join(layer.to_string()).join("rootfs/old").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_space_makes_no_layer_and_nothing_stays() {
    let own = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
    let state = own.path().join("state");
    let _small = SmallDisk::mount(own.path(), &state, 800);
    let Some(fixture) = ContainerFixture::in_folder(state, own, NetworkConfig::disabled()) else { return };
    let id = stopped_machine(&fixture, 150_000_000).await;
    let refused = fixture.engine.keep_layer(id, LayerId::random()).await.expect_err("no disk space");
    assert!(matches!(refused, EngineError::NoCapacity(..)), "{refused:#}");
    assert!(entries(&fixture).is_empty());
    fixture.engine.destroy(id).await.expect("destroyed");
    fixture.expect_removed(id);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_machine_becomes_a_layer_and_blocks_its_removal_without_its_key() {
    if let Some(skip) = encryption_skip() {
        return skip.report();
    }
    let own = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
    let state = own.path().join("state");
    let _small = SmallDisk::mount_with(own.path(), &state, 2048, &["-O", "encrypt"]);
    let Some(fixture) = ContainerFixture::in_folder(state, own, NetworkConfig::disabled()) else { return };
    let (engine, layer) = (&fixture.engine, LayerId::random());
    let key = FileKey::parse(&Secret::new("0a".repeat(64))).expect("a key");
    let encrypted = async |spec: MachineSpec| {
        engine.encrypt(spec.id, &key).await.expect("encrypted");
        let guest = start(&**engine, &spec).await;
        (spec, guest)
    };
    let (first, guest) = encrypted(machine_spec()).await;
    guest.store("note", "of the layer").await;
    keep(&**engine, first.id, layer).await;
    let (second, guest) = encrypted(MachineSpec { layers: vec![layer], ..machine_spec() }).await;
    assert_eq!(guest.load("note").await.as_deref(), Some("of the layer"));
    engine.stop(second.id, GRACE).await.expect("stopped");
    engine.remove_unused_keys().await.expect("removed");
    expect_failed(engine.remove_layer(layer).await, "does not have its key");
    engine.destroy(second.id).await.expect("destroyed");
    engine.remove_layer(layer).await.expect("removed");
}

const STATE: &str = "HOTDESK_LAYERS_STATE";
const IMAGE: &str = "HOTDESK_LAYERS_IMAGE";
const SOURCE: &str = "HOTDESK_LAYERS_SOURCE";
const LAYER: &str = "HOTDESK_LAYERS_LAYER";

/// Runs as a separate process: the controller that the next test kills.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the victim of another test"]
async fn keeper() {
    let (Some(state), Some(image)) = (std::env::var_os(STATE), std::env::var_os(IMAGE)) else { return };
    let engine = open_engine(container_settings(PathBuf::from(state), PathBuf::from(image), "/bin/true"));
    let text = |name: &str| std::env::var(name).expect("an id");
    let (id, layer) = (text(SOURCE).parse().expect("an id"), text(LAYER).parse().expect("an id"));
    loop {
        engine.keep_layer(id, layer).await.expect("a layer");
        engine.remove_layer(layer).await.expect("removed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_killed_while_it_makes_a_layer_leaves_a_whole_one_or_none() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let id = stopped_machine(&fixture, 100_000_000).await;
    for round in 0..12_u64 {
        let layer = LayerId::random();
        let mut victim = Command::new(std::env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "engines::layers::keeper"])
            .env(STATE, &fixture.config.host.state_dir)
            .env(IMAGE, &fixture.config.host.image)
            .env(SOURCE, id.to_string())
            .env(LAYER, layer.to_string())
            .stdout(Stdio::null())
            .spawn()
            .expect("a controller");
        let started = Instant::now();
        while entries(&fixture).is_empty() {
            assert!(started.elapsed() < END_TIMEOUT, "the layer must be begun");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(round * 13));
        assert!(victim.try_wait().expect("a status").is_none(), "the controller must not end by itself");
        victim.kill().expect("killed");
        victim.wait().expect("reaped");
        let engine = fixture.reopen();
        engine.keep_layer(id, layer).await.expect("a layer");
        // What was being removed goes at the next start.
        drop(fixture.reopen());
        assert_eq!(entries(&fixture), [layer.to_string()], "round {round}");
        let data = fixture.engine_root().join(format!("layers/{layer}/rootfs/root/data"));
        assert_eq!(fs::metadata(data).expect("the data").len(), 100_000_000);
        engine.remove_layer(layer).await.expect("removed");
        assert!(entries(&fixture).is_empty());
    }
}
