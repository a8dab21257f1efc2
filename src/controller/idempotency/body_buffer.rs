//! Where is the body of a keyed request until all of it is there? A short one in memory, a long one in a file without a name in the
//! data folder, which is gone with whoever held it, also by signal 9.
//!
//! It is read to its end, and its digest made on the way, before anything is noted: who hangs up meanwhile has asked for nothing.
//! What an account and all of them have there is bounded by bytes, counted by the mebibyte as they come.

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

use super::takes::{MAX_STREAM, Takes};
use crate::files::MAX_FORM;
use crate::storage::{self, Storage};
use hotdesk_base::ids::AccountId;
use hotdesk_base::tally::{Seat, Tally};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::extract::MAX_JSON_BYTES;

/// Longest body in memory, in bytes: what a JSON route takes is there without a key too.
const IN_MEMORY: usize = MAX_JSON_BYTES;
/// The unit in which files are counted, in bytes.
const UNIT: u64 = 1024 * 1024;
/// Uploads for which there is room beside a body of the longest.
const UPLOADS: u64 = 100;
/// Units of one account: a body of the longest, and uploads beside it.
const MOST_OF_ACCOUNT: usize = (MAX_STREAM / UNIT + UPLOADS * MAX_FORM.div_ceil(UNIT)) as usize;
/// Units of all accounts: three that do their most leave as much to the others, and the disk holds no more than that.
const MOST: usize = 4 * MOST_OF_ACCOUNT;
/// Bytes that are read back at once.
const PIECE: u64 = 128 * 1024;
/// Longest pause of a sender: the agent gives up a silent one after as long. Who takes room on the disk has to fill each unit
/// of it within that time, 280 kbit/s, so that nobody keeps it by a byte now and then.
const PAUSE: Duration = Duration::from_secs(30);
/// When a client may try again that found no room, in seconds: an upload of 10 MiB is through by then.
const RETRY_SECONDS: u32 = 5;

/// The bodies that are arriving, or were not let go of yet.
pub struct Spools {
    folder: PathBuf,
    storage: Storage,
    of_account: Tally<AccountId>,
    of_all: Tally<()>,
    /// Units that an account, and all of them, may have.
    most: (usize, usize),
    /// [`PAUSE`].
    pause: Duration,
}

/// A body that is all there.
pub(super) struct Spooled {
    content: Content,
    /// SHA-256 of its bytes.
    pub(super) digest: [u8; 32],
}

enum Content {
    Memory(Bytes),
    Disk(Arc<Stored>),
}

/// A file without a name, and its room, which is given back with it.
struct Stored {
    file: File,
    size: u64,
    _room: Vec<Room>,
}

/// One unit, counted for an account and for all.
type Room = (Seat<AccountId>, Seat<()>);

/// A file that is being written.
struct Filling {
    account: AccountId,
    file: tokio::fs::File,
    size: u64,
    room: Vec<Room>,
    /// When its last unit was begun.
    unit_began: Instant,
}

impl Spools {
    /// None yet; files are made in `folder`, on the same disk as `storage`.
    pub fn new(folder: PathBuf, storage: Storage) -> Self {
        let most = (MOST_OF_ACCOUNT, MOST);
        Self { folder, storage, of_account: Tally::default(), of_all: Tally::default(), most, pause: PAUSE }
    }

    /// Reads a body to its end.
    ///
    /// # Errors
    /// `TooLarge`; `Invalid` when the client breaks off or is too slow; `Unavailable` without room.
    pub(super) async fn take(&self, body: Body, account: AccountId, takes: &Takes) -> Result<Spooled> {
        if body.size_hint().lower() > takes.most {
            return Err(too_large(takes.most));
        }
        let read = tokio::time::timeout(takes.patience, self.read(body, account, takes.most)).await;
        read.unwrap_or_else(|_| Err(late()))
    }

