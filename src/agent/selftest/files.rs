//! Self-test of files: a file is written and read back, with the speed of both.

use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hotdesk_http::extract::Body;
use sha2::{Digest, Sha256};

use super::TestContext;
use super::outcome::{CheckResult, Measurement};
use crate::files::write::upload;
use crate::files::{blocking, read};
use hotdesk_base::hex::hex;
use hotdesk_domain::error::Error;
use hotdesk_wire::files::guest_file::PutQuery;

/// Size of the file in bytes.
const BYTES: usize = 1024 * 1024;

pub(super) async fn check(context: &TestContext) -> CheckResult {
    // All words differ, so that an exchanged or repeated block is found.
    let content: Vec<u8> =
        (0..BYTES as u32 / 4).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let path = context.folder.join("file").to_string_lossy().into_owned();
    let query = PutQuery { path: path.clone(), parents: true, ..PutQuery::default() };
    let (agent, home) = (&context.agent, context.agent.home.clone());
    let began = Instant::now();
    let uploaded = upload::put(&agent.files, home.clone(), query, None, Body::from(content.clone())).await?;
    let wrote = began.elapsed();
    let began = Instant::now();
    let back = blocking(move || {
        let opened = read::open(&home, &path)?;
        let mut back = Vec::with_capacity(BYTES);
        let read = opened.file.take(BYTES as u64 + 1).read_to_end(&mut back);
        read.map_err(|error| Error::internal(format!("cannot read {path}: {error}")))?;
        Ok(back)
    });
    let back = back.await?;
    let read = began.elapsed();
    let same = back == content && uploaded.written.sha256 == hex(&Sha256::digest(&content));
    let rate = |took: Duration| BYTES as f64 / 1e6 / took.as_secs_f64().max(1e-6);
    Measurement::new("a file of 1 MiB was written and read back unchanged")
        .with("write_mb_per_s", rate(wrote))
        .with("read_mb_per_s", rate(read))
        .pass_if(same, || {
            format!("a file of {BYTES} bytes was written, and {} other bytes were read back", back.len())
        })
}

/// Removes the test's folder if it exists. A failure is only logged.
pub(super) async fn remove_folder(folder: PathBuf) {
    let shown = folder.display().to_string();
    let removed = hotdesk_base::tasks::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
    match removed {
        Ok(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, folder = shown, "cannot remove the folder of a self-test");
        }
        Err(error) => {
            tracing::warn!(%error, folder = shown, "the task that removes the folder of a self-test failed")
        }
        Ok(Ok(()) | Err(_)) => {}
    }
}
