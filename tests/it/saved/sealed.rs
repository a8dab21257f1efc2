//! Copies that are sealed with a key of their workspace (`storage.encrypt`). D14 (docs/security.md).

use serde_json::json;

use super::StorageScene;
use super::faults::LOST;
use crate::suspension::assert_refused;

/// First bytes of a part and of a manifest that are not sealed: zstd's magic number (RFC 8878), and JSON.
const PLAIN: [&[u8]; 2] = [&[0x28, 0xb5, 0x2f, 0xfd], b"{\"version\""];

#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_copy_shows_nothing_and_the_computer_wakes_from_it() {
    let storage = StorageScene::boot_sealing().await;
    let scene = &storage.scene;
    assert_eq!(scene.count().await, 1);
    storage.suspend_and_evict().await;
    let names = storage.store.names().await;
    assert!(names.len() >= 5, "{names:?}");
    for name in &names {
        let bytes = storage.store.read(name).await;
        assert!(!PLAIN.iter().any(|plain| bytes.starts_with(plain)), "{name} is not sealed");
    }
    assert_eq!(scene.ask("resume").await.status, 202);
    assert_eq!(scene.count().await, 2, "the memory is restored");
    storage.assert_disk_unchanged();
    // The copy is sealed for the workspace where it was made, also when the computer moves and the workspace goes.
    storage.suspend_again().await;
    storage.until_evicted().await;
    let elsewhere = scene.controller.workspace("elsewhere").await;
    let path = format!("/computers/{}/move", scene.id);
    let moved = scene.controller.patch(&path, json!({"workspace_id": elsewhere})).await;
    assert_eq!(moved.status, 200, "{}", moved.body);
    let removed = scene.controller.delete(&format!("/workspaces/{}", scene.workspace)).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!(scene.ask("resume").await.status, 202);
    assert_eq!(scene.count().await, 3);
    storage.until_empty().await;
    // The key of a removed workspace is removed with the last copy.
    storage.until("no key", || async { storage.workspace_keys().await == 0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_a_sealed_copy_opens_in_its_own_place_only() {
    let storage = StorageScene::boot_sealing().await;
    let scene = &storage.scene;
    assert_eq!(scene.count().await, 1);
    storage.suspend_and_evict().await;
    let parts = storage.objects("part-").await;
    let (first, second) = (storage.store.read(&parts[0]).await, storage.store.read(&parts[1]).await);
    // What this controller sealed itself, in another place.
    storage.store.write(&parts[0], &second).await;
    assert_refused(&scene.ask("resume").await, 503, Some("saved_state_unavailable"), LOST);
    storage.store.write(&parts[0], &first).await;
    assert_eq!(scene.ask("resume").await.status, 202);
    storage.assert_disk_unchanged();
}
