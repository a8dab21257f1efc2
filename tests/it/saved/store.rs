//! In-memory object store with faults: it can wait, fail, and lose or change bytes.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use hotdesk::objects::Objects;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::watch;

/// Timeout of a store request: long enough for a busy machine, short enough for requests that hang on
/// purpose.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A corruption of bytes on their way into the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// The second half is missing.
    Truncated,
    /// One bit differs.
    Flipped,
    /// Nothing is stored, although the response is a success.
    Lost,
}

#[derive(Debug)]
pub struct FaultyStore {
    inner: InMemory,
    open: watch::Sender<bool>,
    /// Number of puts and gets that will fail.
    pub puts_fail: AtomicU32,
    pub gets_fail: AtomicU32,
    /// Number of gets that will never be answered.
    pub gets_hang: AtomicU32,
    /// Corruption of the next part.
    pub corrupt_next: Mutex<Option<Corruption>>,
}

impl FaultyStore {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: InMemory::new(),
            open: watch::Sender::new(true),
            puts_fail: AtomicU32::new(0),
            gets_fail: AtomicU32::new(0),
            gets_hang: AtomicU32::new(0),
            corrupt_next: Mutex::default(),
        })
    }

    pub fn objects(self: &Arc<Self>) -> Objects {
        Objects::over(Arc::clone(self) as _, TIMEOUT)
    }

    /// Blocks puts until the store is opened again.
    pub fn set_open(&self, open: bool) {
        self.open.send_replace(open);
    }

    /// The names of all objects.
    pub async fn names(&self) -> Vec<String> {
        let listed = self.inner.list(None).map(|meta| meta.expect("listed").location.to_string());
        let mut names: Vec<String> = listed.collect().await;
        names.sort();
        names
    }

    pub async fn read(&self, name: &str) -> Vec<u8> {
        self.inner.get(&Path::from(name)).await.expect("an object").bytes().await.expect("bytes").to_vec()
    }

    pub async fn write(&self, name: &str, bytes: &[u8]) {
        self.inner.put(&Path::from(name), bytes.to_vec().into()).await.expect("stored");
    }

    pub async fn remove(&self, name: &str) {
        self.inner.delete(&Path::from(name)).await.expect("removed");
    }
}

/// Decrements a count; `false` at 0.
fn take(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1)).is_ok()
}

fn broken() -> Error {
    Error::Generic { store: "faulty", source: "on purpose".into() }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let mut open = self.open.subscribe();
        open.wait_for(|open| *open).await.map_err(|_| broken())?;
        if take(&self.puts_fail) {
            return Err(broken());
        }
        let corruption = if location.as_ref().contains("/part-") {
            self.corrupt_next.lock().expect("no panic").take()
        } else {
            None
        };
        let mut bytes: Vec<u8> = payload.iter().flat_map(|piece| piece.to_vec()).collect();
        let half = bytes.len() / 2;
        match corruption {
            None => {}
            Some(Corruption::Truncated) => bytes.truncate(half),
            Some(Corruption::Flipped) => bytes[half] ^= 1,
            Some(Corruption::Lost) => {
                return Ok(PutResult { e_tag: None, version: None, extensions: Default::default() });
            }
        }
        self.inner.put_opts(location, bytes.into(), opts).await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(broken())
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if take(&self.gets_hang) {
            std::future::pending::<()>().await;
        }
        if take(&self.gets_fail) {
            return Err(broken());
        }
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(broken())
    }
}
