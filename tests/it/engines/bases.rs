//! Layers of imported images.

use std::fs;

use hotdesk::base::ids::LayerId;
use hotdesk::engine::{BASE_RECORD, BaseFolder, BaseRecord, EngineError, NetworkConfig, discard_base};

use super::host::ContainerFixture;
use super::layers::{entries, expect_failed};
use crate::harness::small_disk::SmallDisk;

/// Size of a disk that has less free than the host leaves, in MiB.
const SMALL: u64 = 500;

/// Gives the image `lab` a file with an id.
fn publish(bases: &BaseFolder, id: &str) {
    let fresh = bases.path().join(".x.new");
    fs::create_dir_all(fresh.join("rootfs/etc")).expect("an image");
    fs::write(fresh.join("rootfs/etc/id"), id).expect("a file");
    let record = BaseRecord { id: id.into(), source: "x".into(), system: "x".into(), bytes: 1 };
    fs::write(fresh.join(BASE_RECORD), serde_json::to_string(&record).expect("JSON")).expect("a record");
    bases.publish(&fresh, "lab").expect("published");
    discard_base(&fresh).expect("removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_has_the_files_of_the_imported_image_that_was_planned() {
    let Some(fixture) = ContainerFixture::without_network() else { return };
    let (engine, bases) = (&fixture.engine, BaseFolder::lock(&fixture.engine_root()).expect("a folder"));
    publish(&bases, "first");
    let (layer, other) = (LayerId::random(), LayerId::random());
    engine.keep_base("lab", "first", layer).await.expect("a layer");
    publish(&bases, "second");
    expect_failed(engine.keep_base("lab", "first", other).await, "replaced or removed");
    // A removal holds the lock.
    let folder = fs::File::open(bases.path().join("lab")).expect("a folder");
    rustix::fs::flock(&folder, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("free");
    expect_failed(engine.keep_base("lab", "second", other).await, "replaced or removed");
    drop(folder);
    engine.keep_base("lab", "second", other).await.expect("a layer");
    assert!(bases.remove("lab").expect("removed") && !bases.remove("lab").expect("gone"));
    expect_failed(engine.keep_base("lab", "second", LayerId::random()).await, "replaced or removed");
    for (layer, id) in [(layer, "first"), (other, "second")] {
        let path = fixture.engine_root().join(format!("layers/{layer}/rootfs/etc/id"));
        assert_eq!(fs::read_to_string(path).expect("a file"), id);
        engine.remove_layer(layer).await.expect("removed");
    }
    assert!(entries(&fixture).is_empty());
    assert_eq!(fs::read_dir(bases.path()).expect("a folder").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_space_makes_no_layer_of_an_image() {
    let own = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a temporary folder");
    let state = own.path().join("state");
    let _small = SmallDisk::mount(own.path(), &state, SMALL);
    let Some(fixture) = ContainerFixture::in_folder(state, own, NetworkConfig::disabled()) else { return };
    let bases = BaseFolder::lock(&fixture.engine_root()).expect("a folder");
    publish(&bases, "first");
    let refused = fixture.engine.keep_base("lab", "first", LayerId::random()).await.expect_err("no space");
    assert!(matches!(refused, EngineError::NoCapacity(..)), "{refused:#}");
    assert!(entries(&fixture).is_empty());
}
