//! Changes of screens. One watch per computer asks its agent each second, and only while somebody watches:
//! subscriptions of MCP clients and pages of the console share it.
//!
//! ```text
//! subscriptions -- hold --> watch of a computer --> GET /screenshot, If-None-Match: the last frame
//!       ^------- number of changes --------|              304, or another frame
//! ```
//! The desktop events have none for what programs paint. A frame has another name after anything was painted,
//! wherever that was, so that one pixel of it is enough. Where a subscriber shows the screen, the look is for
//! a small picture of all of it, so that nobody fetches one afterwards.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::computers::fleet::Fleet;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_guest::ConditionalScreenshot;
use hotdesk_http::headers::image_headers::IfNoneMatch;
use hotdesk_wire::desktop::screenshot::ScreenshotQuery;

/// Time between two looks at a screen: a client reads a picture for each notification.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// Time after a failed look. The agent may be busy or of an earlier version, so that the next fails as well.
const FAILED_INTERVAL: Duration = Duration::from_secs(10);
/// Failed looks one after another before [`FAILED_INTERVAL`]: the screen of a computer that has just started
/// may be a moment late, and a person waits for its picture.
const QUICK_FAILURES: u32 = 3;
/// How long a subscription waits for the first look. Later changes are told; a slow agent must not hold the
/// request.
const FIRST_LOOK_TIMEOUT: Duration = Duration::from_secs(3);
/// The part of the screen that is looked at without pictures. Its pixels do not matter, so that it is the
/// smallest.
const REGION: &str = "0,0,1,1";
/// JPEG quality of pictures: they are shown small, and text in them can hardly be read anyway.
const PICTURE_QUALITY: u8 = 60;
/// Least and most pixels of a picture: those of an icon, and of half a page.
const PICTURE_PIXELS: RangeInclusive<u32> = 1_000..=600_000;
/// Most bytes of a picture: more than JPEG of this quality needs for a page of text. Each watch holds one,
/// and a page has at most 200 watches.
const MAX_PICTURE_BYTES: u32 = 256 * 1024;

/// Watches of all computers; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ScreenWatches(Arc<Mutex<Watches>>);

type Watches = HashMap<ComputerId, Weak<ScreenWatch>>;

/// Watch of one computer, which its subscribers share; it ends with the last of them.
#[derive(Debug)]
struct ScreenWatch {
    computer: ComputerId,
    /// Number of changes since the first look; `None` until that.
    changes: watch::Receiver<Option<u64>>,
    pictures: Arc<Pictures>,
    watches: Arc<Mutex<Watches>>,
    _looking: DropGuard,
}

/// A subscription's view of a watch.
#[derive(Debug)]
pub struct ScreenChanges {
    count: watch::Receiver<Option<u64>>,
    /// The count that the subscriber knows of; `None` when the first look itself is a change for it.
    known: Option<u64>,
    /// What it wants of the pictures, if anything.
    _wish: Option<PictureWish>,
    watch: Arc<ScreenWatch>,
}

/// What a subscriber that wants pictures is given after a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ScreenPicture {
    /// The computer does not run, or no look was for a picture yet.
    #[default]
    None,
    /// The newest picture, behind the id of its computer as text of 36 bytes: the same message for all
    /// subscribers.
    Image(Bytes),
    /// There is no picture, and the last look failed for this reason.
    Failed(String),
}

/// Pictures of a watched screen.
#[derive(Debug, Default)]
struct Pictures {
    /// Most pixels of a picture, for each subscriber that wants pictures.
    wishes: Mutex<Vec<u32>>,
    newest: Mutex<ScreenPicture>,
}

/// A subscriber's wish for pictures, until it is dropped.
#[derive(Debug)]
struct PictureWish {
    pixels: u32,
    pictures: Arc<Pictures>,
}

impl Pictures {
    /// Adds a wish for pictures of about so many pixels.
    fn wish(self: &Arc<Self>, pixels: u32) -> PictureWish {
        let pixels = pixels.clamp(*PICTURE_PIXELS.start(), *PICTURE_PIXELS.end());
        lock(&self.wishes).push(pixels);
        PictureWish { pixels, pictures: Arc::clone(self) }
    }

    /// Returns the pixels of the next picture: those of the largest wish.
    fn pixels(&self) -> Option<u32> {
        lock(&self.wishes).iter().copied().max()
    }

    /// Returns whether there is a picture.
    fn has_image(&self) -> bool {
        matches!(*lock(&self.newest), ScreenPicture::Image(_))
    }

    /// Notes a picture of the whole screen, unless the last wish has ended since the look began.
    fn put(&self, computer: ComputerId, image: &[u8]) {
        let id = computer.to_string();
        let mut message = BytesMut::with_capacity(id.len() + image.len());
        message.put_slice(id.as_bytes());
        message.put_slice(image);
        let wishes = lock(&self.wishes);
        if !wishes.is_empty() {
            *lock(&self.newest) = ScreenPicture::Image(message.freeze());
        }
    }

