//! Do files come back as they were written, and how fast?

use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use axum::body::Body;
use sha2::{Digest, Sha256};

use super::Stage;
use super::finding::{Found, Measured};
use crate::files::{blocking, read, upload};
use hotdesk_base::hex::hex;
use hotdesk_domain::error::Error;
use hotdesk_wire::guest_file::PutQuery;

/// Size of the file.
const BYTES: usize = 1024 * 1024;

pub(super) async fn check(stage: &Stage) -> Found {
    // No two blocks are alike.
    let content: Vec<u8> =
        (0..BYTES as u32 / 4).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let path = stage.folder.join("file").to_string_lossy().into_owned();
    let query = PutQuery { path: path.clone(), parents: true, ..PutQuery::default() };
    let (agent, home) = (&stage.agent, stage.agent.home.clone());
    let began = Instant::now();
    let written = upload::put(&agent.files, home.clone(), query, Body::from(content.clone())).await?;
    let wrote = began.elapsed();
    let began = Instant::now();
    let back = blocking(move || {
        let opened = read::open(&home, &path)?;
        let mut back = Vec::with_capacity(BYTES);
        let read = opened.file.take(BYTES as u64 + 1).read_to_end(&mut back);
        read.map_err(|error| Error::internal(format!("{path}: {error}")))?;
        Ok(back)
    });
    let back = back.await?;
    let read = began.elapsed();
    let same = back == content && written.sha256 == hex(&Sha256::digest(&content));
    let rate = |took: Duration| BYTES as f64 / 1e6 / took.as_secs_f64().max(1e-6);
    Measured::new("a file of 1 MiB came back as it was written")
        .with("write_mb_per_s", rate(wrote))
        .with("read_mb_per_s", rate(read))
        .only_if(same, || format!("a file of {BYTES} bytes came back as another of {}", back.len()))
}

/// Removes the test's folder, where there is one.
pub(super) async fn take_away(folder: PathBuf) {
    let shown = folder.display().to_string();
    let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
    match removed {
        Ok(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, folder = shown, "could not remove a self-test's folder");
        }
        Err(error) => tracing::warn!(%error, folder = shown, "removing a self-test's folder broke down"),
        Ok(Ok(()) | Err(_)) => {}
    }
}
