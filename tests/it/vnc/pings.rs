//! Memory of the controller under floods of pings from a viewer that may only watch (T12, docs/security.md).

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{create_ticket, open_viewer};
use crate::harness::controller::RunningController;
use crate::harness::process::memory_kib;

/// Sockets that flood at once.
const SOCKETS: usize = 8;
/// Bytes of pings of one socket: 600 MiB in all.
const BYTES: usize = 75 << 20;
/// Memory in KiB that the controller may gain: buffers of the sockets. The pongs alone would be 600 MiB.
const MOST_GAINED_KIB: u64 = 20 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn t12_pings_of_a_viewer_that_reads_nothing_fill_no_memory() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let mut viewers = Vec::new();
    for _ in 0..SOCKETS {
        let ticket = create_ticket(&controller, &id, json!({"mode": "view"})).await;
        let url = ticket["ws_url"].as_str().expect("a URL");
        let path = &url[url.find("/desktops/").expect("a path")..];
        viewers.push(open_viewer(&controller, path).await);
    }
    let before = memory_kib(controller.pid(), "VmRSS:");
    // A masked ping with the longest payload.
    let ping = [&[0x89, 0x80 | 125, 0, 0, 0, 0][..], &[b'x'; 125]].concat();
    let piece = ping.repeat(512);
    let piece = &piece;
    let floods = viewers.iter_mut().map(|viewer| async move {
        let mut sent = 0;
        while sent < BYTES && viewer.0.get_mut().write_all(piece).await.is_ok() {
            sent += piece.len();
        }
        sent
    });
    let sent = join_all(floods).await;
    let peak = memory_kib(controller.pid(), "VmHWM:");
    assert!(sent.iter().all(|sent| *sent < BYTES), "every flood is cut off: {sent:?}");
    assert!(peak < before + MOST_GAINED_KIB, "{before} KiB before, a peak of {peak} KiB");
    assert_eq!(controller.get("/workspaces").await.status, 200);
}