    async fn read(&self, mut body: Body, account: AccountId, most: u64) -> Result<Spooled> {
        let (mut size, mut hasher) = (0_u64, Sha256::new());
        let (mut memory, mut filling): (Vec<u8>, Option<Filling>) = (Vec::new(), None);
        loop {
            let since = filling.as_ref().map_or_else(Instant::now, |filling| filling.unit_began);
            let Some(data) = next(&mut body, since + self.pause).await? else { break };
            size += data.len() as u64;
            if size > most {
                return Err(too_large(most));
            }
            hasher.update(&data);
            if filling.is_none() && memory.len() + data.len() > IN_MEMORY {
                let mut begun = self.begin(account).await?;
                self.add(&mut begun, &std::mem::take(&mut memory)).await?;
                filling = Some(begun);
            }
            match &mut filling {
                Some(filling) => self.add(filling, &data).await?,
                None => memory.extend_from_slice(&data),
            }
        }
        let content = match filling {
            Some(filling) => Content::Disk(Arc::new(self.end(filling).await?)),
            None => Content::Memory(memory.into()),
        };
        Ok(Spooled { content, digest: hasher.finalize().into() })
    }

    async fn begin(&self, account: AccountId) -> Result<Filling> {
        let folder = self.folder.clone();
        let made = tokio::task::spawn_blocking(move || tempfile::tempfile_in(folder)).await;
        let file = made.map_err(Error::internal)?.map_err(|error| self.failed("make", &error))?;
        let file = tokio::fs::File::from_std(file);
        Ok(Filling { account, file, size: 0, room: Vec::new(), unit_began: Instant::now() })
    }

    async fn add(&self, filling: &mut Filling, data: &[u8]) -> Result<()> {
        filling.size += data.len() as u64;
        while filling.room.len() as u64 * UNIT < filling.size {
            self.storage.check_room()?;
            filling.room.push(self.unit(filling.account)?);
            filling.unit_began = Instant::now();
        }
        filling.file.write_all(data).await.map_err(|error| self.failed("write", &error))
    }

    async fn end(&self, mut filling: Filling) -> Result<Stored> {
        // Only a flush tells whether the last write failed. Nothing is synced: after a crash nobody looks for it.
        filling.file.flush().await.map_err(|error| self.failed("write", &error))?;
        let file = filling.file.into_std().await;
        Ok(Stored { file, size: filling.size, _room: filling.room })
    }

    fn unit(&self, account: AccountId) -> Result<Room> {
        let (of_account, of_all) = self.most;
        let own = self.of_account.admit(account, of_account).ok_or_else(|| {
            full("Your account sends too much with Idempotency-Keys at once: wait for some of it to be done")
        })?;
        let all = self.of_all.admit((), of_all);
        Ok((own, all.ok_or_else(|| full("Too much is being sent with Idempotency-Keys: try again"))?))
    }

    fn failed(&self, step: &str, error: &io::Error) -> Error {
        storage::failed(step, &self.folder.join("(the body of a keyed request)"), error)
    }
}

impl Spooled {
    /// The body, from its beginning; may be asked for again.
    pub(super) fn body(&self) -> Body {
        match &self.content {
            Content::Memory(bytes) => Body::from(bytes.clone()),
            Content::Disk(stored) => Body::from_stream(pieces(Arc::clone(stored))),
        }
    }
}

impl Stored {
    fn piece(&self, at: u64) -> io::Result<Bytes> {
        let length = usize::try_from((self.size - at).min(PIECE)).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes.into())
    }
}

/// Read by place, since several may read at a time.
fn pieces(stored: Arc<Stored>) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::try_unfold(0, move |at: u64| {
        let stored = Arc::clone(&stored);
        async move {
            if at >= stored.size {
                return Ok::<_, io::Error>(None);
            }
            let read = tokio::task::spawn_blocking(move || stored.piece(at)).await;
            let piece = read.map_err(io::Error::other)??;
            let next = at + piece.len() as u64;
            Ok(Some((piece, next)))
        }
    })
}

