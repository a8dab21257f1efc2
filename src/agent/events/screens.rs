//! What happens on the screens? Each is watched for as long as it is there, by itself: one that restarts or hangs makes
//! no difference to the others.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, mpsc};

use super::clipboard::Clipboard;
use super::keep::{LEAST_PAUSE, LONG_LIFE, LONGEST_PAUSE, Watcher};
use super::rest::{Place, Rest};
use crate::display::{Displays, Memory, Screen, Sign, Teller};
use hotdesk_base::backoff::Backoff;
use hotdesk_domain::event::{IDLE_SECONDS, Kind};
use hotdesk_http::feed::Feed;
use hotdesk_wire::event::{Data, Event};

/// What is found out here. One connection per screen serves all of them, so that a type which is wanted later knows
/// what was there before.
pub(super) const KINDS: &[Kind] = &[
    Kind::WindowFocus,
    Kind::WindowOpen,
    Kind::WindowClose,
    Kind::Clipboard,
    Kind::ScreenChange,
    Kind::Idle,
    Kind::Active,
    Kind::TitleChange,
];
/// How long the screens that are there at the beginning may take until they are watched; after that it has begun
/// without those that are down.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(4);

/// Watches the screens.
#[derive(Debug)]
pub(super) struct Screens {
    feed: Feed,
    displays: Displays,
}

impl Screens {
    pub(super) fn new(feed: Feed, displays: Displays) -> Self {
        Self { feed, displays }
    }
}

impl Watcher for Screens {
    const NAME: &'static str = "screens";
    const KINDS: &'static [Kind] = KINDS;

    async fn run(&mut self, begun: &(dyn Fn() + Send + Sync)) -> String {
        let rest = Rest::new(self.feed.clone());
        let mut added = self.displays.added();
        let mut known: Vec<Weak<Screen>> = Vec::new();
        let mut followed: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        // Each of the first screens holds one until it is watched.
        let (starting, mut started) = mpsc::channel::<()>(1);
        let (mut starting, mut has_begun) = (Some(starting), false);
        let deadline = tokio::time::sleep(BEGIN_TIMEOUT);
        tokio::pin!(deadline);
        loop {
            added.mark_unchanged();
            known.retain(|screen| screen.strong_count() > 0);
            for screen in self.displays.list() {
                if !known.iter().any(|other| other.as_ptr() == Arc::as_ptr(&screen)) {
                    known.push(Arc::downgrade(&screen));
                    let (feed, place) = (self.feed.clone(), rest.place());
                    followed.push(Box::pin(follow(feed, screen, place, starting.clone())));
                }
            }
            starting = None;
            tokio::select! {
                _ = added.changed() => {}
                Some(()) = followed.next() => {}
                _ = started.recv(), if !has_begun => {
                    has_begun = true;
                    begun();
                }
                () = &mut deadline, if !has_begun => {
                    has_begun = true;
                    begun();
                }
            }
        }
    }
}

/// Watches a screen until it has ended. One that was there when the watcher began comes with a `starting`, which it
/// drops once it is watched.
async fn follow(feed: Feed, screen: Arc<Screen>, place: Place, mut starting: Option<mpsc::Sender<()>>) {
    let is_new = starting.is_none();
    let memory = if is_new { Memory::of_new() } else { Memory::of_old() };
    let (copied, mut clipboard) = (Arc::new(Notify::new()), Clipboard::default());
    let mut backoff = Backoff::new(LEAST_PAUSE, LONGEST_PAUSE, LONG_LIFE);
    while screen.lives().await {
        let began = Instant::now();
        let why = match screen.watch(&memory, teller(&feed, &screen.id, &place, &copied)).await {
            Err(error) => error.to_string(),
            Ok(mut watching) => {
                place.begin(watching.rested, is_new);
                starting = None;
                loop {
                    tokio::select! {
                        why = watching.ended() => break why,
                        () = copied.notified() => clipboard.tell(&feed, &screen).await,
                    }
                }
            }
        };
        let pause = backoff.after(began.elapsed());
        if backoff.is_first() {
            tracing::warn!(screen = screen.id, why, "the screen is not watched for a while");
        }
        tokio::time::sleep(pause).await;
    }
    drop(starting);
    memory.close_all(&mut teller(&feed, &screen.id, &place, &copied));
    tokio::time::sleep(Duration::from_secs(IDLE_SECONDS.into())).await;
    place.leave();
}

/// Publishes what a screen's watch tells.
fn teller(feed: &Feed, screen: &str, place: &Place, copied: &Arc<Notify>) -> Teller {
    let (feed, screen) = (feed.clone(), screen.to_owned());
    let (place, copied) = (place.clone(), Arc::clone(copied));
    Box::new(move |sign| {
        let data = match sign {
            Sign::Opened { id, title } => Data::window_open(id, title, &*screen),
            Sign::Closed { id } => Data::window_close(id, &*screen),
            Sign::Focused { id, title } => Data::window_focus(id, title, &*screen),
            Sign::Titled { id, title } => Data::title_change(id, title, &*screen),
            Sign::Resized(size) => Data::ScreenChange {
                width: size.width.into(),
                height: size.height.into(),
                screen: screen.clone(),
            },
            Sign::Copied => return copied.notify_one(),
            Sign::Rested => return place.rested(),
            Sign::Moved => return place.moved(),
        };
        feed.publish(Event::now(data));
    })
}
