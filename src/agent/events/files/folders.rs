//! The watched folders: their inotify watches and the events of their files.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, EventKind as NotifyKind, ModifyKind, RenameMode};
use notify::{INotifyWatcher, RecursiveMode, Watcher as _};

use super::folder::Folder;
use super::watched_folders::{self, NAMES, WatchedFolder};
use hotdesk_domain::desktop::event::EventKind;
use hotdesk_http::feed::Feed;
use hotdesk_wire::desktop::event::{Event, EventData, FileAction};

/// Extensions that browsers append to incomplete downloads.
const INCOMPLETE: [&str; 2] = ["crdownload", "part"];
/// How long file events wait for a slow listener: several times as long as a controller may wait for its own
/// clients. Other events do not wait.
const BACKPRESSURE_TIMEOUT: Duration = Duration::from_secs(2);
/// Name of the download folder.
const DOWNLOADS: &str = "Downloads";

/// The watched folders.
pub(super) struct Folders {
    home: PathBuf,
    feed: Feed,
    watcher: INotifyWatcher,
    parents: BTreeSet<PathBuf>,
    watched: Vec<(WatchedFolder, Folder)>,
}

impl Folders {
    /// Watches the existing folders; their present content is not reported.
    pub(super) fn new(home: &Path, feed: Feed, watcher: INotifyWatcher) -> notify::Result<Self> {
        let mut folders =
            Self { home: home.to_owned(), feed, watcher, parents: BTreeSet::new(), watched: Vec::new() };
        folders.watch_parents(&watched_folders::find_all(home));
        for location in watched_folders::find_all(home) {
            if folders.watch(&location)? {
                let mut folder = Folder::new(&location.real);
                folder.compare(&mut |_, _| {});
                folders.watched.push((location, folder));
            }
        }
        Ok(folders)
    }

    /// Handles a notice, and the time at which it was queued.
    pub(super) fn handle(&mut self, notice: &notify::Event, queued: Instant) -> notify::Result<()> {
        if let NotifyKind::Modify(ModifyKind::Name(RenameMode::Both)) = notice.kind {
            // Both halves of the rename were handled already.
            self.report_download(&notice.paths);
            return Ok(());
        }
        let [path] = notice.paths.as_slice() else { return Ok(()) };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let feed = &self.feed;
        let watched = self.watched.iter_mut().find(|(location, _)| location.real == parent);
        if let Some((location, folder)) = watched.filter(|(_, folder)| folder.compared() <= queued) {
            let report = &mut event_callback(feed, location);
            match notice.kind {
                NotifyKind::Create(_) | NotifyKind::Modify(ModifyKind::Name(RenameMode::To)) => {
                    folder.appeared(name, report);
                }
                NotifyKind::Remove(_) | NotifyKind::Modify(ModifyKind::Name(RenameMode::From)) => {
                    folder.vanished(name, report);
                }
                NotifyKind::Modify(ModifyKind::Data(_)) => folder.written(name),
                NotifyKind::Access(AccessKind::Close(_)) => folder.closed(name, report),
                NotifyKind::Modify(_) | NotifyKind::Access(_) | NotifyKind::Any | NotifyKind::Other => {}
            }
        }
        // A watched folder or a link to it appeared or vanished.
        let is_place = self.watched.iter().any(|(location, _)| location.real == *path);
        let is_named = NAMES.iter().any(|wanted| *wanted == name) && self.parents.contains(parent);
        if (is_place || is_named)
            && !matches!(notice.kind, NotifyKind::Access(_) | NotifyKind::Modify(ModifyKind::Data(_)))
        {
            return self.rescan();
        }
        Ok(())
    }

