//! Buffered bodies of requests with an idempotency key.
//!
//! A short body is in memory. A long one is in an unnamed file in the data folder, which disappears with its
//! process, even after SIGKILL.
//!
//! A body is received completely, and its digest computed, before the request is recorded. A disconnect
//! before that has no effect. Disk space is limited for each account and in total, in units of a mebibyte.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use futures_util::{Stream, stream};
use http_body_util::BodyExt;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use super::limits::{BodyLimits, MAX_STREAM};
use crate::data_dir::blobs::{self, BlobStore};
use crate::data_dir::files::MAX_FORM;
use hotdesk_base::ids::AccountId;
use hotdesk_base::keyed_semaphore::{KeyedSemaphore, Permit};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::extract::MAX_JSON_BYTES;

/// Longest body in memory in bytes: the same as of a JSON request without a key.
const MAX_IN_MEMORY: usize = MAX_JSON_BYTES;
/// Unit in which files are counted, in bytes.
const UNIT: u64 = 1024 * 1024;
/// Uploads that fit beside one body of the greatest length.
const EXTRA_UPLOADS: u64 = 100;
/// Units of one account: one body of the greatest length, and uploads beside it.
const MAX_UNITS_OF_ACCOUNT: usize = (MAX_STREAM / UNIT + EXTRA_UPLOADS * MAX_FORM.div_ceil(UNIT)) as usize;
/// Units of all accounts: three accounts at their limit leave as much to the others. It also bounds the use
/// of the disk.
const MAX_UNITS: usize = 4 * MAX_UNITS_OF_ACCOUNT;
/// Bytes that are read back at once.
const CHUNK: u64 = 128 * 1024;
/// Longest pause of a sender; the agent uses the same. A sender must fill each unit of disk within it (280
/// kbit/s), so that a trickle of bytes cannot occupy space.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Seconds after which a client may retry that exceeded the quota. An upload of 10 MiB is complete by then.
const RETRY_SECONDS: u32 = 5;

/// Bodies that are being received or are still in use.
pub struct BodyBuffers {
    folder: PathBuf,
    blobs: BlobStore,
    of_account: KeyedSemaphore<AccountId>,
    of_all: KeyedSemaphore<()>,
    /// Units allowed for an account, and for all accounts.
    most: (usize, usize),
    /// [`MAX_PAUSE`].
    pause: Duration,
}

/// Completely received body.
pub(super) struct BufferedBody {
    content: Content,
    /// SHA-256 of its bytes.
    pub(super) digest: [u8; 32],
}

enum Content {
    Memory(Bytes),
    Disk(Arc<BodyFile>),
}

/// Unnamed file with its permits, which are released together.
struct BodyFile {
    file: File,
    size: u64,
    _permits: Vec<UnitPermit>,
}

/// Permit for one unit of an account, and of all accounts.
type UnitPermit = (Permit<AccountId>, Permit<()>);

/// File that is being written.
struct BodyFileWriter {
    account: AccountId,
    file: tokio::fs::File,
    size: u64,
    permits: Vec<UnitPermit>,
    /// Start of its last unit.
    unit_began: Instant,
}

impl BodyBuffers {
    /// Creates an empty set. Files are created in `folder`, on the same disk as `blobs`.
    pub fn new(folder: PathBuf, blobs: BlobStore) -> Self {
        let most = (MAX_UNITS_OF_ACCOUNT, MAX_UNITS);
        Self {
            folder,
            blobs,
            of_account: KeyedSemaphore::default(),
            of_all: KeyedSemaphore::default(),
            most,
            pause: MAX_PAUSE,
        }
    }

    /// Receives a body to its end.
    ///
    /// # Errors
    /// `TooLarge`; `Invalid` when the client disconnects or is too slow; `Unavailable` when the quota is
    /// exceeded or the disk is full.
    pub(super) async fn receive(
        &self,
        body: Body,
        account: AccountId,
        limits: &BodyLimits,
    ) -> Result<BufferedBody> {
        if body.size_hint().lower() > limits.most {
            return Err(too_large(limits.most));
        }
        let read = tokio::time::timeout(limits.timeout, self.read(body, account, limits.most)).await;
        read.unwrap_or_else(|_| Err(too_slow()))
    }