    /// Notes a failed look. The picture before it stays, as it does on the pages. Returns whether subscribers
    /// have no picture for a reason that they do not know.
    fn fail(&self, why: &str) -> bool {
        let failed = ScreenPicture::Failed(why.to_owned());
        let wishes = lock(&self.wishes);
        let mut newest = lock(&self.newest);
        if wishes.is_empty() || matches!(*newest, ScreenPicture::Image(_)) || *newest == failed {
            return false;
        }
        *newest = failed;
        true
    }
}

impl Drop for PictureWish {
    fn drop(&mut self) {
        let mut wishes = lock(&self.pictures.wishes);
        if let Some(own) = wishes.iter().position(|pixels| *pixels == self.pixels) {
            wishes.swap_remove(own);
        }
        if wishes.is_empty() {
            *lock(&self.pictures.newest) = ScreenPicture::None;
        }
    }
}

impl ScreenWatches {
    /// Watches the boot screen of a computer, also while it does not run. The caller has checked access.
    pub fn watch(&self, fleet: &Fleet, tasks: &Tasks, computer: ComputerId, size: Size) -> ScreenChanges {
        let (watch, _no_wish) = self.find_or_begin(fleet, tasks, computer, size, None);
        ScreenChanges::of(watch, None)
    }

    /// The same for a subscriber that shows a picture of about so many pixels after each change
    /// ([`ScreenChanges::picture`]). The present state is a change. All subscribers get the largest picture
    /// that one of them wants. Another size counts as a change, because a frame of it has another name.
    pub fn watch_pictures(
        &self,
        fleet: &Fleet,
        tasks: &Tasks,
        computer: ComputerId,
        size: Size,
        pixels: u32,
    ) -> ScreenChanges {
        let (watch, wish) = self.find_or_begin(fleet, tasks, computer, size, Some(pixels));
        let mut changes = ScreenChanges::of(watch, wish);
        changes.begin_with_change();
        changes
    }

    /// Returns how many computers are watched.
    #[cfg(test)]
    fn count(&self) -> usize {
        lock(&self.0).len()
    }

    fn find_or_begin(
        &self,
        fleet: &Fleet,
        tasks: &Tasks,
        computer: ComputerId,
        size: Size,
        pixels: Option<u32>,
    ) -> (Arc<ScreenWatch>, Option<PictureWish>) {
        let mut watches = lock(&self.0);
        if let Some(watch) = watches.get(&computer).and_then(Weak::upgrade) {
            let wish = pixels.map(|pixels| watch.pictures.wish(pixels));
            return (watch, wish);
        }
        let (sender, changes) = watch::channel(None);
        let pictures = Arc::<Pictures>::default();
        // Before the first look, which is for a picture then.
        let wish = pixels.map(|pixels| pictures.wish(pixels));
        let ended = CancellationToken::new();
        let (left, stopping) = (ended.clone(), tasks.stopping());
        let looking = look_each_second(fleet.clone(), computer, size, Arc::clone(&pictures), sender);
        let _task = tasks.spawn("screen watch", async move {
            tokio::select! {
                () = left.cancelled() => {}
                () = stopping.cancelled() => {}
                never = looking => match never {},
            }
        });
        let (all, looking) = (Arc::clone(&self.0), ended.drop_guard());
        let watch = Arc::new(ScreenWatch { computer, changes, pictures, watches: all, _looking: looking });
        watches.insert(computer, Arc::downgrade(&watch));
        (watch, wish)
    }
}

