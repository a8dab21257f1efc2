//! In-memory object store with faults: it can wait, fail, and lose or change bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hotdesk::objects::{ObjectError, ObjectStore, Objects};
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
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
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
            objects: Mutex::default(),
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
        self.objects.lock().expect("no panic").keys().cloned().collect()
    }

    pub async fn read(&self, name: &str) -> Vec<u8> {
        self.objects.lock().expect("no panic").get(name).expect("an object").clone()
    }

    pub async fn write(&self, name: &str, bytes: &[u8]) {
        self.objects.lock().expect("no panic").insert(name.to_owned(), bytes.to_vec());
    }

    pub async fn remove(&self, name: &str) {
        self.objects.lock().expect("no panic").remove(name);
    }
}

/// Decrements a count; `false` at 0.
fn take(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1)).is_ok()
}

fn broken() -> ObjectError {
    ObjectError::Failed("on purpose".to_owned())
}

/// The part of a name behind a folder.
fn inside<'a>(name: &'a str, folder: &str) -> Option<&'a str> {
    if folder.is_empty() { Some(name) } else { name.strip_prefix(folder)?.strip_prefix('/') }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        let mut open = self.open.subscribe();
        open.wait_for(|open| *open).await.map_err(|_| broken())?;
        if take(&self.puts_fail) {
            return Err(broken());
        }
        let corruption =
            if name.contains("/part-") { self.corrupt_next.lock().expect("no panic").take() } else { None };
        let mut bytes = bytes.to_vec();
        let half = bytes.len() / 2;
        match corruption {
            None => {}
            Some(Corruption::Truncated) => bytes.truncate(half),
            Some(Corruption::Flipped) => bytes[half] ^= 1,
            Some(Corruption::Lost) => return Ok(()),
        }
        self.objects.lock().expect("no panic").insert(name.to_owned(), bytes);
        Ok(())
    }

    async fn get(&self, name: &str, most: usize) -> Result<Vec<u8>, ObjectError> {
        if take(&self.gets_hang) {
            std::future::pending::<()>().await;
        }
        if take(&self.gets_fail) {
            return Err(broken());
        }
        let objects = self.objects.lock().expect("no panic");
        let object = objects.get(name).ok_or(ObjectError::Missing)?;
        if object.len() > most {
            return Err(ObjectError::Failed("the object is too long".to_owned()));
        }
        Ok(object.clone())
    }

    async fn remove(&self, folder: &str) -> Result<(), ObjectError> {
        self.objects.lock().expect("no panic").retain(|name, _| inside(name, folder).is_none());
        Ok(())
    }

    async fn folders(&self, folder: &str) -> Result<Vec<String>, ObjectError> {
        let objects = self.objects.lock().expect("no panic");
        let names =
            objects.keys().filter_map(|name| Some(inside(name, folder)?.split_once('/')?.0.to_owned()));
        Ok(names.collect::<BTreeSet<_>>().into_iter().collect())
    }
}