    async fn read(&self, mut body: Body, account: AccountId, most: u64) -> Result<BufferedBody> {
        let (mut size, mut hasher) = (0_u64, Sha256::new());
        let (mut memory, mut writer): (Vec<u8>, Option<BodyFileWriter>) = (Vec::new(), None);
        loop {
            let since = writer.as_ref().map_or_else(Instant::now, |writer| writer.unit_began);
            let Some(data) = next(&mut body, since + self.pause).await? else { break };
            size += data.len() as u64;
            if size > most {
                return Err(too_large(most));
            }
            hasher.update(&data);
            if writer.is_none() && memory.len() + data.len() > MAX_IN_MEMORY {
                let mut begun = self.begin(account).await?;
                self.add(&mut begun, &std::mem::take(&mut memory)).await?;
                writer = Some(begun);
            }
            match &mut writer {
                Some(writer) => self.add(writer, &data).await?,
                None => memory.extend_from_slice(&data),
            }
        }
        let content = match writer {
            Some(writer) => Content::Disk(Arc::new(self.end(writer).await?)),
            None => Content::Memory(memory.into()),
        };
        Ok(BufferedBody { content, digest: hasher.finalize().into() })
    }

    async fn begin(&self, account: AccountId) -> Result<BodyFileWriter> {
        let folder = self.folder.clone();
        let made = tokio::task::spawn_blocking(move || tempfile::tempfile_in(folder)).await;
        let file = made.map_err(Error::internal)?.map_err(|error| self.failed("make", &error))?;
        let file = tokio::fs::File::from_std(file);
        Ok(BodyFileWriter { account, file, size: 0, permits: Vec::new(), unit_began: Instant::now() })
    }

    async fn add(&self, writer: &mut BodyFileWriter, data: &[u8]) -> Result<()> {
        writer.size += data.len() as u64;
        while writer.permits.len() as u64 * UNIT < writer.size {
            self.blobs.check_free_space()?;
            writer.permits.push(self.unit(writer.account)?);
            writer.unit_began = Instant::now();
        }
        writer.file.write_all(data).await.map_err(|error| self.failed("write", &error))
    }

    async fn end(&self, mut writer: BodyFileWriter) -> Result<BodyFile> {
        // Only a flush reports whether the last write failed. The file is not synced, because it is useless
        // after a crash.
        writer.file.flush().await.map_err(|error| self.failed("write", &error))?;
        let file = writer.file.into_std().await;
        Ok(BodyFile { file, size: writer.size, _permits: writer.permits })
    }

    fn unit(&self, account: AccountId) -> Result<UnitPermit> {
        let (of_account, of_all) = self.most;
        let own = self.of_account.try_acquire(account, of_account).ok_or_else(|| {
            over_quota(
                "Your account sends too many bytes with Idempotency-Keys: wait for some requests to end",
            )
        })?;
        let all = self.of_all.try_acquire((), of_all);
        Ok((
            own,
            all.ok_or_else(|| {
                over_quota("Too many bytes are being received with Idempotency-Keys: try again")
            })?,
        ))
    }

    fn failed(&self, step: &str, error: &io::Error) -> Error {
        blobs::failed(step, &self.folder.join("(the body of a keyed request)"), error)
    }
}

impl BufferedBody {
    /// Returns the body from its beginning; can be called repeatedly.
    pub(super) fn body(&self) -> Body {
        match &self.content {
            Content::Memory(bytes) => Body::from(bytes.clone()),
            Content::Disk(stored) => Body::from_stream(chunks_of(Arc::clone(stored))),
        }
    }
}

impl BodyFile {
    fn chunk(&self, at: u64) -> io::Result<Bytes> {
        let length = usize::try_from((self.size - at).min(CHUNK)).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes.into())
    }
}

/// Reads by offset, because several readers may read concurrently.
fn chunks_of(stored: Arc<BodyFile>) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::try_unfold(0, move |at: u64| {
        let stored = Arc::clone(&stored);
        async move {
            if at >= stored.size {
                return Ok::<_, io::Error>(None);
            }
            let read = tokio::task::spawn_blocking(move || stored.chunk(at)).await;
            let chunk = read.map_err(io::Error::other)??;
            let next = at + chunk.len() as u64;
            Ok(Some((chunk, next)))
        }
    })
}

