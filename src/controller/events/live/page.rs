//! State of one page: what it was told, and what it is told next.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::control::{ControlWatch, is_engaged};
use super::{LiveRecords, LiveUpdate};
use crate::computers::directory::AccountReach;
use crate::computers::view;
use crate::events::screens::{ScreenChanges, ScreenPicture};
use crate::web::origin::Origin;
use hotdesk_base::ids::{AccountId, ComputerId, WorkspaceId};
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::desktop::channel::{NORMAL, POLICY_VIOLATION, TOO_LARGE};
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_http::socket::{CloseReason, PeerGone, PeerMessage, Receiver, Sender};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::computer::live::{LiveClientMessage, LiveMessage};
use hotdesk_wire::desktop::action::control::ScreenControl;

/// Most computers in view of one page: more pictures than a large display shows. The agent of each is asked
/// once a second.
const MAX_IN_VIEW: usize = 200;
/// Largest message of a page in bytes: the ids of [`MAX_IN_VIEW`] computers need 8 KB, and a page may name
/// more.
const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// Least time between two changes of what is in view: people scroll, and each change begins and ends watches.
const VIEW_PAUSE: Duration = Duration::from_millis(250);
/// Least time between two lists of all computers: a client that changes its workspaces all the time makes the
/// store read two lists a second for each page. Somebody who lost access hears for no longer of a computer.
const LIST_PAUSE: Duration = Duration::from_millis(500);
/// Time after which a list that failed is repeated.
const LIST_RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Id of the boot screen, the only one that is watched.
const BOOT_SCREEN: &str = "default";

/// What a page says is in view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    /// The computers, at most [`MAX_IN_VIEW`].
    ids: Vec<ComputerId>,
    /// Pixels of the pictures that it shows; `None` for a page that shows none.
    pixels: Option<u32>,
}

/// Reads what a page says is in view, until it leaves or breaks the protocol. Returns how to close the
/// socket.
pub(super) async fn read(mut receiver: Receiver, view: watch::Sender<View>) -> CloseReason {
    while let Some(message) = receiver.receive().await {
        match parse(&message) {
            // Only the last one counts, however many a page sends.
            Ok(newest) => drop(view.send_replace(newest)),
            Err(closing) => return closing,
        }
    }
    CloseReason::new(NORMAL, "")
}

/// Returns what a message says is in view. Texts that are no ids are left out.
///
/// # Errors
/// How to close the socket of a page that sends anything else.
fn parse(message: &PeerMessage) -> Result<View, CloseReason> {
    let refused = || CloseReason::new(POLICY_VIOLATION, "a page sends {\"type\":\"watch\",\"ids\":[...]}");
    let PeerMessage::Text(text) = message else { return Err(refused()) };
    if text.len() > MAX_REQUEST_BYTES {
        return Err(CloseReason::new(TOO_LARGE, format!("a message has at most {MAX_REQUEST_BYTES} bytes")));
    }
    let LiveClientMessage::Watch { ids, pixels } =
        serde_json::from_str(text.as_str()).map_err(|_| refused())?;
    Ok(View { ids: ids.iter().filter_map(|id| id.parse().ok()).take(MAX_IN_VIEW).collect(), pixels })
}

/// A computer that the page knows.
#[derive(Debug)]
struct KnownComputer {
    /// Hash of the record that the page has.
    digest: u64,
    workspace: WorkspaceId,
    size: Size,
    /// Watch of its controls, while it runs.
    control: Option<Arc<ControlWatch>>,
}

/// A screen in view, until `ended`.
struct WatchedScreen {
    computer: ComputerId,
    changes: ScreenChanges,
    ended: CancellationToken,
}

/// The next change of a screen in view; `None` when it is not in view any more.
type NextChange = BoxFuture<'static, Option<WatchedScreen>>;

impl WatchedScreen {
    fn next_change(mut self) -> NextChange {
        async move {
            let ended = self.ended.clone();
            tokio::select! {
                biased;
                () = ended.cancelled() => None,
                changed = self.changes.next() => changed.ok().map(|()| self),
            }
        }
        .boxed()
    }
}

