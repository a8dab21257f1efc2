//! Which folders are watched now, and under which names are their files told?

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, EventKind, ModifyKind, RenameMode};
use notify::{INotifyWatcher, RecursiveMode, Watcher as _};

use super::folder::Folder;
use super::places::{self, NAMES, Place};
use hotdesk_domain::event::Kind;
use hotdesk_http::feed::Feed;
use hotdesk_wire::event::{Data, Event, FileAction};

/// What browsers append to the name of a download that is not complete.
const UNFINISHED: [&str; 2] = ["crdownload", "part"];
/// How long files wait for a listener that has a lot before it: several times as long as a controller may wait for
/// clients of its own. No other events wait for them.
const ROOM_TIMEOUT: Duration = Duration::from_secs(2);
/// The name of the folder of downloads.
const DOWNLOADS: &str = "Downloads";

/// The folders that are watched.
pub(super) struct Folders {
    home: PathBuf,
    feed: Feed,
    watcher: INotifyWatcher,
    parents: BTreeSet<PathBuf>,
    watched: Vec<(Place, Folder)>,
}

impl Folders {
    /// Watches the folders that there are; what is in them is no news.
    pub(super) fn new(home: &Path, feed: Feed, watcher: INotifyWatcher) -> notify::Result<Self> {
        let mut folders =
            Self { home: home.to_owned(), feed, watcher, parents: BTreeSet::new(), watched: Vec::new() };
        folders.watch_parents(&places::places(home));
        for place in places::places(home) {
            folders.watcher.watch(&place.real, RecursiveMode::NonRecursive)?;
            let mut folder = Folder::new(&place.real);
            folder.look(&mut |_, _| {});
            folders.watched.push((place, folder));
        }
        Ok(folders)
    }

    /// Takes in a notice.
    pub(super) fn take(&mut self, notice: &notify::Event) -> notify::Result<()> {
        if let EventKind::Modify(ModifyKind::Name(RenameMode::Both)) = notice.kind {
            // Both halves were noticed already.
            self.note_download(&notice.paths);
            return Ok(());
        }
        let [path] = notice.paths.as_slice() else { return Ok(()) };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let feed = &self.feed;
        if let Some((place, folder)) = self.watched.iter_mut().find(|(place, _)| place.real == parent) {
            let tell = &mut teller(feed, place);
            match notice.kind {
                EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(RenameMode::To)) => {
                    folder.appeared(name, tell);
                }
                EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => {
                    folder.vanished(name, tell);
                }
                EventKind::Modify(ModifyKind::Data(_)) => folder.written(name),
                EventKind::Access(AccessKind::Close(_)) => folder.closed(name, tell),
                EventKind::Modify(_) | EventKind::Access(_) | EventKind::Any | EventKind::Other => {}
            }
        }
        // A folder, or a link to one, came or went.
        let is_place = self.watched.iter().any(|(place, _)| place.real == *path);
        let is_named = NAMES.iter().any(|wanted| *wanted == name) && self.parents.contains(parent);
        if (is_place || is_named)
            && !matches!(notice.kind, EventKind::Access(_) | EventKind::Modify(ModifyKind::Data(_)))
        {
            return self.look_again();
        }
        Ok(())
    }

    /// When something is to be told next without a notice.
    pub(super) fn due(&self) -> Option<Instant> {
        self.watched.iter().filter_map(|(_, folder)| folder.due()).min()
    }

    /// Tells what is due.
    pub(super) fn tell_due(&mut self, now: Instant) {
        for (place, folder) in &mut self.watched {
            folder.tell_due(now, &mut teller(&self.feed, place));
        }
    }

    /// Watches other folders when the known ones are not the same any more. What is in them is news.
    pub(super) fn settle(&mut self) -> notify::Result<()> {
        let now = places::places(&self.home);
        if self.watched.iter().map(|(place, _)| place).ne(&now) {
            return self.look_again();
        }
        self.watch_parents(&now);
        Ok(())
    }

    /// Watches all folders anew and looks at what is in them. A notice of a folder that went may have ended the watch of
    /// the one that came in its place.
    pub(super) fn look_again(&mut self) -> notify::Result<()> {
        let now = places::places(&self.home);
        self.watch_parents(&now);
        let mut before = std::mem::take(&mut self.watched);
        for (place, _) in &before {
            // It may have ended by itself.
            let _ = self.watcher.unwatch(&place.real);
        }
        before.retain_mut(|(place, folder)| {
            let stays = now.contains(place);
            if !stays {
                folder.clear(&mut teller(&self.feed, place));
            }
            stays
        });
        for place in now {
            match self.watcher.watch(&place.real, RecursiveMode::NonRecursive) {
                Ok(()) => {}
                // It went at this moment, which will be noticed.
                Err(notify::Error { kind: notify::ErrorKind::PathNotFound, .. }) => continue,
                Err(error) => return Err(error),
            }
            let known = before.iter().position(|(known, _)| *known == place);
            let mut folder = known.map_or_else(|| Folder::new(&place.real), |at| before.swap_remove(at).1);
            let beyond = folder.look(&mut teller(&self.feed, &place));
            if beyond > 0 {
                self.feed.missed(Some(Kind::FileChange), beyond);
            }
            self.watched.push((place, folder));
        }
        Ok(())
    }

    /// Watches where the folders come and go. One that cannot be watched is looked at now and then all the same.
    fn watch_parents(&mut self, places: &[Place]) {
        let now: BTreeSet<PathBuf> = places::parents(&self.home, places).into_iter().collect();
        for gone in self.parents.difference(&now) {
            let _ = self.watcher.unwatch(gone);
        }
        self.parents.retain(|parent| now.contains(parent));
        for parent in now {
            if !self.parents.contains(&parent)
                && self.watcher.watch(&parent, RecursiveMode::NonRecursive).is_ok()
            {
                self.parents.insert(parent);
            }
        }
    }

    /// Tells when a file lost the name of a download that is not complete.
    fn note_download(&self, paths: &[PathBuf]) {
        let [from, to] = paths else { return };
        let unfinished = |path: &Path| {
            path.extension().is_some_and(|end| UNFINISHED.iter().any(|unfinished| *unfinished == end))
        };
        if !unfinished(from) || unfinished(to) {
            return;
        }
        let place = self.watched.iter().find(|(place, _)| Some(place.real.as_path()) == to.parent());
        let Some((place, _)) = place.filter(|(place, _)| place.shown.ends_with(DOWNLOADS)) else { return };
        // One that is gone again was complete all the same.
        let size_bytes = to.symlink_metadata().map_or(0, |facts| facts.len());
        let path = shown(&place.shown, to.file_name().unwrap_or_default());
        self.feed.publish(Event::now(Data::DownloadFinished { path, size_bytes }));
    }
}

/// Publishes what becomes of the files of a folder, as fast as it is listened to: what is not taken from inotify
/// meanwhile waits there, or is found by comparing.
fn teller(feed: &Feed, place: &Place) -> impl FnMut(&OsStr, FileAction) {
    let (feed, place) = (feed.clone(), place.clone());
    move |name, action| {
        let path = shown(&place.shown, name);
        let real_path = (place.real != place.shown).then(|| shown(&place.real, name));
        feed.block_for_room(ROOM_TIMEOUT);
        feed.publish(Event::now(Data::FileChange { path, action, real_path }));
    }
}

/// A path as JSON can carry it.
fn shown(folder: &Path, name: &OsStr) -> String {
    folder.join(name).to_string_lossy().into_owned()
}