/// Returns the next bytes of a body, which must arrive before `by`; `None` at its end.
async fn next(body: &mut Body, by: Instant) -> Result<Option<Bytes>> {
    loop {
        let Ok(frame) = tokio::time::timeout_at(by, body.frame()).await else { return Err(too_slow()) };
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|error| Error::invalid("the request body ended early").context(error))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

fn too_slow() -> Error {
    Error::invalid("the request body did not arrive in time")
}

fn too_large(most: u64) -> Error {
    Error::too_large(format!(
        "the request body is larger than {most} bytes, the most of this operation with an Idempotency-Key"
    ))
}

fn over_quota(message: &str) -> Error {
    Error::unavailable(message).retry_after(RETRY_SECONDS)
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    fn limits(most: u64) -> BodyLimits {
        BodyLimits { most, timeout: MAX_PAUSE, form: false, fields: Vec::new() }
    }

    fn chunks(bytes: &[u8]) -> Body {
        let chunks: Vec<_> =
            bytes.chunks(300_000).map(|chunk| Ok::<_, io::Error>(Bytes::copy_from_slice(chunk))).collect();
        Body::from_stream(stream::iter(chunks))
    }

    async fn whole(body: Body) -> Bytes {
        body.collect().await.expect("a body").to_bytes()
    }

    #[tokio::test]
    async fn a_body_is_readable_twice_and_its_permits_are_released() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(folder.path(), "secret").unwrap();
        let body_buffers = BodyBuffers { most: (6, 8), ..BodyBuffers::new(folder.path().to_owned(), blobs) };
        let (one, other) = (AccountId::random(), AccountId::random());
        let long: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
        for bytes in [&b""[..], b"short", &long[..MAX_IN_MEMORY], &long[..=MAX_IN_MEMORY], &long] {
            let buffered = body_buffers.receive(chunks(bytes), one, &limits(1 << 30)).await.unwrap();
            assert_eq!(buffered.digest, <[u8; 32]>::from(Sha256::digest(bytes)));
            for _ in 0..2 {
                assert_eq!(whole(buffered.body()).await, bytes);
            }
        }
        assert_eq!((body_buffers.of_account.count(&one), body_buffers.of_all.count(&())), (0, 0));
        // The permits are held while a reader exists.
        let held = body_buffers.receive(chunks(&long), one, &limits(1 << 30)).await.unwrap().body();
        assert_eq!(body_buffers.of_account.count(&one), 5);
        for (account, why) in [(one, "Your account"), (other, "Too many")] {
            let refused = body_buffers
                .receive(chunks(&long), account, &limits(1 << 30))
                .await
                .err()
                .expect("no permits");
            assert!(refused.message.starts_with(why), "{refused}");
            assert_eq!(refused.retry_after, Some(RETRY_SECONDS));
        }
        assert_eq!((body_buffers.of_account.count(&one), body_buffers.of_account.count(&other)), (5, 0));
        drop(held);
        assert!(body_buffers.receive(chunks(&long), other, &limits(1 << 30)).await.is_ok());
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "the files have no names: {names:?}");
    }

    /// Three mebibytes at once, and this many chunks after them, each after a pause.
    fn slowly(chunks: usize, size: usize, pause: Duration) -> Body {
        let first = stream::once(async { Ok::<_, io::Error>(Bytes::from(vec![0; 3 << 20])) });
        let rest = stream::unfold(chunks, move |left| async move {
            let left = left.checked_sub(1)?;
            tokio::time::sleep(pause).await;
            Some((Ok::<_, io::Error>(Bytes::from(vec![0; size])), left))
        });
        Body::from_stream(first.chain(rest))
    }

    #[tokio::test]
    async fn a_sender_that_fills_its_units_too_slowly_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(folder.path(), "secret").unwrap();
        let pause = Duration::from_secs(6);
        let body_buffers = BodyBuffers { pause, ..BodyBuffers::new(folder.path().to_owned(), blobs) };
        let (slow, trickle, limits) = (AccountId::random(), AccountId::random(), limits(1 << 30));
        // Both take longer than the pause; one brings a unit at a time and the other a byte.
        let (whole, refused) = tokio::join!(
            body_buffers.receive(slowly(5, 1 << 20, Duration::from_millis(1500)), slow, &limits),
            body_buffers.receive(slowly(150, 1, Duration::from_millis(100)), trickle, &limits)
        );
        assert!(whole.is_ok());
        assert!(refused.err().expect("it is too slow").message.contains("did not arrive in time"));
        assert_eq!(body_buffers.of_account.count(&trickle), 0);
    }

    #[tokio::test]
    async fn a_large_or_incomplete_body_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobStore::open(folder.path(), "secret").unwrap();
        let body_buffers = BodyBuffers::new(folder.path().to_owned(), blobs);
        let account = AccountId::random();
        assert!(body_buffers.receive(chunks(b"12345"), account, &limits(5)).await.is_ok());
        for body in [chunks(b"123456"), Body::from("123456")] {
            let refused = body_buffers.receive(body, account, &limits(5)).await.err().expect("too large");
            assert_eq!(refused.kind, hotdesk_domain::error::Kind::TooLarge);
        }
        let broken = stream::iter([Ok(Bytes::from(vec![0_u8; 3_000_000])), Err(io::Error::other("gone"))]);
        let refused = body_buffers.receive(Body::from_stream(broken), account, &limits(1 << 30)).await;
        assert_eq!(refused.err().expect("it broke off").kind, hotdesk_domain::error::Kind::Invalid);
        assert_eq!(body_buffers.of_account.count(&account), 0);
    }
}