    /// When the next report without a notice is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.watched.iter().filter_map(|(_, folder)| folder.due()).min()
    }

    /// Reports the files that are due.
    pub(super) fn report_due(&mut self, now: Instant) {
        for (location, folder) in &mut self.watched {
            folder.report_due(now, &mut event_callback(&self.feed, location));
        }
    }

    /// Watches other folders when the folders have changed; their content is reported.
    pub(super) fn check(&mut self) -> notify::Result<()> {
        let now = watched_folders::find_all(&self.home);
        if self.watched.iter().map(|(location, _)| location).ne(&now) {
            return self.rescan();
        }
        self.watch_parents(&now);
        Ok(())
    }

    /// Renews all watches and compares all folders. A notice about a removed folder may have ended the watch
    /// of its successor.
    pub(super) fn rescan(&mut self) -> notify::Result<()> {
        let now = watched_folders::find_all(&self.home);
        self.watch_parents(&now);
        let mut before = std::mem::take(&mut self.watched);
        for (location, _) in &before {
            // The watch may have ended by itself.
            let _ = self.watcher.unwatch(&location.real);
        }
        before.retain_mut(|(location, folder)| {
            let stays = now.contains(location);
            if !stays {
                folder.clear(&mut event_callback(&self.feed, location));
            }
            stays
        });
        for location in now {
            let known = before.iter().position(|(known, _)| *known == location);
            let mut folder = known.map_or_else(|| Folder::new(&location.real), |at| before.swap_remove(at).1);
            if !self.watch(&location)? {
                folder.clear(&mut event_callback(&self.feed, &location));
                continue;
            }
            let beyond = folder.compare(&mut event_callback(&self.feed, &location));
            if beyond > 0 {
                self.feed.report_missed(Some(EventKind::FileChange), beyond);
            }
            self.watched.push((location, folder));
        }
        Ok(())
    }

    /// Watches a folder. Returns false when it vanished just now: the watch of its parent reports a successor.
    fn watch(&mut self, location: &WatchedFolder) -> notify::Result<bool> {
        match self.watcher.watch(&location.real, RecursiveMode::NonRecursive) {
            Ok(()) => Ok(true),
            Err(error) if has_vanished(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Watches the parent folders. A parent that cannot be watched is covered by the regular check.
    fn watch_parents(&mut self, all: &[WatchedFolder]) {
        let now: BTreeSet<PathBuf> = watched_folders::parents(&self.home, all).into_iter().collect();
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

    /// Reports a download when its file loses the extension of an incomplete one.
    fn report_download(&self, paths: &[PathBuf]) {
        let [from, to] = paths else { return };
        let incomplete = |path: &Path| {
            path.extension().is_some_and(|end| INCOMPLETE.iter().any(|incomplete| *incomplete == end))
        };
        if !incomplete(from) || incomplete(to) {
            return;
        }
        let location = self.watched.iter().find(|(location, _)| Some(location.real.as_path()) == to.parent());
        let Some((location, _)) = location.filter(|(location, _)| location.shown.ends_with(DOWNLOADS)) else {
            return;
        };
        // A file that has vanished again was complete all the same.
        let size_bytes = to.symlink_metadata().map_or(0, |facts| facts.len());
        let path = event_path(&location.shown, to.file_name().unwrap_or_default());
        self.feed.publish(Event::now(EventData::DownloadFinished { path, size_bytes }));
    }
}

/// Whether a folder vanished before or while its watch was added: notify looks at it once more afterwards.
fn has_vanished(error: &notify::Error) -> bool {
    match &error.kind {
        notify::ErrorKind::PathNotFound => true,
        notify::ErrorKind::Io(error) => error.kind() == std::io::ErrorKind::NotFound,
        notify::ErrorKind::Generic(_)
        | notify::ErrorKind::WatchNotFound
        | notify::ErrorKind::InvalidConfig(_)
        | notify::ErrorKind::MaxFilesWatch => false,
    }
}

/// Returns the callback that publishes a folder's changes at the speed of the listeners: meanwhile notices
/// wait in inotify, or are found by comparing.
fn event_callback(feed: &Feed, location: &WatchedFolder) -> impl FnMut(&OsStr, FileAction) {
    let (feed, location) = (feed.clone(), location.clone());
    move |name, action| {
        let path = event_path(&location.shown, name);
        let real_path = (location.real != location.shown).then(|| event_path(&location.real, name));
        feed.block_for_space(BACKPRESSURE_TIMEOUT);
        feed.publish(Event::now(EventData::FileChange { path, action, real_path }));
    }
}

/// Returns the path of a file for an event; invalid UTF-8 is replaced.
fn event_path(folder: &Path, name: &OsStr) -> String {
    folder.join(name).to_string_lossy().into_owned()
}