impl Drop for ScreenWatch {
    fn drop(&mut self) {
        let mut watches = lock(&self.watches);
        // Another subscription may have begun the next watch in this moment.
        if watches.get(&self.computer).is_some_and(|watch| watch.strong_count() == 0) {
            watches.remove(&self.computer);
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ScreenChanges {
    fn of(watch: Arc<ScreenWatch>, wish: Option<PictureWish>) -> Self {
        let count = watch.changes.clone();
        let known = Some(count.borrow().unwrap_or_default());
        Self { count, known, _wish: wish, watch }
    }

    /// Returns the newest picture, for a subscriber that wants pictures.
    pub fn picture(&self) -> ScreenPicture {
        lock(&self.watch.pictures.newest).clone()
    }

    /// Waits for the first look, at most [`FIRST_LOOK_TIMEOUT`]. A picture that is taken after this differs
    /// from the screen only by changes that [`Self::next`] tells.
    pub async fn begin(&mut self) {
        self.begin_within(FIRST_LOOK_TIMEOUT).await;
    }

    /// Begins without a wait. The first look is a change if it is still to come: the subscriber may have seen
    /// an earlier picture.
    pub fn begin_at_once(&mut self) {
        if self.count.borrow().is_none() {
            self.begin_with_change();
        }
    }

    /// Makes the present state a change. For a subscriber who was told earlier that changes are told.
    pub fn begin_with_change(&mut self) {
        self.known = None;
    }

    async fn begin_within(&mut self, timeout: Duration) {
        let looked = self.count.wait_for(Option::is_some);
        if tokio::time::timeout(timeout, looked).await.is_err() {
            self.begin_with_change();
        }
    }

    /// Waits until the screen has changed since the last call. Cancel-safe.
    ///
    /// # Errors
    /// `Unavailable` when the service stops.
    pub async fn next(&mut self) -> Result<()> {
        let known = self.known;
        let changed = self.count.wait_for(|count| *count > known).await;
        self.known = *changed.map_err(|_| Error::unavailable("The service is shutting down"))?;
        Ok(())
    }
}

/// What a look at a screen found.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// The computer does not run.
    Away,
    /// The same frame.
    Same,
    /// A frame with this name.
    Other(Arc<str>),
}

/// Counts the changes of a screen. It never returns; it ends by being dropped.
async fn look_each_second(
    fleet: Fleet,
    computer: ComputerId,
    size: Size,
    pictures: Arc<Pictures>,
    sender: watch::Sender<Option<u64>>,
) -> Infallible {
    let mut frame: Option<Arc<str>> = None;
    let mut failures = 0;
    let mut has_warned = false;
    // Of the last frame.
    let mut frame_pixels = None;
    loop {
        let pixels = pictures.pixels();
        // Whoever wants a picture needs one, also of a frame that has been seen.
        let is_held = pixels == frame_pixels && (pixels.is_none() || pictures.has_image());
        let known = frame.as_ref().filter(|_| is_held);
        let pause = match look(&fleet, computer, size, known, pixels).await {
            Ok((found, image)) => {
                if let Look::Other(_) = found {
                    frame_pixels = pixels;
                }
                // Before the count, which tells of it.
                if let Some(image) = image.filter(|_| pixels.is_some()) {
                    pictures.put(computer, &image);
                }
                note(&sender, &mut frame, found);
                failures = 0;
                INTERVAL
            }
            Err(error) => {
                // A defect, or a hostile computer that sent something else than a small picture. Once for each
                // watch: the next looks find the same.
                if error.kind == Kind::Internal && !has_warned {
                    has_warned = true;
                    tracing::warn!(%computer, error = format_args!("{error:#}"), "could not look at a screen");
                } else {
                    tracing::debug!(%computer, error = format_args!("{error:#}"), "could not look at a screen");
                }
                let is_news = pixels.is_some() && pictures.fail(&error.message);
                let is_first = sender.borrow().is_none();
                if is_first || is_news {
                    count_change(&sender);
                }
                failures += 1;
                if failures < QUICK_FAILURES { INTERVAL } else { FAILED_INTERVAL }
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Looks at a screen, and returns the image of another frame. It neither wakes a computer nor counts as its
/// use. `pixels` are those of a picture of the whole screen.
async fn look(
    fleet: &Fleet,
    computer: ComputerId,
    size: Size,
    known: Option<&Arc<str>>,
    pixels: Option<u32>,
) -> Result<(Look, Option<Bytes>)> {
    // A frozen computer does not answer.
    let guest = fleet.running_guest(computer).filter(|_| !fleet.engine().is_frozen(computer));
    let Some(guest) = guest else { return Ok((Look::Away, None)) };
    let held = IfNoneMatch(known.into_iter().cloned().collect());
    Ok(match guest.screenshot(&query(pixels), size, &held).await? {
        ConditionalScreenshot::NotModified(_) => (Look::Same, None),
        ConditionalScreenshot::Image(image) => {
            let unnamed = || Error::failed("The computer's agent sent an image without its name");
            let frame = image.headers.ok_or_else(unnamed)?.frame;
            let found = if known == Some(&frame) { Look::Same } else { Look::Other(frame) };
            (found, Some(image.bytes))
        }
    })
}

/// Returns the query of a look.
fn query(pixels: Option<u32>) -> ScreenshotQuery {
    // The pointer alone is no change, and its image costs the X server another request.
    let plain = ScreenshotQuery { cursor: Some("off".to_owned()), ..ScreenshotQuery::default() };
    match pixels {
        Some(_) => ScreenshotQuery {
            format: Some("jpeg".to_owned()),
            quality: Some(PICTURE_QUALITY),
            max_pixels: pixels,
            max_bytes: Some(MAX_PICTURE_BYTES),
            ..plain
        },
        None => ScreenshotQuery { format: Some("png".to_owned()), region: Some(REGION.to_owned()), ..plain },
    }
}

/// Counts what a look found. The first frame is no change if it comes with the first look.
fn note(sender: &watch::Sender<Option<u64>>, frame: &mut Option<Arc<str>>, found: Look) {
    let is_first = sender.borrow().is_none();
    let changed = match found {
        Look::Away | Look::Same => false,
        Look::Other(name) => {
            *frame = Some(name);
            !is_first
        }
    };
    if is_first || changed {
        count_change(sender);
    }
}

/// Tells the subscribers of a change, or of the first look.
fn count_change(sender: &watch::Sender<Option<u64>>) {
    sender.send_modify(|count| *count = Some(count.map_or(0, |count| count + 1)));
}

#[cfg(test)]
mod tests;