/// One page.
pub(super) struct Page<'a> {
    live: &'a LiveRecords,
    sender: &'a Sender,
    account: AccountId,
    origin: Origin,
    /// `None` before the first list.
    reach: Option<AccountReach>,
    known: HashMap<ComputerId, KnownComputer>,
    /// Screens of which the page was told that somebody holds them or asks for help.
    engaged: HashSet<(ComputerId, String)>,
    /// Watches whose controls the page has not been told, or may have missed.
    new_controls: Vec<Arc<ControlWatch>>,
    /// The computers in view, as the page said.
    in_view: HashSet<ComputerId>,
    /// Pixels of the pictures that it shows; `None` for a page that shows none.
    pixels: Option<u32>,
    /// Watches of those that it knows.
    watched: HashMap<ComputerId, DropGuard>,
    screens: FuturesUnordered<NextChange>,
    /// Time of the next list of all computers; `None` when none is needed.
    list_at: Option<Instant>,
    /// Earliest time of it.
    list_from: Instant,
}

impl<'a> Page<'a> {
    /// Creates the state of a page that has been told nothing.
    pub(super) fn new(live: &'a LiveRecords, account: AccountId, origin: Origin, sender: &'a Sender) -> Self {
        Self {
            live,
            sender,
            account,
            origin,
            reach: None,
            known: HashMap::new(),
            engaged: HashSet::new(),
            new_controls: Vec::new(),
            in_view: HashSet::new(),
            pixels: None,
            watched: HashMap::new(),
            screens: FuturesUnordered::new(),
            list_at: None,
            list_from: Instant::now(),
        }
    }

    /// Tells the page all computers, and then what changes, until it is gone. Returns how to close the
    /// socket.
    pub(super) async fn run(mut self, views: watch::Receiver<View>) -> CloseReason {
        let Err(PeerGone) = self.tell(views).await;
        CloseReason::new(NORMAL, "")
    }

    async fn tell(&mut self, mut views: watch::Receiver<View>) -> Result<Infallible, PeerGone> {
        // Both before the first list, so that no change in between is missed.
        let _reader = self.live.reader();
        let mut updates = self.live.updates.subscribe();
        let mut view_from = Instant::now();
        self.list().await?;
        loop {
            let (list_at, needs_list) = (self.list_at.unwrap_or(view_from), self.list_at.is_some());
            let next_view = async {
                sleep_until(view_from).await;
                views.changed().await
            };
            tokio::select! {
                () = sleep_until(list_at), if needs_list => self.list().await?,
                update = updates.recv() => match update {
                    Ok(update) => self.apply(update).await?,
                    Err(RecvError::Lagged(_)) => self.tell_again().await?,
                    // The service has the sender.
                    Err(RecvError::Closed) => return Err(PeerGone),
                },
                Ok(()) = next_view => {
                    view_from = Instant::now() + VIEW_PAUSE;
                    let View { ids, pixels } = views.borrow_and_update().clone();
                    if pixels != self.pixels {
                        // Pictures of another size need other watches.
                        self.watched.clear();
                        self.pixels = pixels;
                    }
                    self.in_view = ids.into_iter().collect();
                    self.watch_screens();
                }
                // While a list is due, it is not known whose screens the person may still see.
                Some(next) = self.screens.next(), if !needs_list => {
                    if let Some(screen) = next.filter(|screen| !screen.ended.is_cancelled()) {
                        let (computer, picture) = (screen.computer, screen.changes.picture());
                        self.screens.push(screen.next_change());
                        self.tell_screen(computer, picture).await?;
                    }
                }
            }
        }
    }

    async fn apply(&mut self, update: LiveUpdate) -> Result<(), PeerGone> {
        match update {
            // The list that is due has it. Until then it is not known who reaches it.
            LiveUpdate::Computer(..) if self.list_at.is_some() => Ok(()),
            LiveUpdate::Computer(_, Some(computer)) => {
                self.show(&computer).await?;
                self.watch_screens();
                self.tell_new_controls().await
            }
            LiveUpdate::Computer(id, None) => self.forget(id).await,
            LiveUpdate::Workspace(workspace) => {
                if self.known.values().any(|computer| computer.workspace == workspace) {
                    self.request_list();
                }
                Ok(())
            }
            LiveUpdate::Account(account) => {
                if account == self.account {
                    self.request_list();
                }
                Ok(())
            }
            LiveUpdate::EveryComputer => {
                self.request_list();
                Ok(())
            }
            LiveUpdate::Control(computer, control) => {
                if self.known.contains_key(&computer) {
                    self.tell_control(computer, &control).await?;
                }
                Ok(())
            }
            LiveUpdate::Thread(thread, computer, status) => {
                if !self.known.contains_key(&computer) {
                    return Ok(());
                }
                let (id, computer_id) = (thread.to_string(), computer.to_string());
                let status = status.to_owned();
                self.sender.json(&LiveMessage::Thread { id, computer_id, status }).await
            }
        }
    }

