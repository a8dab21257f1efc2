//! Space that an import of an image leaves on the disk.

use std::fs;

use super::imports::{Registry, architecture, debian, gzip, is_root, layer, refusal, write_layout};
use crate::harness::small_disk::SmallDisk;

/// Bytes of a disk that has less free than an import leaves.
const SMALL_MIB: u64 = 256;

#[tokio::test(flavor = "multi_thread")]
async fn an_import_leaves_the_reserve_of_the_disk() {
    if !is_root() {
        return;
    }
    let temp = tempfile::Builder::new().prefix("hotdesk-").tempdir().expect("a folder");
    let (data, layout) = (temp.path().join("data"), temp.path().join("layout"));
    let _small = SmallDisk::mount(temp.path(), &data, SMALL_MIB);
    write_layout(&layout, architecture(), &[gzip(&layer(&debian()))]);
    let registry = Registry::serve(layout.clone()).await;
    for (source, step) in [
        (layout.to_string_lossy().into_owned(), "cannot extract usr/lib/os-release: "),
        (format!("{}/team/debian:1", registry.address), "cannot pull sha256:"),
    ] {
        let error = refusal(&data, &source, &[]);
        assert!(error.contains(step) && error.contains("512 MiB reserved"), "{source}: {error}");
    }
    assert!(fs::read_dir(data.join("bases")).expect("a folder").next().is_none());
}