/// The next bytes of a body, which come `by` then; `None` at its end.
async fn next(body: &mut Body, by: Instant) -> Result<Option<Bytes>> {
    loop {
        let Ok(frame) = tokio::time::timeout_at(by, body.frame()).await else { return Err(late()) };
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|error| Error::invalid("the request body broke off").context(error))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

fn late() -> Error {
    Error::invalid("the request body did not arrive in time")
}

fn too_large(most: u64) -> Error {
    Error::too_large(format!(
        "the request body is larger than {most} bytes, the most of this operation with an Idempotency-Key"
    ))
}

fn full(message: &str) -> Error {
    Error::unavailable(message).retry_after(RETRY_SECONDS)
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    fn takes(most: u64) -> Takes {
        Takes { most, patience: PAUSE, form: false, fields: Vec::new() }
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
    async fn a_body_is_read_again_as_it_came_and_its_room_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::open(folder.path(), "secret").unwrap();
        let spools = Spools { most: (6, 8), ..Spools::new(folder.path().to_owned(), storage) };
        let (one, other) = (AccountId::random(), AccountId::random());
        let long: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
        for bytes in [&b""[..], b"short", &long[..IN_MEMORY], &long[..=IN_MEMORY], &long] {
            let spooled = spools.take(chunks(bytes), one, &takes(1 << 30)).await.unwrap();
            assert_eq!(spooled.digest, <[u8; 32]>::from(Sha256::digest(bytes)));
            for _ in 0..2 {
                assert_eq!(whole(spooled.body()).await, bytes);
            }
        }
        assert_eq!((spools.of_account.count(&one), spools.of_all.count(&())), (0, 0));
        // A body keeps its room for as long as somebody reads it.
        let held = spools.take(chunks(&long), one, &takes(1 << 30)).await.unwrap().body();
        assert_eq!(spools.of_account.count(&one), 5);
        for (account, why) in [(one, "Your account"), (other, "Too much")] {
            let refused = spools.take(chunks(&long), account, &takes(1 << 30)).await.err().expect("no room");
            assert!(refused.message.starts_with(why), "{refused}");
            assert_eq!(refused.retry_after, Some(RETRY_SECONDS));
        }
        assert_eq!((spools.of_account.count(&one), spools.of_account.count(&other)), (5, 0));
        drop(held);
        assert!(spools.take(chunks(&long), other, &takes(1 << 30)).await.is_ok());
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "the files have no names: {names:?}");
    }

    /// Three mebibytes at once, and so many pieces after them, each after a moment.
    fn slowly(pieces: usize, size: usize, pause: Duration) -> Body {
        let first = stream::once(async { Ok::<_, io::Error>(Bytes::from(vec![0; 3 << 20])) });
        let rest = stream::unfold(pieces, move |left| async move {
            let left = left.checked_sub(1)?;
            tokio::time::sleep(pause).await;
            Some((Ok::<_, io::Error>(Bytes::from(vec![0; size])), left))
        });
        Body::from_stream(first.chain(rest))
    }

    #[tokio::test]
    async fn who_takes_room_fills_it_or_gives_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::open(folder.path(), "secret").unwrap();
        let pause = Duration::from_secs(6);
        let spools = Spools { pause, ..Spools::new(folder.path().to_owned(), storage) };
        let (slow, trickle, takes) = (AccountId::random(), AccountId::random(), takes(1 << 30));
        // Both take longer than the pause; one brings a unit at a time and the other a byte.
        let (whole, refused) = tokio::join!(
            spools.take(slowly(5, 1 << 20, Duration::from_millis(1500)), slow, &takes),
            spools.take(slowly(150, 1, Duration::from_millis(100)), trickle, &takes)
        );
        assert!(whole.is_ok());
        assert!(refused.err().expect("it is too slow").message.contains("did not arrive in time"));
        assert_eq!(spools.of_account.count(&trickle), 0);
    }

    #[tokio::test]
    async fn what_is_too_large_or_breaks_off_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::open(folder.path(), "secret").unwrap();
        let spools = Spools::new(folder.path().to_owned(), storage);
        let account = AccountId::random();
        assert!(spools.take(chunks(b"12345"), account, &takes(5)).await.is_ok());
        for body in [chunks(b"123456"), Body::from("123456")] {
            let refused = spools.take(body, account, &takes(5)).await.err().expect("too large");
            assert_eq!(refused.kind, hotdesk_domain::error::Kind::TooLarge);
        }
        let broken = stream::iter([Ok(Bytes::from(vec![0_u8; 3_000_000])), Err(io::Error::other("gone"))]);
        let refused = spools.take(Body::from_stream(broken), account, &takes(1 << 30)).await;
        assert_eq!(refused.err().expect("it broke off").kind, hotdesk_domain::error::Kind::Invalid);
        assert_eq!(spools.of_account.count(&account), 0);
    }
}