    /// Makes up for missed updates of computers and controls.
    async fn tell_again(&mut self) -> Result<(), PeerGone> {
        self.request_list();
        let watches = self.known.values().filter_map(|computer| computer.control.clone());
        self.new_controls.extend(watches);
        self.tell_new_controls().await
    }

    /// Asks for a list of all computers, as soon as that may be.
    fn request_list(&mut self) {
        self.list_at.get_or_insert(self.list_from);
    }

    /// Compares all computers that the person reaches with what the page knows, and tells the difference.
    async fn list(&mut self) -> Result<(), PeerGone> {
        let (reach, computers) = match self.live.directory.reachable(self.account).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(
                    error = format_args!("{error:#}"),
                    "could not list the computers for a page of the console; it is retried"
                );
                self.list_at = Some(Instant::now() + LIST_RETRY_PAUSE);
                return Ok(());
            }
        };
        (self.list_at, self.list_from) = (None, Instant::now() + LIST_PAUSE);
        let is_first = self.reach.replace(reach).is_none();
        for id in missing(self.known.keys(), &computers) {
            self.forget(id).await?;
        }
        for computer in &computers {
            self.show(computer).await?;
        }
        if is_first {
            self.sender.json(&LiveMessage::Ready).await?;
        }
        self.watch_screens();
        self.tell_new_controls().await
    }

    /// Tells the page a computer, unless it has this record. One that the person does not reach is gone.
    async fn show(&mut self, computer: &Computer) -> Result<(), PeerGone> {
        let id = computer.id;
        if !self.reach.as_ref().is_some_and(|reach| reach.includes(computer)) {
            return self.forget(id).await;
        }
        let live = self.live;
        let record = view::listed_record(computer, live.fleet.live_details(id), &self.origin);
        let message = LiveMessage::Computer { computer: Box::new(record) };
        let text = match serde_json::to_string(&message) {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(%error, computer = %id, "could not serialize the record of a computer");
                return Ok(());
            }
        };
        let (workspace, size) = (computer.workspace, computer.hardware.resolution.size);
        let before = self.known.remove(&id);
        let (known_digest, control) =
            before.map_or((None, None), |known| (Some(known.digest), known.control));
        let control = match (computer.status == Status::Running, control) {
            (false, _) => None,
            (true, Some(control)) => Some(control),
            (true, None) => {
                let control = live.controls.watch(id);
                self.new_controls.push(Arc::clone(&control));
                Some(control)
            }
        };
        let digest = digest(&text);
        self.known.insert(id, KnownComputer { digest, workspace, size, control });
        if known_digest == Some(digest) { Ok(()) } else { self.sender.text(text).await }
    }

    /// Tells the page that a computer is gone, if it knows it.
    async fn forget(&mut self, id: ComputerId) -> Result<(), PeerGone> {
        if self.known.remove(&id).is_none() {
            return Ok(());
        }
        self.engaged.retain(|(computer, _)| *computer != id);
        self.watched.remove(&id);
        self.sender.json(&LiveMessage::Gone { id: id.to_string() }).await
    }

    /// Tells the page the controls that it may not know.
    async fn tell_new_controls(&mut self) -> Result<(), PeerGone> {
        for watch in std::mem::take(&mut self.new_controls) {
            for control in watch.controls() {
                self.tell_control(watch.computer(), &control).await?;
            }
        }
        Ok(())
    }

    /// Tells the page the control of a screen, unless nobody holds it and the page never heard otherwise.
    async fn tell_control(&mut self, computer: ComputerId, control: &ScreenControl) -> Result<(), PeerGone> {
        let key = (computer, control.screen.clone());
        let was_engaged =
            if is_engaged(control) { !self.engaged.insert(key) } else { self.engaged.remove(&key) };
        if !was_engaged && !is_engaged(control) {
            return Ok(());
        }
        let (id, screen) = (computer.to_string(), control.screen.clone());
        self.sender.json(&LiveMessage::Control { id, screen, control: Box::new(control.clone()) }).await
    }

    /// Tells the page that a screen changed: by its picture, if it shows pictures and there is one.
    async fn tell_screen(&mut self, computer: ComputerId, picture: ScreenPicture) -> Result<(), PeerGone> {
        let id = computer.to_string();
        match picture {
            ScreenPicture::Image(message) if self.pixels.is_some() => self.sender.binary(message).await,
            ScreenPicture::Failed(error) if self.pixels.is_some() => {
                self.sender.json(&LiveMessage::NoPicture { id, error }).await
            }
            ScreenPicture::None | ScreenPicture::Image(_) | ScreenPicture::Failed(_) => {
                self.sender.json(&LiveMessage::Screen { id, screen: BOOT_SCREEN.to_owned() }).await
            }
        }
    }

    /// Begins and ends watches of screens, so that those of the known computers in view are watched.
    fn watch_screens(&mut self) {
        let (live, known, in_view) = (self.live, &self.known, &self.in_view);
        self.watched.retain(|id, _| in_view.contains(id) && known.contains_key(id));
        for id in in_view {
            let Some(computer) = known.get(id).filter(|_| !self.watched.contains_key(id)) else { continue };
            let (fleet, tasks, size) = (&live.fleet, &live.tasks, computer.size);
            let changes = match self.pixels {
                Some(pixels) => live.screens.watch_pictures(fleet, tasks, *id, size, pixels),
                None => {
                    let mut changes = live.screens.watch(fleet, tasks, *id, size);
                    changes.begin_at_once();
                    changes
                }
            };
            let ended = CancellationToken::new();
            let screen = WatchedScreen { computer: *id, changes, ended: ended.clone() };
            self.screens.push(screen.next_change());
            self.watched.insert(*id, ended.drop_guard());
        }
    }
}

