//! Logs of builds, in memory: bounded, and followed by any number of readers.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use hotdesk_base::clock;
use hotdesk_wire::computer::template::BuildLogEntry;

/// Most entries of a log; beyond it the oldest are dropped. An installation of a hundred packages writes about a thousand.
const MAX_ENTRIES: usize = 5000;
/// Longest line in bytes; the rest is cut off.
const MAX_LINE: usize = 2048;
/// Most bytes of the lines of a log (1 MiB), so that the logs of all builds take little memory.
const MAX_BYTES: usize = 1 << 20;

/// Part of a build, in the order in which they follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The document is published, and its build waits for its turn.
    #[default]
    Publish,
    /// The definition becomes steps.
    Compile,
    /// A computer boots.
    Boot,
    /// A step runs.
    Install,
    /// What was written becomes a layer.
    Snapshot,
    /// The services start, and must be up and healthy.
    Check,
    /// The layers are stored as those of the document.
    Record,
    /// The build ended well.
    Ready,
    /// It was cancelled.
    Cancel,
    /// It took too long.
    Timeout,
}

impl Phase {
    /// Returns the name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Compile => "compile",
            Self::Boot => "boot",
            Self::Install => "install",
            Self::Snapshot => "snapshot",
            Self::Check => "check",
            Self::Record => "record",
            Self::Ready => "ready",
            Self::Cancel => "cancel",
            Self::Timeout => "timeout",
        }
    }
}

/// Importance of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Progress and output.
    Info,
    /// The build ended well.
    Success,
    /// Something that the author may not expect.
    Warn,
    /// The build failed.
    Error,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Success => "success",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// The log of one build.
#[derive(Debug)]
pub struct BuildLog {
    entries: Mutex<Entries>,
    /// Number of entries so far, and whether the build has ended.
    news: watch::Sender<(u64, bool)>,
}

#[derive(Debug, Default)]
struct Entries {
    kept: VecDeque<BuildLogEntry>,
    /// Bytes of their lines.
    bytes: usize,
    dropped: u64,
    /// That of the last entry, or the one that was entered after it.
    phase: Phase,
}

impl Default for BuildLog {
    fn default() -> Self {
        Self { entries: Mutex::default(), news: watch::Sender::new((0, false)) }
    }
}

impl BuildLog {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry. `source` is a field of the definition file.
    pub fn add(&self, level: Level, phase: Phase, source: Option<&str>, line: &str) {
        let mut line = line.to_owned();
        if line.len() > MAX_LINE {
            line.truncate(line.floor_char_boundary(MAX_LINE));
            line.push('…');
        }
        let entry = BuildLogEntry {
            ts: clock::now().iso8601(),
            level: level.name().to_owned(),
            phase: phase.name().to_owned(),
            source: source.map(ToOwned::to_owned),
            line,
        };
        let count = {
            let mut entries = self.entries();
            entries.phase = phase;
            entries.bytes += entry.line.len();
            entries.kept.push_back(entry);
            while entries.kept.len() > MAX_ENTRIES || entries.bytes > MAX_BYTES {
                let Some(oldest) = entries.kept.pop_front() else { break };
                entries.bytes -= oldest.line.len();
                entries.dropped += 1;
            }
            entries.dropped + entries.kept.len() as u64
        };
        self.news.send_modify(|(seen, _)| *seen = count);
    }

    /// Begins a phase that has no entry yet.
    pub fn enter(&self, phase: Phase) {
        self.entries().phase = phase;
    }

    /// Adds the failure of the build to the phase in which it happened. Returns it with the name of that phase, for the
    /// status of the build.
    pub fn fail(&self, message: &str) -> String {
        let phase = self.entries().phase;
        self.add(Level::Error, phase, None, message);
        match phase {
            // The message says so itself.
            Phase::Cancel | Phase::Timeout => message.to_owned(),
            Phase::Publish
            | Phase::Compile
            | Phase::Boot
            | Phase::Install
            | Phase::Snapshot
            | Phase::Check
            | Phase::Record
            | Phase::Ready => format!("{}: {message}", phase.name()),
        }
    }

    /// Ends the log: readers end after its last entry.
    pub fn end(&self) {
        self.news.send_modify(|(_, ended)| *ended = true);
    }

    /// Waits for the entry with this number, or for the oldest that is kept after it. Returns it with the number of the
    /// next one; `None` at the end.
    pub async fn next(&self, number: u64) -> Option<(BuildLogEntry, u64)> {
        let mut news = self.news.subscribe();
        loop {
            let (_, ended) = *news.borrow_and_update();
            if let Some(found) = self.entry(number) {
                return Some(found);
            }
            // An error means that the log was dropped, which `&self` excludes.
            if ended || news.changed().await.is_err() {
                return None;
            }
        }
    }

    fn entry(&self, number: u64) -> Option<(BuildLogEntry, u64)> {
        let entries = self.entries();
        let number = number.max(entries.dropped);
        let at = usize::try_from(number - entries.dropped).ok()?;
        Some((entries.kept.get(at)?.clone(), number + 1))
    }

    /// Returns the last lines that steps wrote, at most this many.
    pub fn last_output(&self, most: usize) -> Vec<String> {
        let entries = self.entries();
        let output = entries.kept.iter().rev().filter(|entry| entry.source.is_some()).take(most);
        let mut lines: Vec<String> = output.map(|entry| entry.line.clone()).collect();
        lines.reverse();
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_has_the_phase_in_which_it_happened() {
        let log = BuildLog::default();
        assert_eq!(log.fail("no turn"), "publish: no turn");
        log.add(Level::Info, Phase::Install, Some("build.run[0]"), "some output");
        assert_eq!(log.fail("it ended with 7"), "install: it ended with 7");
        log.enter(Phase::Cancel);
        assert_eq!(log.fail("the build was cancelled"), "the build was cancelled");
        log.end();
        let (mut number, mut entries) = (0, Vec::new());
        while let Some((entry, next)) = log.next(number).await {
            entries.push(format!("{} {}", entry.phase, entry.level));
            number = next;
        }
        assert_eq!(entries, ["publish error", "install info", "install error", "cancel error"]);
    }

    #[tokio::test]
    async fn readers_get_every_kept_entry_and_the_end() {
        let log = BuildLog::default();
        for number in 0..MAX_ENTRIES + 3 {
            log.add(Level::Info, Phase::Install, Some("build.run[0]"), &number.to_string());
        }
        log.add(Level::Error, Phase::Install, None, &"é".repeat(MAX_LINE));
        let (first, next) = log.next(0).await.unwrap();
        assert_eq!((first.line.as_str(), next), ("4", 5));
        log.end();
        let (mut number, mut last) = (0, None);
        while let Some((entry, next)) = log.next(number).await {
            (number, last) = (next, Some(entry));
        }
        let last = last.unwrap();
        assert_eq!(
            (number, last.level.as_str(), last.line.len()),
            (5004, "error", MAX_LINE + '…'.len_utf8())
        );
        assert_eq!(log.last_output(2), ["5001", "5002"]);
        for _ in 0..MAX_BYTES / MAX_LINE + 9 {
            log.add(Level::Info, Phase::Install, Some("long"), &"x".repeat(MAX_LINE));
        }
        assert_eq!(log.last_output(MAX_ENTRIES).len(), MAX_BYTES / MAX_LINE);
    }
}