/// Returns the known computers that are not in a list.
fn missing<'a>(known: impl Iterator<Item = &'a ComputerId>, list: &[Computer]) -> Vec<ComputerId> {
    let listed: HashSet<ComputerId> = list.iter().map(|computer| computer.id).collect();
    known.filter(|id| !listed.contains(id)).copied().collect()
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> PeerMessage {
        PeerMessage::Text(text.to_owned().into())
    }

    #[test]
    fn a_page_names_what_is_in_view() {
        let ids: Vec<ComputerId> = (0..MAX_IN_VIEW + 5).map(|_| ComputerId::random()).collect();
        let list =
            |ids: &[ComputerId]| ids.iter().map(|id| format!("\"{id}\"")).collect::<Vec<_>>().join(",");
        let watch = |ids: &str| text(&format!(r#"{{"type":"watch","ids":[{ids}]}}"#));
        let named = |message: &PeerMessage| parse(message).unwrap().ids;
        assert_eq!(parse(&watch("")).unwrap(), View::default());
        assert_eq!(named(&watch(&list(&ids[..2]))), ids[..2]);
        assert_eq!(named(&watch(&format!("\"c1\",{}", list(&ids[..1])))), ids[..1]);
        assert_eq!(named(&watch(&list(&ids))), ids[..MAX_IN_VIEW]);
        let pictures = text(r#"{"type":"watch","ids":[],"pixels":50000}"#);
        assert_eq!(parse(&pictures).unwrap().pixels, Some(50_000));
    }

    #[test]
    fn anything_else_closes_the_socket() {
        let long = format!(r#"{{"type":"watch","ids":["{}"]}}"#, "x".repeat(MAX_REQUEST_BYTES));
        for (message, code) in [
            (text(""), POLICY_VIOLATION),
            (text("{}"), POLICY_VIOLATION),
            (text(r#"{"type":"ping"}"#), POLICY_VIOLATION),
            (text(r#"{"type":"watch","ids":[1]}"#), POLICY_VIOLATION),
            (PeerMessage::Binary(Vec::new().into()), POLICY_VIOLATION),
            (text(&long), TOO_LARGE),
        ] {
            assert_eq!(parse(&message).unwrap_err().code, code, "{message:.80?}");
        }
    }
}
